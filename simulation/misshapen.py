"""Versions of the actors and deciders of scalable topics that are wrong on purpose, each in one way: worlds must catch
every one.

As in `simulation.mutants`, whose kind they are: put in the place of one function while a world runs.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from magnetar.base.errors import SubscriptionNotFound
from magnetar.base.ids import Position, SegmentId
from magnetar.broker import awaited, cursors, resets, segments
from magnetar.client import checkpoint_parts
from magnetar.cluster.peers import CursorThere, Overtaken, ResetCursor, SubscriptionLife
from magnetar.layout.checkpoint import DONE, START, Checkpoint, Frontier
from magnetar.layout.layout import Layout
from magnetar.layout.segment import Segment
from magnetar.layout.stretch import Stretch
from magnetar.scalable import admission, assign, migrate, record, reshape, seeking, takeover, target
from magnetar.scalable.calls import RecordRead
from magnetar.scalable.kept import Kept
from magnetar.scalable.record import Record
from magnetar.scalable.records import Records
from magnetar.scalable.rows import Row
from magnetar.scalable.subscription import Standing
from magnetar.scalable.takeover import TakeOver
from magnetar.scalable.target import Stop, Target, Where
from magnetar.scalable.term import Term
from magnetar.topic.bucketorder import BucketOrder
from magnetar.topic.dedup import Dedup
from magnetar.topic.measure import Asked, Meter
from magnetar.topic.recall import Recall
from magnetar.topic.subscription import Subscription
from magnetar.topic.topic import Topic
from simulation import scale
from simulation.faults import CALM_S, STEPS, Fault, Kind
from simulation.mutants import Mutant, Patch
from simulation.shape import GONE, PRODUCERS, Shape
from simulation.ways import (
    with_batches,
    with_migration,
    with_seeks,
    with_skips,
    with_sought_queue,
    with_times,
    with_ways,
)
from simulation.workload import CHECKPOINT, QUEUE, STREAM, TopicPlan

RESHAPES = tuple(step for step in STEPS if step.startswith("reshape."))


def _hasty_drain() -> list[Patch]:
    """Drained is what memory says: acknowledged, and not on disk."""

    def drained(topic: Topic, subscription: Subscription) -> bool:
        return topic.managed.terminated is not None and not subscription.backlog

    return [(awaited, "_drained", drained)]


def _impatient() -> list[Patch]:
    """Every segment that is not done is given out, whatever stands before it."""

    def assignable(layout: Layout, latched: Any) -> list[Any]:
        return [one for one in layout.segments if one.id not in latched]

    return [(assign, "assignable", assignable)]


def _only_parents() -> list[Patch]:
    """A segment waits for its parents, and not for theirs."""

    def assignable(layout: Layout, latched: Any) -> list[Any]:
        left = [one for one in layout.segments if one.id not in latched]
        return [one for one in left if all(id in latched or _empty(layout, id) for id in one.parents)]

    def _empty(layout: Layout, id: Any) -> bool:
        ending = layout.segment(id).ending
        return ending is not None and ending.messages == 0

    return [(assign, "assignable", assignable)]


def _unseeded() -> list[Patch]:
    async def seed(self: Recall, known: Dedup) -> None:
        """What the parents knew of producers is forgotten."""

    return [(Recall, "seed", seed)]


def _careless_heir() -> list[Patch]:
    def resume(self: Term, record: Record, version: int) -> None:
        """What the leader before left is left."""

    return [(Term, "resume_reshape", resume)]


def _no_cursor() -> list[Patch]:
    async def cursor(topic: Topic, one: SubscriptionLife, *, at_end: bool, asked: bool | None = None) -> None:
        if asked is not None:  # a subscription that is made; the children of a reshape get none
            await real(topic, one, at_end=at_end, asked=asked)

    real = cursors.place
    return [(segments, "place", cursor)]


def _deaf_leader() -> list[Patch]:
    """A leader that never stops: whatever term stands in the record, it goes on giving segments out."""

    def on(state: TakeOver, event: object) -> takeover.Step:
        return state, ()

    deaf = (RecordRead, takeover.TermRefused, takeover.LockLost, takeover.BeliefExpired)
    rows = {(takeover.Phase.LEADING, kind): Row(on, (takeover.Phase.LEADING,)) for kind in deaf}

    async def look(self: Kept) -> None:
        one, version = await self._term.around.records.subscription(self._term.name, self.one.name)
        if one is None or one.life != self.one.life or one.standing is not Standing.LIVE:
            self._ended()
            raise SubscriptionNotFound("the subscription was removed")
        self.one, self._version = one, version

    return [(takeover, "TABLE", {**takeover.TABLE, **rows}), (Kept, "look", look)]


def _deaf_commit() -> list[Patch]:
    """A subscription that came during a reshape is not looked for."""
    return [
        (reshape, "_subscriptions_moved", lambda state, event: False),
        (admission, "check_provision", lambda *args, **more: True),
    ]


def _restarted_ids() -> list[Patch]:
    """A name that is used again begins anew, its counters too."""

    def created(before: Record | None, *args: Any, **more: Any) -> Record:
        made: Record = real(before, *args, **more)
        return made if before is None else replace(real(None, *args, **more), incarnation=made.incarnation)

    real = record.created
    return [(record, "created", created)]


def _forgetful_checkpoint() -> list[Patch]:
    """A checkpoint names only what was read and has not ended: absence means "done" and "never begun" alike (H-G1)."""

    def checkpoint(self: Frontier) -> Checkpoint:
        whole: Checkpoint = real(self)
        read = {id: place for id, place in whole.places.items() if place not in (START, DONE)}
        return replace(whole, places=read)

    real = Frontier.checkpoint
    return [(Frontier, "checkpoint", checkpoint)]


def _hasty_reader() -> list[Patch]:
    """A batch counts as read with its first message."""
    return [(checkpoint_parts, "completes", lambda message: True)]


def _forgotten_holds() -> list[Patch]:
    """A topic lets go of what all subscriptions have, whatever is held."""

    async def trim(self: Topic) -> int:
        kept, self.kept = self.kept, None
        try:
            return await real(self)
        finally:
            self.kept = kept

    real = Topic.trim
    return [(Topic, "trim", trim)]


def _stale_plans() -> list[Patch]:
    """What was once measured from a place is told again, though more has come."""

    async def measure(self: Meter, asked: Asked) -> Stretch:
        said = self._said
        return said.told if said is not None and said.asked.start == asked.start else await real(self, asked)

    real = Meter.measure
    return [(Meter, "measure", measure), (Meter, "at_once", lambda self, asked: None)]


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


# Faults that a safeguard is for


def _dying_leaders(world: Shape, rng: random.Random) -> Shape:
    """Brokers die or stand still at steps of reshapes, again and again."""
    more = [
        Fault(rng.uniform(CALM_S, world.chaos_s), Kind.AT_STEP, (rng.choice(RESHAPES), deed), for_s=lasts_s)
        for deed, lasts_s in (("KILL", 0.5), ("PAUSE", 6.0), ("KILL", 1.0), ("EXPIRE_UNTOLD", 0.0)) * 2
    ]
    return _with(world, more)


def _lost_receipts(world: Shape, rng: random.Random) -> Shape:
    """Producers lose their connections while segments are sealed."""
    more = [
        Fault(rng.uniform(CALM_S, world.chaos_s), Kind.LOSE, (PRODUCERS, broker))
        for broker in world.brokers
        for _ in range(20)
    ]
    return _with(_busy(world, rng), more)


def _read(world: Shape, rng: random.Random) -> Shape:
    """Readers with checkpoints on every topic, and many reshapes."""
    readers = tuple(one if _is_read(one) else with_ways(rng, one) for one in world.topics)
    return replace(_busy(world, rng), topics=readers)


def _is_read(topic: TopicPlan) -> bool:
    return any(plan.type == CHECKPOINT for plan in topic.subscriptions)


def _planned(world: Shape, rng: random.Random) -> Shape:
    """Somebody reads in batches, under a hold, a topic of small ledgers that keeps nothing without it."""
    held = scale.unkept(rng, f"topic://{GONE}/held")
    others = tuple(one for one in world.topics if one.topic != held.topic)
    settings = {**world.settings, "managedLedgerMaxEntriesPerLedger": "5"}
    return replace(world, topics=(*others, with_batches(rng, held)), settings=settings)


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


def _busy(world: Shape, rng: random.Random) -> Shape:
    """Many reshapes, and subscriptions and topics that come and go."""
    assert world.scale is not None
    return replace(world, scale=replace(world.scale, reshape_s=0.2, idle=True, doomed=True))


def _with(world: Shape, more: list[Fault]) -> Shape:
    return replace(world, faults=tuple(sorted([*world.faults, *more], key=lambda fault: fault.at_s)))


def _hasty_buckets() -> list[Patch]:
    """Whoever owns an entry bucket now gets what comes, whatever the one before has of it unacknowledged."""

    def may_send(self: BucketOrder[Any], slot: int, consumer: Any, position: Position) -> bool:
        return True

    return [(BucketOrder, "may_send", may_send)]


def _sharing(shape: Shape, chance: random.Random) -> Shape:
    """Many consumers of few segments, who keep what they have for a while."""
    scale = None if shape.scale is None else replace(shape.scale, segments=1, active_max=2)
    topics = tuple(
        replace(
            topic,
            subscriptions=tuple(
                replace(plan, consumers=5, holds_s=2.0, stint_s=1.0) if plan.type == STREAM else plan
                for plan in topic.subscriptions
            ),
        )
        for topic in shape.topics
    )
    return replace(shape, scale=scale, topics=topics)


def _mutant(name: str, seeds: int, near: int, patches: Any, provoked: Any = None, brokers: int = 1) -> Mutant:
    return Mutant(name, seeds, near, True, patches=patches, provoked=provoked, brokers=brokers, scalable=True)


MISSHAPEN = (
    _mutant("drain judged from unflushed acks", 10, 2, _hasty_drain),
    _mutant("children given before their ancestors are latched", 10, 2, _impatient),
    _mutant("only direct parents gate", 30, 43, _only_parents, _busy),
    _mutant("deduplication map not seeded", 40, 59, _unseeded, _lost_receipts),
    _mutant("take-over does not finish an intent", 20, 2, _careless_heir, _dying_leaders, 2),
    _mutant("cursor not created on a child", 5, 2, _no_cursor),
    _mutant("old leader not stopped", 60, 54, _deaf_leader, _dying_leaders, 2),
    _mutant("subscription born during a reshape overlooked", 60, 171, _deaf_commit, _busy),
    _mutant("segment ids restarted", 20, 30, _restarted_ids, _busy),
    _mutant("a bucket changes hands with entries unacknowledged", 10, 2, _hasty_buckets, _sharing),
    _mutant("finished segments left out of a checkpoint", 10, 21, _forgetful_checkpoint, _read),
    _mutant("a batch read with its first message", 20, 19, _hasty_reader, _read),
    _mutant("a hold forgotten when a topic lets go", 5, 2, _forgotten_holds, _planned),
    _mutant("a plan told again though more came", 5, 2, _stale_plans, _planned),
    _mutant("a seek forgets sealed segments", 10, 21, _half_seeks, _moving(with_seeks)),
    _mutant("a seek to a time forgets sealed segments", 10, 21, _half_times, _moving(with_times)),
    _mutant("a cursor is moved by its first seek only", 10, 19, _moved_once, _moving(with_sought_queue)),
    _mutant("subscriptions of a plain topic not carried over", 10, 2, _left_behind, _migrating),
    _mutant("sealed segments are left when all is skipped", 10, 21, _half_skips, _skipping),
)
