"""No value that asks for a protection is ignored (D1): walked over every key that Pulsar's broker has."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from magnetar.base.errors import NotBuilt, Unprotected
from magnetar.policy.config_key import Key
from magnetar.policy.protection import PROTECTION
from magnetar.policy.settings import Settings
from magnetar.policy.table import KEYS

with (Path(__file__).parents[2] / "vectors" / "broker-conf.tsv").open() as _file:
    PULSAR = list(csv.DictReader(_file, delimiter="\t", quoting=csv.QUOTE_NONE))
FILES = ["broker_4.2.4", "standalone_4.2.4", "broker_M1", "standalone_M1"]
SECURITY = {"Authentication", "Authorization", "TLS", "KeyStoreTLS", "SASL Authentication Provider"}
ALONE_NOTHING = {
    "tlsHostnameVerificationEnabled"
}  # both its values are stock, and without TLS neither asks for anything
LIMITING = re.compile(r"(?i)max|limit|quota|throttl|rate(?!gy)|strict|verif|enforce|require|check")
# Bounds and intervals of Pulsar's own threads, caches, stores, load balancer and unbuilt features. None of them keeps a
# client from doing something.
TUNING = re.compile(
    r"bookkeeper|managedLedger|managedCursor|loadBalancer|transaction|websocket|offload|dispatcher|topicList"
    r"|replicat|delayedDeliveryMax|dbStorage|diskUsage|journal|isDelayedDelivery|Interval|TickTime|healthCheck"
    r"|backlogScan|scalableTopic|metadataStore|Cache|resource|strictBookieAffinity",
    re.IGNORECASE,
)
OTHERS = {
    "backlogQuotaCheckEnabled": "true in Pulsar's files; without a limit it checks nothing",
    "backlogQuotaDefaultRetentionPolicy": "what a limit does; no limit can be set",
    "brokerDeduplicationMaxNumberOfProducers": "memory of the broker, which has bounds of its own",
    "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds": "deletes, does not protect",
    "clusterMigrationCheckDurationSeconds": "a period",
    "connectionLivenessCheckTimeoutMillis": "a period",
    "dispatchRateLimiterFactoryClassName": "how a rate is kept; no rate can be set",
    "dispatchThrottlingForFilteredEntriesEnabled": "how a rate counts; no rate can be set",
    "dispatchThrottlingOnBatchMessageEnabled": "how a rate counts; no rate can be set",
    "dispatchThrottlingOnNonBacklogConsumerEnabled": "how a rate counts; no rate can be set",
    "httpMaxRequestHeaderSize": "the broker bounds heads",
    "httpMaxResponseHeaderSize": "of answers",
    "httpRequestsMaxPerSecond": "100.0 in Pulsar's files; httpRequestsLimitEnabled switches it on, and is refused",
    "keySharedLookAheadMsgInReplayThresholdPerConsumer": "how far a dispatcher reads",
    "keySharedLookAheadMsgInReplayThresholdPerSubscription": "how far a dispatcher reads",
    "maxConcurrentHttpRequests": "the broker bounds requests",
    "maxConcurrentNonPersistentMessagePerConnection": "the broker bounds what a connection has in flight",
    "maxConcurrentTopicLoadRequest": "the broker bounds what it loads",
    "maxConsumerMetadataSize": "the broker bounds properties",
    "maxHttpServerConnections": "the broker bounds connections",
    "maxMessageSizeCheckIntervalInSeconds": "a period",
    "maxPendingPublishRequestsPerConnection": "the broker bounds what a connection has in flight",
    "maxSecondsToClearTopicNameCache": "a cache",
    "maxUnackedMessagesPerSubscriptionOnBrokerBlocked": "part of maxUnackedMessagesPerBroker, which is refused",
    "maxUnloadBundleNumPerShedding": "load balancer",
    "maxUnloadPercentage": "load balancer",
    "nettyMaxFrameSizeBytes": "maxMessageSize bounds frames",
    "preciseTimeBasedBacklogQuotaCheck": "how a quota is checked; no quota can be set",
    "preciseTopicPublishRateLimiterEnable": "how a rate is kept; no rate can be set",
    "pulsarChannelPauseReceivingCooldownRateLimitPeriodMs": "channels of Netty",
    "pulsarChannelPauseReceivingCooldownRateLimitPermits": "channels of Netty",
    "retentionCheckIntervalInSeconds": "a period",
    "schemaRegistryCompatibilityCheckers": "classes of Pulsar; schemaCompatibilityStrategy asks for them",
    "statsUpdateFrequencyInSecs": "a period",
    "subscribeRatePeriodPerConsumerInSecond": "the period of a rate; no rate can be set",
    "systemTopicSchemaCompatibilityStrategy": "of Pulsar's own topics",
    "topicPublisherThrottlingTickTimeMillis": "a period",
    "useSeparateThreadPoolForProtocolHandlers": "threads",
}


def switched_on(row: dict[str, str]) -> str:
    """A value that the key does not have in any stock file."""
    stock = {row[file] for file in FILES}
    if row["type"] in ("boolean", "Boolean"):
        return "false" if "true" in stock else "true"
    if row["type"] in ("int", "long", "double", "Integer", "Optional<Integer>"):
        return "7001"
    return "org.example.Something"


@pytest.mark.parametrize("file", FILES)
def test_stock_file_of_pulsar_loads(file: str) -> None:
    Settings(file={row["key"]: row[file] for row in PULSAR if row[file] != "-"})


SECURING = [row for row in PULSAR if row["category"] in SECURITY and row["key"] not in ALONE_NOTHING]


@pytest.mark.parametrize("row", SECURING, ids=lambda row: row["key"])
def test_security_that_is_switched_on_is_refused(row: dict[str, str]) -> None:
    key = row["key"]
    if key in KEYS and KEYS[key].honoured:
        assert key == "brokerClientAuthenticationParameters"
        return
    with pytest.raises(Unprotected) as refused:
        Settings(file={key: switched_on(row)})
    assert refused.value.facts["settings"].startswith(f"{key}=")
    for file in FILES:
        Settings(file={key: row[file] if row[file] != "-" else ""})


@pytest.mark.parametrize("row", PULSAR, ids=lambda row: row["key"])
def test_limit_of_pulsar_is_honoured_refused_or_tuning(row: dict[str, str]) -> None:
    name = row["key"]
    if not LIMITING.search(name) or TUNING.search(name) or name in OTHERS or name in ALONE_NOTHING:
        return
    assert name in KEYS, "judge the new key: honoured, protective, or tuning with its reason"
    assert KEYS[name].honoured or KEYS[name].protects, name


PROTECTIVE = [key for key in KEYS.values() if key.protects and not key.honoured]


@pytest.mark.parametrize("key", PROTECTIVE, ids=lambda key: key.name)
def test_protective_key_accepts_default_and_harmless_values(key: Key) -> None:
    for text in ["", *key.harmless, "" if isinstance(key.default, list) else str(key.default or "").lower()]:
        Settings(file={key.name: text})


def test_all_bad_settings_are_named_without_secrets() -> None:
    file = {"authenticationEnabled": "true", "tokenSecretKey": "data:;base64,c2VjcmV0", "brokerServicePort": "0"}
    with pytest.raises(Unprotected, match="requires authentication") as refused:
        Settings(file=file)
    assert refused.value.facts == {"settings": "authenticationEnabled=true, tokenSecretKey=*****"}
    with pytest.raises(Unprotected):
        Settings(given={"superUserRoles": "admin"})


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("authenticationEnable", "true"),
        ("tlsRequired", "yes"),
        ("openIDAllowedTokenIssuers", "https://example.org"),
        ("PULSAR_PREFIX_authorizationEnabled", "TRUE"),
        ("brokerThrottlingByteRate", "100"),
        ("keyStorePasswords", "x"),
    ],
)
def test_unknown_key_that_asks_for_protection_is_refused(key: str, text: str) -> None:
    with pytest.raises(Unprotected, match="an unknown protection"):
        Settings(file={key: text})
    Settings(file={key: "false"})


def test_dynamic_setting_that_asks_for_protection_is_not_built() -> None:
    with pytest.raises(NotBuilt, match=r"superUserRoles requires authorization"):
        Settings().check_dynamic("superUserRoles", "admin")
    Settings().check_dynamic("superUserRoles", "")


def test_every_row_of_protection_is_protective() -> None:
    assert all(key.protects and not key.honoured for key in PROTECTION)
