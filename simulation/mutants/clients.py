"""Broken versions of the client, each with one fault that worlds must find.

They work like those of `simulation.mutants.scalable`. Each is the client as it was before a fault that a user or an
attack from outside found first.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from magnetar.base.errors import Corrupt
from magnetar.client.client import Client
from magnetar.client.consumer.ack.dead_letter_publisher import DeadLetterPublisher
from magnetar.client.consumer.ack.redelivery import Redelivery
from magnetar.client.consumer.receive.chunks import ChunkAssembler
from magnetar.client.consumer.receive.receive_queue import ReceiveQueue, TopicQueue
from magnetar.client.consumer.scalable.checkpoint import segments
from magnetar.client.consumer.scalable.stream.positions import Positions
from magnetar.client.message import Message
from magnetar.client.producer import batch
from simulation.faults.plan import CALM_S, Fault, FaultKind
from simulation.mutants.chunks import with_mixed_chunks
from simulation.mutants.engines import Patch
from simulation.mutants.scalable import scalable_mutant, with_faults, with_many_reshapes
from simulation.world.config import (
    CONSUMERS,
    MESSAGE_BYTES,
    OTHERS,
    WorldConfig,
)
from simulation.world.variants import (
    CHUNKED_BYTES,
    with_chunks,
    with_churn,
    with_dead_letters,
    with_mixed,
    with_oversized,
    with_quiet_groups,
    with_work,
)
from simulation.world.workload import (
    BATCHES,
    CHECKPOINT,
    GROUP,
    STREAM,
    TopicPlan,
)

HELD_TIMES = 30  # that notifications of consumers are late


def _opened_again() -> list[Patch]:
    """A member of a group opens a segment that its group has finished."""
    return [(segments, "is_finished", lambda place: False)]


def _buried_by_count() -> list[Patch]:
    """A batch becomes dead letters after its redeliveries, with messages that the application has not seen."""

    def refuse(self: Redelivery, message: Message[Any]) -> None:
        delivery = message._delivery
        self.nack((delivery.ledger, delivery.entry), delivery.redelivery_count)

    def take(self: DeadLetterPublisher, messages: list[Message[Any]]) -> list[Message[Any]]:
        if messages[0].redelivery_count <= self.redeliveries_max:
            return messages
        self.bury(messages)
        return []

    return [
        (Redelivery, "refuse", refuse),
        (Redelivery, "_ripe", lambda self, due, now: due),
        (DeadLetterPublisher, "take_doomed", take),
    ]


def _whole_letters() -> list[Patch]:
    """Dead letters are not sent in chunks."""

    async def outbox(self: Client, topic: str, initial_subscription: str) -> Any:
        return await self.create_producer(topic, initial_subscription=initial_subscription)

    return [(Client, "_outbox", outbox)]


def _late_queue() -> list[Patch]:
    """Messages of a segment that the consumer has left are queued and handed out."""

    def drop(self: ReceiveQueue, queue: TopicQueue) -> None:
        queue.detach()
        if queue in self.queues:
            self.queues.remove(queue)

    return [
        (ReceiveQueue, "drop", drop),
        (TopicQueue, "drop", lambda self: None),  # of a segment that is refused: it is closed in a later turn
        (Positions, "is_open", lambda self, segment: True),
    ]


def _oldest_gives_way() -> list[Patch]:
    """The oldest incomplete message is dropped when a new one finds no room."""

    def fits(self: ChunkAssembler, total: int, published_ms: int) -> bool:
        while not self._has_room(total):
            self._give_up(self._half.pop(next(iter(self._half))))
        return True

    return [(ChunkAssembler, "_fits", fits)]


def _thrown_away() -> list[Patch]:
    """Producers do not know the limit of consumers; consumers drop larger messages."""

    def begin(self: ChunkAssembler, metadata: Any, *others: Any) -> Any:
        if metadata.total_chunk_msg_size > self._bytes_max:
            raise Corrupt("a chunked message claims to be too large", bytes=metadata.total_chunk_msg_size)
        return real(self, metadata, *others)

    real = ChunkAssembler._begin
    return [(ChunkAssembler, "_begin", begin), (batch, "check_payload", lambda payload: None)]


# What a safeguard is for


def _empty(world: WorldConfig, rng: random.Random) -> WorldConfig:
    """Groups on topics that nothing is written to, split and merged all the time."""
    kept = [topic for topic in world.topics if topic.kept and not topic.regular]
    topics = tuple(replace(with_quiet_groups(rng, topic), producers=()) for topic in kept)
    return replace(with_many_reshapes(world, rng), topics=topics)


def _refusing(world: WorldConfig, rng: random.Random) -> WorldConfig:
    """Queues that refuse some messages always."""

    def refused(topic: TopicPlan) -> TopicPlan:
        others = tuple(one for one in topic.subscriptions if not one.buries)
        return with_dead_letters(rng, replace(topic, subscriptions=others))

    return replace(world, topics=tuple(refused(one) for one in world.topics if not one.regular))


def _refusing_chunks(world: WorldConfig, rng: random.Random) -> WorldConfig:
    """Large messages among those that they refuse."""
    return _refusing(with_mixed_chunks(world, rng), rng)


def _restless(world: WorldConfig, rng: random.Random) -> WorldConfig:
    """Stream consumers of one broker that come and go all the time, and work on their messages. The broker's
    notifications arrive late and together: a segment is taken away in the very step in which its attach is answered."""
    first = world.brokers[:1]
    late = [
        Fault(at_s, FaultKind.HOLD, (*first, host), for_s=rng.uniform(0.1, 0.25))
        for host in (CONSUMERS, OTHERS)
        for at_s in (rng.uniform(CALM_S, world.chaos_s) for _ in range(HELD_TIMES))
    ]

    def churned(topic: TopicPlan) -> TopicPlan:
        variant = with_work(with_churn(rng, topic))
        streams = tuple(replace(one, consumers=5) for one in variant.subscriptions if one.batched)
        return replace(variant, subscriptions=streams)

    assert world.scale is not None
    scale = replace(world.scale, segments=8, active_max=8, reshape_s=100.0)
    topics = tuple(churned(topic) for topic in world.topics if not topic.regular)
    return with_faults(replace(world, brokers=first, scale=scale, topics=topics, faults=()), late)


def _cramped(world: WorldConfig, rng: random.Random) -> WorldConfig:
    """Stream consumers with room for two messages that are half received, and messages whose chunks are mixed."""

    def small(topic: TopicPlan) -> TopicPlan:
        streams = [one for one in topic.subscriptions if one.type == STREAM and not one.seeks and not one.skipped]
        plans = tuple(replace(one, chunked_max=2, consumers=1) for one in streams)
        return with_mixed(replace(topic, subscriptions=plans))

    kept = [topic for topic in world.topics if topic.kept and not topic.regular]
    return replace(world, topics=tuple(map(small, kept)), settings={**world.settings, **MESSAGE_BYTES})


def _oversized(world: WorldConfig, rng: random.Random) -> WorldConfig:
    """Producers that send messages now and then that are larger than any consumer puts together."""

    def large(topic: TopicPlan) -> TopicPlan:
        others = [one for one in topic.subscriptions if one.type not in (BATCHES, CHECKPOINT, GROUP)]
        return with_oversized(with_chunks(rng, replace(topic, subscriptions=tuple(others))))

    kept = [topic for topic in world.topics if topic.kept and not topic.regular]
    settings = {**world.settings, **MESSAGE_BYTES}
    return replace(world, topics=tuple(map(large, kept)), settings=settings, chunked_bytes=CHUNKED_BYTES)


CLIENT_MUTANTS = (
    scalable_mutant("a group opens a segment that it has finished", 20, 30, _opened_again, _empty),
    scalable_mutant("a batch is buried by its count", 20, 2, _buried_by_count, _refusing),
    scalable_mutant("dead letters are not sent in chunks", 20, 2, _whole_letters, _refusing_chunks),
    scalable_mutant("messages of a segment that was left are handed out", 20, 2, _late_queue, _restless),
    scalable_mutant("the oldest half of a message gives way", 20, 2, _oldest_gives_way, _cramped),
    scalable_mutant("a message that no consumer puts together is sent", 20, 2, _thrown_away, _oversized),
)
