"""Migration of plain topics to scalable topics in place (PIP-475): preview, checks and start.

Nothing is copied. The plain topic, or each of its partitions, is sealed and becomes a sealed segment of the new topic,
and new segments follow it. The leader of the topic carries this out like a split (`scalable/machines/reshape.py`), with
all subscriptions (`scalable/leader/migration.py`). A migration cannot be reversed. Clients without support for scalable
topics could not follow: while any are connected the migration is refused unless it is forced.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import AlreadyExists, Conflict, LimitExceeded, Misuse, TopicNotFound
from magnetar.base.limits import SUBSCRIPTIONS_MAX
from magnetar.base.names import Domain, TopicName, topic_name
from magnetar.cluster.calls.topic_calls import InspectPlainTopic, PlainClient, PlainFacts
from magnetar.layout.layout import Layout
from magnetar.layout.plain_layout import migrated
from magnetar.scalable.leader.operations import Operation
from magnetar.scalable.machines.buckets import shared_out
from magnetar.scalable.machines.migration import MigratedSubscription, carried, left_behind, refusal

if TYPE_CHECKING:
    from magnetar.broker.segments.segments import Segments
    from magnetar.cluster.calls.topic_calls import Peers
    from magnetar.policy.settings import Settings
    from magnetar.runtime.runtime import Runtime
    from magnetar.scalable.service import ScalableTopics


class MigrationNode(Protocol):
    """What this module uses of the node."""

    runtime: Runtime
    settings: Settings
    scalable: ScalableTopics
    segments: Segments
    peers: Peers


@dataclass(frozen=True, slots=True)
class Preview:
    """The plan of a migration. `left`: those of `clients` that do not support scalable topics."""

    topics: tuple[str, ...]
    layout: Layout
    subscriptions: tuple[MigratedSubscription, ...]
    clients: tuple[PlainClient, ...]
    left: tuple[PlainClient, ...]
    messages: int
    size_bytes: int


async def preview(node: MigrationNode, name: TopicName) -> Preview:
    """Reads only. TopicNotFound: the plain topic does not exist. AlreadyExists: it is a scalable topic."""
    topics = await _topics(node, name)
    all_facts = await asyncio.gather(*(_look(node, one) for one in topics))
    return Preview(
        topics=topics,
        layout=migrated(topics, now_ms=node.runtime.wall()),
        subscriptions=tuple(carried(all_facts)),
        clients=tuple(client for facts in all_facts for client in facts.clients),
        left=tuple(left_behind(all_facts)),
        messages=sum(facts.messages for facts in all_facts),
        size_bytes=sum(facts.size_bytes for facts in all_facts),
    )


async def migrate(
    node: MigrationNode, name: TopicName, *, force: bool, reason: str = "", wait: bool = True
) -> Operation:
    """Complete when it returns; without `wait`, started. Conflict: clients without support are connected, and `force`
    is not set."""
    seen = await preview(node, name)
    if len(seen.subscriptions) > SUBSCRIPTIONS_MAX:
        words = f"a scalable topic must not have more than {SUBSCRIPTIONS_MAX} subscriptions: delete some first"
        raise LimitExceeded(words, subscriptions=len(seen.subscriptions))
    if seen.left and not force:
        raise Conflict(refusal(list(seen.left)))
    await node.segments.plains.stand_in(plain_of(name))
    buckets = shared_out(node.settings.number("scalableTopicEntryBucketBudget"), len(seen.topics), None)
    return await node.scalable.migrate(name.scalable, buckets=buckets, reason=reason, wait=wait)


def plain_of(name: TopicName) -> TopicName:
    """The plain topic with the name of a scalable one."""
    if name.domain is Domain.TOPIC:
        return topic_name(f"{Domain.PERSISTENT}://{name.namespace}/{name.local_name}")
    if name.domain is not Domain.PERSISTENT or name.is_partition:
        raise Misuse(f"{name} cannot be migrated: give the name of a whole persistent topic, not of a partition")
    return name


async def _topics(node: MigrationNode, name: TopicName) -> tuple[str, ...]:
    record = await node.scalable.read(name.scalable)
    if record is not None and not record.is_plain:
        raise AlreadyExists(f"Scalable topic already exists: {name.scalable}")
    plain = plain_of(name)
    try:
        return await node.segments.plains.topics(plain, create=False)
    except TopicNotFound:
        raise TopicNotFound(f"Topic {plain} not found") from None


async def _look(node: MigrationNode, topic: str) -> PlainFacts:
    answer = await node.peers.owner(topic_name(topic)).ask(InspectPlainTopic(op="migration"))
    assert isinstance(answer, PlainFacts)
    return answer
