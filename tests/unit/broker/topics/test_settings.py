"""From settings and policies to what a topic knows: the namespace's word goes before the broker's."""

from __future__ import annotations

import pytest

from magnetar.broker.topics.settings import topic_settings
from magnetar.policy.policies import Policies, Retention
from magnetar.policy.settings import Settings
from magnetar.topic.settings import TopicSettings


def test_default_settings_are_those_of_pulsar_within_bounds() -> None:
    made = topic_settings(Settings(None, {}), Policies())
    assert made == TopicSettings(retention=made.retention, subscriptions_max=10_000)
    assert (made.retention.minutes, made.retention.megabytes) == (0, 0)


def test_brokers_settings_reach_topic() -> None:
    given = {
        "activeConsumerFailoverConsistentHashing": "true",
        "brokerDeduplicationEnabled": "true",
        "brokerDeduplicationProducerInactivityTimeoutMinutes": "2",
        "maxUnackedMessagesPerConsumer": "7",
        "defaultRetentionTimeInMinutes": "5",
        "defaultRetentionSizeInMB": "-1",
    }
    made = topic_settings(Settings(None, given), Policies())
    assert made.failover_consistent_hashing
    assert made.deduplication
    assert made.dedup_inactivity_ms == 120_000
    assert made.unacked_per_consumer_max == 7
    assert (made.retention.minutes, made.retention.megabytes) == (5, -1)


def test_namespace_goes_before_broker() -> None:
    policies = Policies.decode(
        b'{"deduplicationEnabled": true, "retention_policies": {"retentionTimeInMinutes": 9, "retentionSizeInMB": 1}}'
    )
    made = topic_settings(Settings(None, {"defaultRetentionTimeInMinutes": "5"}), policies)
    assert made.deduplication
    assert (made.retention.minutes, made.retention.megabytes) == (9, 1)


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        ({}, (1440, 1024)),
        ({"defaultRetentionTimeInMinutes": "-1", "defaultRetentionSizeInMB": "-1"}, (-1, -1)),
        ({"defaultRetentionTimeInMinutes": "0", "defaultRetentionSizeInMB": "0"}, (0, 0)),
        ({"defaultScalableTopicRetentionTimeInMinutes": "60"}, (60, 1024)),
        ({"defaultScalableTopicRetentionSizeInMB": "7", "defaultRetentionTimeInMinutes": "9"}, (1440, 7)),
    ],
)
def test_scalable_topics_have_default_retention(given: dict[str, str], limits: tuple[int, int]) -> None:
    found = topic_settings(Settings(None, given), Policies(), scalable=True).retention
    assert (found.minutes, found.megabytes) == limits


def test_retention_of_topic_wins_over_namespace() -> None:
    policies = Policies(retention_policies=Retention(9, 1))
    own = {"retentionPolicies": {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}}
    for scalable in (False, True):
        of_namespace = topic_settings(Settings(), policies, {}, scalable=scalable).retention
        of_topic = topic_settings(Settings(), policies, own, scalable=scalable).retention
        assert (of_namespace.minutes, of_namespace.megabytes) == (9, 1)
        assert (of_topic.minutes, of_topic.megabytes) == (0, 0)
