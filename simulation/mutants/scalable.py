"""Broken versions of the actors and deciders of scalable topics, each with one fault that worlds must find.

They work like those of `simulation.mutants.engines`: each replaces one function while a world runs.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from magnetar.base.ids import Position
from magnetar.broker.segments import cursors, drain_wait, segments
from magnetar.broker.topics import settings as topics_settings
from magnetar.client.consumer.scalable.checkpoint import segments as checkpoint_segments
from magnetar.cluster.calls.topic_calls import SubscriptionLife
from magnetar.layout.checkpoint import DONE, START, Checkpoint, Frontier
from magnetar.layout.layout import Layout
from magnetar.scalable import service
from magnetar.scalable.consumers.stored_subscription import StoredSubscription
from magnetar.scalable.consumers.stream_coordinator import StreamCoordinator
from magnetar.scalable.leader.term import Term
from magnetar.scalable.machines import admission, assign, read_ahead, reshape, takeover
from magnetar.scalable.machines.effects import RecordRead
from magnetar.scalable.machines.table import Transition
from magnetar.scalable.machines.takeover import TakeOver
from magnetar.scalable.record import record
from magnetar.scalable.record.record import Record
from magnetar.scalable.record.subscription import SubscriptionState
from magnetar.topic.dedup.dedup import Dedup, KeylessSpread
from magnetar.topic.dedup.snapshots import DedupSnapshots
from magnetar.topic.dispatch.bucket_order import BucketOrder
from magnetar.topic.measure import RangeRequest, TopicMeter
from magnetar.topic.producers import publish
from magnetar.topic.subscriptions.subscription import Subscription
from magnetar.topic.topic import Topic
from magnetar.wire.scalable.plan_ranges import EncodedRange
from simulation.faults.plan import (
    CALM_S,
    DAYS_S,
    STEPS,
    Fault,
    FaultKind,
)
from simulation.mutants.engines import Mutant, Patch, _gullible
from simulation.world import scalable
from simulation.world.config import (
    CONSUMERS,
    GONE,
    KEPT,
    LEFT,
    ONCE,
    OTHERS,
    PRODUCERS,
    WorldConfig,
)
from simulation.world.variants import (
    with_batches,
    with_consumer_kinds,
    with_keyless,
    with_late_acks,
)
from simulation.world.workload import CHECKPOINT, STREAM, TopicPlan

LOST_TIMES = 5  # that consumers lose their connections to each broker
RESHAPES = tuple(step for step in STEPS if step.startswith("reshape."))


def _hasty_drain() -> list[Patch]:
    """A segment counts as drained by memory alone: acknowledged, and not on disk."""

    def drained(topic: Topic, subscription: Subscription) -> bool:
        return topic.managed.terminated is not None and not subscription.backlog

    return [(drain_wait, "_drained", drained)]


def _impatient() -> list[Patch]:
    """Every unfinished segment is assigned, in spite of unfinished ancestors."""

    def assignable(layout: Layout, latched: Any) -> list[Any]:
        return [one for one in layout.segments if one.id not in latched]

    return [(assign, "assignable", assignable)]


def _no_read_ahead() -> list[Patch]:
    """Children wait until everything of their parents is acknowledged, also for one consumer that has received it."""
    return [(read_ahead, "planned", lambda *inputs: {})]


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
    async def seed(self: DedupSnapshots, dedup: Dedup) -> None:
        """What the parents knew of producers is forgotten."""

    return [(DedupSnapshots, "seed", seed)]


def _careless_heir() -> list[Patch]:
    def resume(self: Term, record: Record, version: int) -> None:
        """What the leader before left is left."""

    return [(Term, "resume_reshape", resume)]


def _no_cursor() -> list[Patch]:
    async def cursor(topic: Topic, key: SubscriptionLife, *, at_end: bool, asked: bool | None = None) -> None:
        if asked is not None:  # a subscription that is made; the children of a reshape get none
            await real(topic, key, at_end=at_end, asked=asked)

    real = cursors.place
    return [(segments, "place", cursor)]


def _deaf_leader() -> list[Patch]:
    """A leader that never stops: it goes on assigning segments at any term in the record."""

    def on(state: TakeOver, event: object) -> takeover.Step:
        return state, ()

    deaf = (RecordRead, takeover.TermRefused, takeover.LockLost, takeover.BeliefExpired)
    rows = {(takeover.Phase.LEADING, kind): Transition(on, (takeover.Phase.LEADING,)) for kind in deaf}

    async def look(self: StoredSubscription) -> None:
        stored, version = await self._term.context.records.subscription(self._term.name, self.one.name)
        if stored is None or stored.life != self.one.life or stored.standing is not SubscriptionState.LIVE:
            await real(self)  # the subscription was removed: no leader goes on with it
            return
        self.one, self._version = stored, version

    real = StoredSubscription.look
    return [(takeover, "TABLE", {**takeover.TABLE, **rows}), (StoredSubscription, "look", look)]


def _deaf_commit() -> list[Patch]:
    """A reshape ignores subscriptions that were made during it."""
    return [
        (reshape, "_subscriptions_moved", lambda state, event: False),
        (admission, "check_provision", lambda *args, **more: True),
    ]


def _restarted_ids() -> list[Patch]:
    """A name that is used again starts with fresh counters."""

    def created(before: Record | None, *args: Any, **more: Any) -> Record:
        record: Record = real(before, *args, **more)
        return record if before is None else replace(real(None, *args, **more), incarnation=record.incarnation)

    real = record.created
    return [(service, "created", created)]


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
    return [(checkpoint_segments, "completes", lambda message: True)]


def _forgotten_holds() -> list[Patch]:
    """A topic deletes what all subscriptions have acknowledged, in spite of holds."""

    async def trim(self: Topic) -> int:
        kept, self.kept = self.kept, None
        try:
            return await real(self)
        finally:
            self.kept = kept

    real = Topic.trim
    return [(Topic, "trim", trim)]


def _stale_plans() -> list[Patch]:
    """An earlier measurement from a position is used again, though more messages have come."""

    async def measure(self: TopicMeter, request: RangeRequest) -> EncodedRange:
        before = self._asked
        return self._told if before is not None and before.start == request.start else await real(self, request)

    real = TopicMeter.measure
    return [(TopicMeter, "measure", measure), (TopicMeter, "at_once", lambda self, asked: None)]


# Faults that a safeguard is for


def _dying_leaders(world: WorldConfig, rng: random.Random) -> WorldConfig:
    """Brokers die or stand still at steps of reshapes, again and again."""
    more = [
        Fault(rng.uniform(CALM_S, world.chaos_s), FaultKind.AT_STEP, (rng.choice(RESHAPES), deed), for_s=lasts_s)
        for deed, lasts_s in (("KILL", 0.5), ("PAUSE", 6.0), ("KILL", 1.0), ("EXPIRE_UNTOLD", 0.0)) * 2
    ]
    return with_faults(world, more)


def _lost_receipts(world: WorldConfig, rng: random.Random) -> WorldConfig:
    """Producers lose their connections while segments are sealed."""
    more = [
        Fault(rng.uniform(CALM_S, world.chaos_s), FaultKind.LOSE, (PRODUCERS, broker))
        for broker in world.brokers
        for _ in range(20)
    ]
    return with_faults(with_many_reshapes(world, rng), more)


def _read(world: WorldConfig, rng: random.Random) -> WorldConfig:
    """Readers with checkpoints on every topic, and many reshapes."""
    readers = tuple(one if _is_read(one) else with_consumer_kinds(rng, one) for one in world.topics)
    return replace(with_many_reshapes(world, rng), topics=readers)


def _is_read(topic: TopicPlan) -> bool:
    return any(plan.type == CHECKPOINT for plan in topic.subscriptions)


def _planned(world: WorldConfig, rng: random.Random) -> WorldConfig:
    """A batch reader, under a hold, on a topic of small ledgers that retains nothing without the hold."""
    held = scalable.unretained_topic(rng, f"topic://{GONE}/held")
    others = tuple(one for one in world.topics if one.topic != held.topic)
    settings = {**world.settings, "managedLedgerMaxEntriesPerLedger": "5"}
    return replace(world, topics=(*others, with_batches(rng, held)), settings=settings)


def with_many_reshapes(world: WorldConfig, rng: random.Random) -> WorldConfig:
    """Many reshapes, and subscriptions and topics that come and go."""
    assert world.scale is not None
    return replace(world, scale=replace(world.scale, reshape_s=0.2, idle=True, doomed=True))


def with_faults(world: WorldConfig, more: list[Fault]) -> WorldConfig:
    return replace(world, faults=tuple(sorted([*world.faults, *more], key=lambda fault: fault.at_s)))


def _hasty_buckets() -> list[Patch]:
    """The new owner of an entry bucket gets messages while the former one has unacknowledged ones of it."""

    def may_send(self: BucketOrder[Any], slot: int, consumer: Any, position: Position) -> bool:
        return True

    return [(BucketOrder, "may_send", may_send)]


def _sharing(config: WorldConfig, chance: random.Random) -> WorldConfig:
    """Many consumers of few segments, who keep what they have for a while."""
    scale = None if config.scale is None else replace(config.scale, segments=1, active_max=2)
    topics = tuple(
        replace(
            topic,
            subscriptions=tuple(
                replace(plan, consumers=5, holds_s=2.0, stint_s=1.0) if plan.type == STREAM else plan
                for plan in topic.subscriptions
            ),
        )
        for topic in config.topics
    )
    return replace(config, scale=scale, topics=topics)


def _unkept() -> list[Patch]:
    """Scalable topics keep what plain ones keep: a seal closes a ledger, and nothing keeps it."""

    def retention(settings: Any, policies: Any, topic: Any, scalable: bool) -> Any:
        return real(settings, policies, topic, False)

    real = topics_settings._retention
    return [(topics_settings, "_retention", retention)]


def _unnumbered() -> list[Patch]:
    """After a merge it is unknown which parent may have a message without a key."""
    return [(KeylessSpread, "numbers", lambda self, span, entry: None), (publish, "_spread_hash", lambda *given: None)]


def _unset(world: WorldConfig, chance: random.Random) -> WorldConfig:
    """Topics in a namespace without a retention policy, in a world that lasts until housekeeping has come round."""
    topics = tuple(replace(one, topic=one.topic.replace(KEPT, LEFT), regular=False) for one in world.topics)
    return replace(world, topics=topics, chaos_s=max(world.chaos_s, 9.0))


def _wrong_clocks(world: WorldConfig, chance: random.Random) -> WorldConfig:
    """The same, and clocks that are days ahead."""
    jumps = [Fault(chance.uniform(CALM_S, 4.0), FaultKind.JUMP, (broker,), amount=DAYS_S) for broker in world.brokers]
    return with_faults(_unset(world, chance), jumps)


def _without_keys(world: WorldConfig, chance: random.Random) -> WorldConfig:
    """Producers that send again what they do not know to be stored, without keys, while segments are merged."""

    def once(topic: TopicPlan) -> TopicPlan:
        name = topic.topic.replace(KEPT, ONCE).replace(LEFT, ONCE)
        sure = tuple(replace(one, resends=True, batch_messages=1, send_timeout_s=0.0) for one in topic.producers)
        return with_keyless(replace(topic, topic=name, deduplication=True, producers=sure))

    topics = {once(topic).topic: once(topic) for topic in world.topics if topic.kept and not topic.regular}
    return _lost_receipts(replace(world, topics=tuple(topics.values())), chance)


def _late_acks(world: WorldConfig, chance: random.Random) -> WorldConfig:
    """One consumer of each stream, which stays, and acknowledges many messages at a time, by time or when it leaves."""

    def late(topic: TopicPlan) -> TopicPlan:
        streams = [one for one in topic.subscriptions if one.type == STREAM and not one.seeks and not one.skipped]
        alone = tuple(replace(one, consumers=1, earliest=True, stint_s=100.0) for one in streams)
        return with_late_acks(chance, replace(topic, subscriptions=alone))

    return replace(
        with_many_reshapes(world, chance), topics=tuple(late(topic) for topic in world.topics if not topic.regular)
    )


def _stale_receipts() -> list[Patch]:
    """The controller remembers that a consumer received a segment after the consumer's hold of it has ended."""
    return [(StreamCoordinator, "_forget_received", lambda self, holds: None)]


