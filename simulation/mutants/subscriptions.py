"""Broken versions of seeks, migrations and the end of holds, each with one fault that worlds must find.

They work like those of `simulation.mutants.scalable`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from magnetar.base.ids import SegmentId
from magnetar.broker.segments import cursor_reset, segments
from magnetar.cluster.calls.topic_calls import CursorPlacedReply, ResetCursor, Stale
from magnetar.layout.layout import Layout
from magnetar.layout.segment import Segment
from magnetar.scalable.leader import migration
from magnetar.scalable.machines import hold, seek, seek_target
from magnetar.scalable.machines.hold import Due, StoredHold
from magnetar.scalable.machines.seek_target import SegmentTarget, Target, TargetKind
from magnetar.scalable.record.store import RecordStore
from magnetar.topic.measure import RangeRequest, TopicMeter
from magnetar.topic.topic import Topic
from magnetar.wire.scalable.plan_ranges import EncodedRange, encode_range
from simulation.mutants.engines import Patch
from simulation.mutants.scalable import scalable_mutant, with_many_reshapes
from simulation.world.config import (
    KEPT,
    LEFT,
    WorldConfig,
    lapsing,
)
from simulation.world.variants import (
    with_migration,
    with_seeks,
    with_skips,
    with_sought_queue,
    with_times,
)
from simulation.world.workload import QUEUE, TopicPlan


def _half_seeks() -> list[Patch]:
    """A seek moves the segments that take messages, and forgets those before them."""

    def stops(target: Target, layout: Layout) -> dict[SegmentId, SegmentTarget]:
        targets: dict[SegmentId, SegmentTarget] = real(target, layout)
        return {id: stop for id, stop in targets.items() if layout.segment(id).is_active}

    real = seek_target.stops
    return [(seek, "stops", stops)]


def _half_times() -> list[Patch]:
    """A seek to a time takes a sealed segment for an older one, in spite of its bounds."""

    def by_time(segment: Segment, time_ms: int) -> SegmentTarget:
        return real(segment, time_ms) if segment.is_active else seek_target.END

    real = seek_target._by_time
    return [(seek_target, "_by_time", by_time)]


def _moved_once() -> list[Patch]:
    """A cursor that one seek has moved counts as moved by every later seek."""

    async def reset(records: RecordStore, topic: Topic, request: ResetCursor) -> CursorPlacedReply | Stale:
        subscription = topic.subscriptions.get(request.subscription.name)
        if subscription is None or cursor_reset.SEEKS_PROPERTY not in subscription.cursor.properties:
            return await real(records, topic, request)
        end = topic.managed.terminated
        return CursorPlacedReply(end is not None and subscription.cursor.drained(end))

    real = cursor_reset.reset
    return [(segments, "reset", reset)]


def _half_skips() -> list[Patch]:
    """A skip of everything skips active segments only."""

    def stops(target: Target, layout: Layout) -> dict[SegmentId, SegmentTarget]:
        targets: dict[SegmentId, SegmentTarget] = real(target, layout)
        ends = target.where is TargetKind.LATEST
        return {id: stop for id, stop in targets.items() if layout.segment(id).is_active or not ends}

    real = seek_target.stops
    return [(seek, "stops", stops)]


def _left_behind() -> list[Patch]:
    """A migration forgets subscriptions that plain topics have and no record knows."""
    return [(migration, "missing", lambda wanted, known: [])]


def _sudden_end() -> list[Patch]:
    """A hold ends with its time, announced or not."""

    def due(held: StoredHold, now_ms: int, announced_for_s: float) -> Due:
        return Due.EXPIRE if held.keeps and now_ms >= held.until_ms else real(held, now_ms, announced_for_s)

    real = hold.due
    return [(hold, "due", due)]


def _untold_gap() -> list[Patch]:
    """Deleted messages in front of a measured position are skipped without an error."""

    async def measure(self: TopicMeter, request: RangeRequest) -> EncodedRange:
        return encode_range((await real(self, request)).stretch._replace(lost=False))

    real = TopicMeter.measure
    return [(TopicMeter, "measure", measure), (TopicMeter, "at_once", lambda self, asked: None)]


# What a safeguard is for


def _moving(
    added: Callable[[random.Random, TopicPlan], TopicPlan],
) -> Callable[[WorldConfig, random.Random], WorldConfig]:
    """Every topic that keeps what was acknowledged has such a subscription and no other."""

    def provoke(world: WorldConfig, rng: random.Random) -> WorldConfig:
        kept = [one for one in world.topics if one.kept]
        return replace(world, topics=tuple(added(rng, replace(one, subscriptions=())) for one in kept))

    return provoke


def _migrating(world: WorldConfig, rng: random.Random) -> WorldConfig:
    """Queues that begin at the end, whose one consumer comes and goes while their topic is migrated."""

    def added(rng: random.Random, topic: TopicPlan) -> TopicPlan:
        variant = with_migration(rng, replace(topic, topic=topic.topic.replace(LEFT, KEPT)))  # as plain ones keep it
        queues = [
            replace(one, earliest=False, consumers=1, stint_s=0.5) for one in variant.subscriptions if one.type == QUEUE
        ]
        return replace(variant, subscriptions=tuple(queues))

    return _moving(added)(world, rng)


def _skipping(world: WorldConfig, rng: random.Random) -> WorldConfig:
    """The same for skips of everything, with consumers that keep sealed segments for long, and do not stay."""
    moving = _moving(with_skips)(with_many_reshapes(world, rng), rng)
    topics = tuple(
        replace(
            topic,
            subscriptions=tuple(replace(one, holds_s=3.0, stint_s=1.0) for one in topic.subscriptions),
        )
        for topic in moving.topics
    )
    return replace(moving, topics=topics)


SUBSCRIPTION_MUTANTS = (
    scalable_mutant("a seek forgets sealed segments", 10, 21, _half_seeks, _moving(with_seeks)),
    scalable_mutant("a seek to a time forgets sealed segments", 10, 21, _half_times, _moving(with_times)),
    scalable_mutant("a cursor is moved by its first seek only", 10, 19, _moved_once, _moving(with_sought_queue)),
    scalable_mutant("a hold ends unannounced", 10, 2, _sudden_end, lapsing),
    scalable_mutant("a gap is passed over without a word", 20, 2, _untold_gap, lapsing),
    scalable_mutant("subscriptions of a plain topic not carried over", 10, 2, _left_behind, _migrating),
    scalable_mutant("sealed segments are left when all is skipped", 10, 21, _half_skips, _skipping),
)
