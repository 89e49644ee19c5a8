"""Every row of the table holds together: its default is of its own form, its fields exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from magnetar.base.errors import Misuse
from magnetar.policy.policies import AutoSubscriptionCreation as AutoSubscription
from magnetar.policy.policies import (
    AutoTopicCreation,
    DelayedDelivery,
    InactiveTopics,
    Persistence,
    Policies,
    Retention,
)
from magnetar.policy.table import KEYS, SECTIONS, Key

FULL = Policies(
    autoTopicCreationOverride=AutoTopicCreation(False, "partitioned", 3),
    autoSubscriptionCreationOverride=AutoSubscription(False),
    retention_policies=Retention(),
    delayed_delivery_policies=DelayedDelivery(),
    persistence=Persistence(),
    inactive_topic_policies=InactiveTopics("delete_when_no_subscriptions", 1, True),
)


@pytest.mark.parametrize("key", KEYS.values(), ids=lambda key: key.name)
def test_default_is_of_keys_own_form(key: Key) -> None:
    assert key.read("") == key.default
    if key.default is not None and key.default != "":
        text = ",".join(key.default) if isinstance(key.default, list) else str(key.default)
        assert key.read(text) == key.default


@pytest.mark.parametrize("key", KEYS.values(), ids=lambda key: key.name)
def test_key_has_sentence_and_no_row_breaks_page(key: Key) -> None:
    assert key.doc.endswith(".")
    assert "|" not in key.doc
    assert "\n" not in key.doc


@pytest.mark.parametrize("key", [key for key in KEYS.values() if key.namespace], ids=lambda key: key.name)
def test_overriding_field_exists_in_policies(key: Key) -> None:
    value: object = FULL
    for part in key.namespace.split("."):
        assert hasattr(value, part), key.namespace
        value = getattr(value, part)


def test_no_key_stands_twice() -> None:
    assert len(KEYS) == sum(len(keys) for keys in SECTIONS.values())


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [
        ("brokerServicePort", "65536", "a port from 0 to 65535"),
        ("brokerServicePort", "6650x", "a port from 0 to 65535"),
        ("allowAutoTopicCreation", "yes", "true or false"),
        ("maxMessageSize", "0", "an integer, 1 or more"),
        ("maxMessageSize", "5_000", "an integer, 1 or more"),
        ("maxMessageSize", "1.5", "an integer, 1 or more"),
        ("defaultRetentionTimeInMinutes", "-2", "an integer, -1 or more"),
        ("allowAutoTopicCreationType", "both", "one of non-partitioned, partitioned"),
        ("managedLedgerDefaultMarkDeleteRateLimit", "nan", "a number, 0 or more"),
    ],
)
def test_wrong_value_is_refused_with_key_value_and_form(name: str, text: str, form: str) -> None:
    with pytest.raises(Misuse, match=form) as refused:
        KEYS[name].read(text)
    assert refused.value.facts == {"key": name, "value": text}


def test_key_is_honoured_exactly_if_somebody_asks_for_it() -> None:
    """The page promises what the code does: wiring a key up, or taking it out, changes its row too."""
    product = Path(__file__).parents[3] / "src" / "magnetar"
    code = "".join(path.read_text() for path in sorted(product.rglob("*.py")) if path.name != "table.py")
    asked = set(re.findall(r"\.(?:flag|number|text|get)\(\s*[\"'](\w+)[\"']", code)) | {
        "enablePersistentTopics",  # chosen by domain, then asked for
        "enableNonPersistentTopics",
    }
    assert sorted(name for name, key in KEYS.items() if key.honoured and name not in asked) == []
    shown = {"metadataStoreUrl", "authenticationEnabled"}  # shown to people, and nothing follows from them
    assert sorted(name for name, key in KEYS.items() if not key.honoured and name in asked - shown) == []


# As Pulsar has them, except that automatic scaling is off; and whether they may change while the broker runs.
SCALABLE = {
    "scalableTopicsEnabled": (True, False),
    "scalableTopicConsumerSessionGracePeriodSeconds": (60, False),
    "scalableTopicAutoScaleEnabled": (False, True),
    "scalableTopicAutoScaleIntervalSeconds": (60, False),
    "scalableTopicMaxSegments": (64, True),
    "scalableTopicMinSegments": (1, True),
    "scalableTopicMaxDagDepth": (10, True),
    "scalableTopicEntryBucketBudget": (4, True),
    "scalableTopicEntryBucketMaxPerSegment": (1024, True),
    "scalableTopicSplitCooldownSeconds": (60, True),
    "scalableTopicMergeCooldownSeconds": (300, True),
    "scalableTopicMergeWindowSeconds": (300, True),
    "scalableTopicRebucketCooldownSeconds": (60, True),
    "scalableTopicSplitMsgRateInThreshold": (10_000, True),
    "scalableTopicSplitBytesRateInThreshold": (50_000_000, True),
    "scalableTopicSplitMsgRateOutThreshold": (50_000, True),
    "scalableTopicSplitBytesRateOutThreshold": (250_000_000, True),
    "scalableTopicMergeMsgRateInThreshold": (1000, True),
    "scalableTopicMergeBytesRateInThreshold": (5_000_000, True),
    "scalableTopicMergeMsgRateOutThreshold": (5000, True),
    "scalableTopicMergeBytesRateOutThreshold": (25_000_000, True),
    "scalableTopicSplitVsRebucketMinMsgRateInThreshold": (1000, True),
    "scalableTopicLoadReportIntervalSeconds": (10, False),
    "scalableTopicLoadReportRateChangeThreshold": (0.25, True),
}


def test_all_keys_of_scalable_topics_are_there_with_pulsars_defaults():
    found = {name: (key.default, key.dynamic) for name, key in KEYS.items() if name.startswith("scalableTopic")}
    assert found == SCALABLE
    unused = {name for name in SCALABLE if not KEYS[name].honoured}
    assert unused == {"scalableTopicLoadReportRateChangeThreshold"}  # loads are not written to the metadata store
