"""May a topic be made because a client uses it, and as what? A decision over values; nobody asks a store here."""

from __future__ import annotations

from dataclasses import dataclass

from magnetar.base.errors import InvalidName, MagnetarError, Refused, TopicNotFound
from magnetar.base.names import Domain, TopicName, check_new
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
    """For a topic that does not exist. `base_partitions`: how many its partitioned topic has, for the name of a
    partition.

    A partition that its topic has is made even where auto-creation is off: somebody created the topic. One that it has
    not is refused. A name that merely looks like a partition is a plain topic's name, as in Pulsar.
    """
    if policies is None:
        return RefuseTopic(
            TopicNotFound(f"Namespace {name.namespace} does not exist: create it, or check the topic's name")
        )
    refused = _domain_refused(name, settings)
    if refused is not None:
        return RefuseTopic(refused)
    if name.is_stage:  # one that was deleted must not come back because a task that nobody waits for writes on
        return RefuseTopic(TopicNotFound(f"{name} is a stage: the broker makes it when one is begun, and deletes it"))
    if base_partitions:
        if name.partition_index < base_partitions:
            return CreateTopic(0)
        words = f"Topic {name} does not exist: {name.partitioned_name} has {base_partitions} partitions"
        return RefuseTopic(TopicNotFound(words))
    try:
        check_new(name.local_name)
    except InvalidName as error:
        return RefuseTopic(error)
    if not settings.flag("allowAutoTopicCreation", policies):
        return RefuseTopic(TopicNotFound(f"Topic {name} does not exist, and automatic creation of topics is off"))
    partitioned = settings.text("allowAutoTopicCreationType", policies) == "partitioned"
    if partitioned and not name.is_partition:
        return CreateTopic(settings.number("defaultNumPartitions", policies))
    return CreateTopic(0)


def _domain_refused(name: TopicName, settings: Settings) -> MagnetarError | None:
    if name.domain is Domain.TOPIC:
        return Refused(f"{name} is scalable: create it over REST or with a client for scalable topics")
    if name.domain is Domain.SEGMENT:
        return TopicNotFound(f"{name} does not exist: segments are created with their topic or by a reshape")
    key = "enablePersistentTopics" if name.domain is Domain.PERSISTENT else "enableNonPersistentTopics"
    if not settings.flag(key):
        return Refused(f"{name.domain} topics are switched off ({key})", http_status=405)
    return None
