"""Decides whether a topic is created automatically when a client uses it, and with which type. The decision uses values
only and reads no store."""

from __future__ import annotations

from dataclasses import dataclass

from magnetar.base.errors import InvalidName, MagnetarError, Refused, TopicNotFound
from magnetar.base.names import Domain, TopicName, check_new_topic
from magnetar.policy.policies import Policies
from magnetar.policy.settings import Settings


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """`partitions` 0: a plain topic."""

    partitions: int


@dataclass(frozen=True, slots=True)
class RefuseTopic:
    error: MagnetarError


def decide(
    name: TopicName, settings: Settings, policies: Policies | None, *, base_partitions: int = 0
) -> CreateTopic | RefuseTopic:
    """The decision for a topic that does not exist. `base_partitions`: the number of partitions of its partitioned
    topic, if the name is that of a partition.

    A partition within that number is created even if automatic creation is disabled, because its topic was created
    explicitly. One outside of it is refused. A name that merely looks like a partition is the name of a plain topic, as
    in Pulsar."""
    if policies is None:
        return RefuseTopic(
            TopicNotFound(f"Namespace {name.namespace} does not exist: create it, or check the topic's name")
        )
    refused = _domain_refused(name, settings)
    if refused is not None:
        return RefuseTopic(refused)
    if name.is_stage:  # a late write of an abandoned task must not recreate a deleted stage
        return RefuseTopic(TopicNotFound(f"{name} is a stage topic: only the broker creates and deletes stages"))
    if base_partitions:
        if name.partition_index < base_partitions:
            return CreateTopic(0)
        words = f"Topic {name} does not exist: {name.partitioned_name} has {base_partitions} partitions"
        return RefuseTopic(TopicNotFound(words))
    try:
        check_new_topic(name)
    except InvalidName as error:
        return RefuseTopic(error)
    if not settings.flag("allowAutoTopicCreation", policies):
        return RefuseTopic(
            TopicNotFound(f"Topic {name} does not exist, and automatic topic creation is disabled: create it first")
        )
    partitioned = settings.text("allowAutoTopicCreationType", policies) == "partitioned"
    if partitioned and not name.is_partition:
        return CreateTopic(settings.number("defaultNumPartitions", policies))
    return CreateTopic(0)


def _domain_refused(name: TopicName, settings: Settings) -> MagnetarError | None:
    if name.domain is Domain.TOPIC:
        return Refused(
            f"{name} is a scalable topic: create it over REST or with a client that supports scalable topics"
        )
    if name.domain is Domain.SEGMENT:
        return TopicNotFound(f"{name} does not exist: segments are created with their topic or by a split or merge")
    key = "enablePersistentTopics" if name.domain is Domain.PERSISTENT else "enableNonPersistentTopics"
    if not settings.flag(key):
        return Refused(f"{name.domain} topics are disabled on this broker ({key})", http_status=405)
    return None
