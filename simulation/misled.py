"""Versions of what moves subscriptions, migrates topics and ends holds that are wrong on purpose, each in one way:
worlds must catch every one.

As in `simulation.misshapen`, of whose kind they are.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from magnetar.base.ids import SegmentId
from magnetar.broker import resets, segments
from magnetar.cluster.peers import CursorThere, Overtaken, ResetCursor
from magnetar.layout.layout import Layout
from magnetar.layout.segment import Segment
from magnetar.scalable import hold, migrate, seeking, target
from magnetar.scalable.hold import Due, Held
from magnetar.scalable.records import Records
from magnetar.scalable.target import Stop, Target, Where
from magnetar.topic.measure import Asked, Meter
from magnetar.topic.topic import Topic
from magnetar.wire.stretches import Told, told
from simulation.misshapen import _busy, _mutant
from simulation.mutants import Patch
from simulation.shape import Shape, lapsing
from simulation.ways import with_migration, with_seeks, with_skips, with_sought_queue, with_times
from simulation.workload import QUEUE, TopicPlan


def _half_seeks() -> list[Patch]:
    """A seek moves the segments that take messages, and forgets those before them."""

    def stops(asked: Target, layout: Layout) -> dict[SegmentId, Stop]:
        found: dict[SegmentId, Stop] = real(asked, layout)
        return {id: stop for id, stop in found.items() if layout.segment(id).is_active}

    real = target.stops
    return [(seeking, "stops", stops)]


def _half_times() -> list[Patch]:
    """A seek to a time takes a sealed segment for one of before it, whatever its bounds."""

    def by_time(segment: Segment, time_ms: int) -> Stop:
        return real(segment, time_ms) if segment.is_active else target.END

    real = target._by_time
    return [(target, "_by_time", by_time)]


def _moved_once() -> list[Patch]:
    """A cursor that a seek has moved is taken for moved by every later one."""

    async def reset(records: Records, topic: Topic, request: ResetCursor) -> CursorThere | Overtaken:
        found = topic.subscriptions.get(request.subscription.name)
        if found is None or resets.SEEKS_PROPERTY not in found.cursor.properties:
            return await real(records, topic, request)
        end = topic.managed.terminated
        return CursorThere(end is not None and found.cursor.drained(end))

    real = resets.reset
    return [(segments, "reset", reset)]


def _half_skips() -> list[Patch]:
    """Who passes over everything passes over what takes messages, and leaves the rest."""

    def stops(asked: Target, layout: Layout) -> dict[SegmentId, Stop]:
        found: dict[SegmentId, Stop] = real(asked, layout)
        ends = asked.where is Where.LATEST
        return {id: stop for id, stop in found.items() if layout.segment(id).is_active or not ends}

    real = target.stops
    return [(seeking, "stops", stops)]


def _left_behind() -> list[Patch]:
    """A migration forgets subscriptions that plain topics have and no record knows."""
    return [(migrate, "missing", lambda wanted, known: [])]


def _sudden_end() -> list[Patch]:
    """A hold whose time is over ends, announced or not."""

    def due(held: Held, now_ms: int, announced_for_s: float) -> Due:
        return Due.EXPIRE if held.keeps and now_ms >= held.until_ms else real(held, now_ms, announced_for_s)

    real = hold.due
    return [(hold, "due", due)]


def _untold_gap() -> list[Patch]:
    """What is gone before a place that is measured is passed over without a word."""

    async def measure(self: Meter, asked: Asked) -> Told:
        return told((await real(self, asked)).stretch._replace(lost=False))

    real = Meter.measure
    return [(Meter, "measure", measure), (Meter, "at_once", lambda self, asked: None)]


# What a safeguard is for


def _moving(added: Callable[[random.Random, TopicPlan], TopicPlan]) -> Callable[[Shape, random.Random], Shape]:
    """Every topic that keeps what was acknowledged has such a subscription and no other."""

    def provoked(world: Shape, rng: random.Random) -> Shape:
        kept = [one for one in world.topics if one.kept]
        return replace(world, topics=tuple(added(rng, replace(one, subscriptions=())) for one in kept))

    return provoked


def _migrating(world: Shape, rng: random.Random) -> Shape:
    """Queues that begin at the end, whose one consumer comes and goes while their topic is migrated."""

    def added(rng: random.Random, topic: TopicPlan) -> TopicPlan:
        made = with_migration(rng, topic)
        queues = [
            replace(one, earliest=False, consumers=1, stint_s=0.5) for one in made.subscriptions if one.type == QUEUE
        ]
        return replace(made, subscriptions=tuple(queues))

    return _moving(added)(world, rng)


def _skipping(world: Shape, rng: random.Random) -> Shape:
    """The same for who passes over everything, with consumers that keep sealed segments for long, and do not stay."""
    found = _moving(with_skips)(_busy(world, rng), rng)
    topics = tuple(
        replace(
            topic,
            subscriptions=tuple(replace(one, holds_s=3.0, stint_s=1.0) for one in topic.subscriptions),
        )
        for topic in found.topics
    )
    return replace(found, topics=topics)


MISLED = (
    _mutant("a seek forgets sealed segments", 10, 21, _half_seeks, _moving(with_seeks)),
    _mutant("a seek to a time forgets sealed segments", 10, 21, _half_times, _moving(with_times)),
    _mutant("a cursor is moved by its first seek only", 10, 19, _moved_once, _moving(with_sought_queue)),
    _mutant("a hold ends unannounced", 10, 2, _sudden_end, lapsing),
    _mutant("a gap is passed over without a word", 20, 2, _untold_gap, lapsing),
    _mutant("subscriptions of a plain topic not carried over", 10, 2, _left_behind, _migrating),
    _mutant("sealed segments are left when all is skipped", 10, 21, _half_skips, _skipping),
)
