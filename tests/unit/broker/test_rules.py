"""From settings and policies to what a topic knows: the namespace's word goes before the broker's."""

from __future__ import annotations

from magnetar.broker.rules import topic_settings
from magnetar.policy.policies import Policies
from magnetar.policy.settings import Settings
from magnetar.topic.settings import TopicSettings


def test_without_any_word_a_topic_behaves_as_in_pulsar() -> None:
    made = topic_settings(Settings(None, {}), Policies())
    assert made == TopicSettings(retention=made.retention)
    assert (made.retention.minutes, made.retention.megabytes) == (0, 0)


def test_the_brokers_settings_reach_the_topic() -> None:
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


def test_the_namespace_goes_before_the_broker() -> None:
    policies = Policies.decode(
        b'{"deduplicationEnabled": true, "retention_policies": {"retentionTimeInMinutes": 9, "retentionSizeInMB": 1}}'
    )
    made = topic_settings(Settings(None, {"defaultRetentionTimeInMinutes": "5"}), policies)
    assert made.deduplication
    assert (made.retention.minutes, made.retention.megabytes) == (9, 1)