def _late_acks_over_bad_links(world: WorldConfig, chance: random.Random) -> WorldConfig:
    """The same consumers lose their connections again and again: holds end while more is read ahead."""
    variant = _late_acks(world, chance)
    lost = [
        Fault(chance.uniform(CALM_S, variant.chaos_s), FaultKind.LOSE, (broker, host), for_s=chance.uniform(0.1, 0.3))
        for broker in variant.brokers
        for host in (CONSUMERS, OTHERS)
        for _ in range(LOST_TIMES)
    ]
    return with_faults(variant, lost)


def scalable_mutant(name: str, seeds: int, near: int, patches: Any, provoke: Any = None, brokers: int = 1) -> Mutant:
    return Mutant(name, seeds, near, True, patches=patches, provoke=provoke, brokers=brokers, scalable=True)


SCALABLE_MUTANTS = (
    scalable_mutant("drain judged from unflushed acks", 10, 2, _hasty_drain),
    scalable_mutant("children given before their ancestors are latched", 10, 2, _impatient),
    scalable_mutant("children wait for late acknowledgements", 5, 2, _no_read_ahead, _late_acks),
    scalable_mutant("a segment counts as received after its hold", 40, 54, _stale_receipts, _late_acks_over_bad_links),
    scalable_mutant("only direct parents gate", 30, 43, _only_parents, with_many_reshapes),
    scalable_mutant("deduplication map not seeded", 40, 59, _unseeded, _lost_receipts),
    scalable_mutant("take-over does not finish an intent", 20, 2, _careless_heir, _dying_leaders, 2),
    scalable_mutant("cursor not created on a child", 5, 2, _no_cursor),
    scalable_mutant("old leader not stopped", 60, 54, _deaf_leader, _dying_leaders, 2),
    scalable_mutant("subscription born during a reshape overlooked", 60, 171, _deaf_commit, with_many_reshapes),
    scalable_mutant("segment ids restarted", 20, 30, _restarted_ids, with_many_reshapes),
    scalable_mutant("a bucket changes hands with entries unacknowledged", 10, 2, _hasty_buckets, _sharing),
    scalable_mutant("finished segments left out of a checkpoint", 10, 21, _forgetful_checkpoint, _read),
    scalable_mutant("a batch read with its first message", 20, 19, _hasty_reader, _read),
    scalable_mutant("a hold forgotten when a topic lets go", 5, 2, _forgotten_holds, _planned),
    scalable_mutant("a plan told again though more came", 5, 2, _stale_plans, _planned),
    scalable_mutant("a split deletes what has no subscription", 5, 2, _unkept, _unset),
    scalable_mutant("a jump of the clock makes everything old", 20, 10, _gullible, _wrong_clocks),
    scalable_mutant("messages without keys told apart by nothing", 20, 54, _unnumbered, _without_keys),
)
