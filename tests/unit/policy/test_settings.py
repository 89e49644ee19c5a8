"""Which layer wins, and what a file may say."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec
import pytest

from magnetar.base.errors import Misuse, NotBuilt, NotFound, Refused
from magnetar.observe.log import ROOT
from magnetar.policy.config_key import Key
from magnetar.policy.policies import AutoTopicCreation, Policies, Retention
from magnetar.policy.settings import Settings
from magnetar.policy.table import KEYS


def test_each_layer_wins_over_those_below_and_explain_says_so() -> None:
    key = "activeConsumerFailoverConsistentHashing"
    settings = Settings()
    assert settings.explain(key).layer == "default"
    settings = Settings(file={key: "false"})
    assert settings.explain(key).layer == "file"
    settings = Settings(file={key: "false"}, given={key: "true"})
    assert settings.explain(key).layer == "command line"
    settings.replace_dynamic({key: "false"})
    assert (settings.get(key), settings.explain(key).layer) == (False, "dynamic")
    policies = Policies(activeConsumerFailoverConsistentHashing=True)
    assert settings.flag(key, policies)
    explained = settings.explain(key, policies)
    assert explained.layer == "namespace"
    assert explained.said == [
        ("namespace", True),
        ("dynamic", False),
        ("command line", True),
        ("file", False),
        ("default", False),
    ]
    assert not settings.flag(key, Policies())


def test_topics_policy_wins_over_its_namespaces() -> None:
    settings = Settings()
    policies = Policies(retention_policies=Retention(60, 512), max_producers_per_topic=10)
    topic = {"retentionPolicies": {"retentionTimeInMinutes": 5}, "maxProducerPerTopic": None}
    assert settings.number("defaultRetentionTimeInMinutes", policies, topic) == 5
    assert settings.number("defaultRetentionSizeInMB", policies, topic) == 512
    assert settings.number("maxProducersPerTopic", policies, topic) == 10
    assert settings.explain("defaultRetentionTimeInMinutes", policies, topic).layer == "topic"


def test_part_of_policy_that_is_unset_falls_through() -> None:
    settings = Settings(file={"defaultNumPartitions": "7"})
    policies = Policies(autoTopicCreationOverride=AutoTopicCreation(True, "partitioned"))
    assert settings.text("allowAutoTopicCreationType", policies) == "partitioned"
    assert settings.number("defaultNumPartitions", policies) == 7


def test_file_is_loaded_and_bad_value_refused(tmp_path: Path) -> None:
    file = tmp_path / "standalone.conf"
    file.write_text("# ours\nbrokerServicePort=7000\nmaxMessageSize=\n")
    settings = Settings.load(str(file), given={"webServicePort": "0"})
    assert settings.number("brokerServicePort") == 7000
    assert settings.number("maxMessageSize") == 5242880
    assert settings.number("webServicePort") == 0
    file.write_text("brokerServicePort=many\n")
    with pytest.raises(Misuse, match=r"brokerServicePort must be a port.*value=many"):
        Settings.load(str(file))
    with pytest.raises(NotFound):
        Settings.load(str(tmp_path / "missing.conf"))
    file.write_bytes(b"a=\xff\xfe")
    with pytest.raises(Misuse, match="not UTF-8"):
        Settings.load(str(file))


def test_unknown_and_unsupported_keys_are_kept_and_warned_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger=ROOT)
    file = {"noSuchKeyOfAnyone": "1", "retentionCheckIntervalInSeconds": "77", "transactionCoordinatorEnabled": "false"}
    for _ in range(2):
        settings = Settings(file=file)
    assert settings.unknown == {"noSuchKeyOfAnyone": "1"}
    assert settings.shown()["noSuchKeyOfAnyone"] == "*****"
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "unknown_setting_ignored key=noSuchKeyOfAnyone where=the file",
        "setting_not_supported key=retentionCheckIntervalInSeconds value=77 where=the file",
    ]


def test_dynamic_value_is_notified_once_and_invalid_one_refused() -> None:
    settings = Settings()
    heard: list[frozenset[str]] = []
    stop = settings.on_change(heard.append)
    settings.replace_dynamic({"maxTopicsPerNamespace": "5"})
    settings.replace_dynamic({"maxTopicsPerNamespace": "5"})
    settings.replace_dynamic({})
    assert heard == [frozenset({"maxTopicsPerNamespace"})] * 2
    stop()
    settings.replace_dynamic({"maxTopicsPerNamespace": "6"})
    assert len(heard) == 2
    with pytest.raises(Refused, match="Can't update non-dynamic configuration"):
        settings.check_dynamic("clusterName", "x")
    with pytest.raises(Refused, match="Can't update non-dynamic configuration"):
        settings.check_dynamic("nosuchkey", "x")
    with pytest.raises(Misuse, match="must be an integer"):
        settings.check_dynamic("maxTopicsPerNamespace", "many")


NOT_APPLIED = [key for key in KEYS.values() if key.dynamic and not key.honoured]


def _fits(key: Key, text: str) -> bool:
    """Whether the value is of the right form; the default of a protective key requires no protection."""
    try:
        return key.read(text) != key.default or not key.protects
    except Misuse:
        return False


@pytest.mark.parametrize("key", NOT_APPLIED, ids=lambda key: key.name)
def test_dynamic_value_that_nothing_applies_is_not_built(key: Key) -> None:
    settings = Settings()
    texts = [text for text in ("7", "true", "false", "delete_when_subscriptions_caught_up") if _fits(key, text)]
    assert texts
    for text in texts:
        with pytest.raises(NotBuilt, match=key.name):
            settings.check_dynamic(key.name, text)
    assert key.name not in settings.dynamic_keys()


def test_dynamic_keys_are_those_that_broker_applies() -> None:
    keys = Settings().dynamic_keys()
    assert {"maxTopicsPerNamespace", "allowAutoTopicCreation"} <= set(keys)
    assert all(KEYS[key].honoured for key in keys)


def test_stored_override_that_nothing_applies_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings()
    settings.replace_dynamic({"dispatcherMaxReadBatchSize": "7"})
    assert settings.number("dispatcherMaxReadBatchSize") == 100
    assert "setting_ignored key=dispatcherMaxReadBatchSize" in caplog.text


def test_stored_override_that_cannot_be_read_is_left_out() -> None:
    settings = Settings()
    settings.replace_dynamic({"maxTopicsPerNamespace": "many", "clusterName": "x", "defaultNumPartitions": "3"})
    assert settings.number("maxTopicsPerNamespace") == 0
    assert settings.text("clusterName") == "standalone"
    assert settings.number("defaultNumPartitions") == 3


def test_every_key_can_be_got_shown_and_explained() -> None:
    settings = Settings()
    shown = settings.shown()
    for key in KEYS:
        assert settings.explain(key, Policies(), {}).value == settings.get(key, Policies(), {})
        assert isinstance(shown[key], str)
    assert shown["allowAutoTopicCreation"] == "true"
    with pytest.raises(Misuse):
        settings.get("nosuchkey")


def test_activated_by_policy_document_as_it_is_stored() -> None:
    document = {"deduplicationEnabled": True, "message_ttl_in_seconds": 9, "schema_compatibility_strategy": "UNDEFINED"}
    policies = Policies.decode(msgspec.json.encode(document))
    settings = Settings()
    assert settings.flag("brokerDeduplicationEnabled", policies)
    assert settings.number("ttlDurationDefaultInSeconds", policies) == 9
    assert settings.explain("schemaCompatibilityStrategy", policies).layer == "default"


def test_alias_of_key_is_read_and_key_wins() -> None:
    settings = Settings(file={"scalableTopicEnabled": "false"})
    assert not settings.flag("scalableTopicsEnabled")
    assert settings.unknown == {}
    both = Settings(file={"scalableTopicEnabled": "false", "scalableTopicsEnabled": "true"})
    assert both.flag("scalableTopicsEnabled")


def test_secret_is_never_shown():
    settings = Settings(None, {"brokerClientAuthenticationParameters": "token:secret"})
    assert settings.shown()["brokerClientAuthenticationParameters"] == "*****"
    assert Settings().shown()["brokerClientAuthenticationParameters"] == ""
    assert settings.text("brokerClientAuthenticationParameters") == "token:secret"


def test_no_secret_of_file_is_shown_or_logged(caplog: pytest.LogCaptureFixture) -> None:
    """D9: a signing key of a Pulsar that was replaced stood in clear over REST."""
    caplog.set_level(logging.DEBUG, logger=ROOT)
    file = {
        "s3ManagedLedgerOffloadRoleKey": "hunter2",
        "gcsManagedLedgerOffloadServiceAccountKeyFile": "/etc/hunter2",
        "someProperty": "hunter2",
        "anEmptyProperty": "",
        "subscriptionKeySharedConsistentHashingReplicaPoints": "7",
    }
    settings = Settings(file=file)
    settings.replace_dynamic({"clusterApiKey": "hunter2", "maxTopicsPerNamespace": "5"})
    shown = settings.shown()
    assert (shown["someProperty"], shown["anEmptyProperty"]) == ("*****", "")
    assert shown["subscriptionKeySharedConsistentHashingReplicaPoints"] == "7"
    assert shown["tlsKeyStoreType"] == "JKS"
    assert settings.dynamic_values() == {"clusterApiKey": "*****", "maxTopicsPerNamespace": "5"}
    assert "hunter2" not in str(shown)
    assert "hunter2" not in caplog.text
