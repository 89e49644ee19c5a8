"""Keys through three generations of segments: their messages reach a stream subscription in order whatever crashes.

Either one key goes through two splits; or the children of a split, each with messages of its own key, are merged again,
and one consumer has both or two have one each. The REAL drain and assignment decide; around them are a producer with a
cached layout, two consumers, owners whose acks reach the disk later, and a controller that loses all it did not store.
Consumers acknowledge when they like, so segments are read before their ancestors are acknowledged (H-F20). Faults: an
owner crashes (acks that were not flushed are gone), the controller fails over, a consumer leaves, or loses its
connection to a segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pytest

from magnetar.base.ids import Position, SegmentId, Term
from magnetar.layout.layout import Layout, initial
from magnetar.layout.lineage import descends
from magnetar.scalable.machines import assign, drain, read_ahead
from magnetar.scalable.record.subscription import Early, Hold, Member, StreamPlan, Subscription, Type
from tests.model.explore import Found, explore
from tests.model.world import Ref, Refs

FIRST, SECOND = "a", "b"
LOWER, UPPER = 0x0000, 0xFFFF  # hashes of keys
GRACE_MS = 60_000


class Course(NamedTuple):
    """Three layouts, the segments that get messages, and the hash of each message's key."""

    layouts: tuple[Layout, Layout, Layout]
    path: tuple[SegmentId, ...]
    keys: tuple[int, ...]


_FIRST = initial(1, now_ms=0)
_SPLIT = _FIRST.split(SegmentId(0), now_ms=1)
SPLITS = Course(
    (_FIRST, _SPLIT, _SPLIT.split(SegmentId(1), now_ms=2)),
    (SegmentId(0), SegmentId(1), SegmentId(3)),
    (LOWER, LOWER, LOWER),
)
MERGE = Course(
    (_FIRST, _SPLIT, _SPLIT.merge([SegmentId(1), SegmentId(2)], now_ms=2)),
    (SegmentId(0), SegmentId(1), SegmentId(2), SegmentId(3)),
    (LOWER, LOWER),
)
MERGE_OF_TWO_KEYS = MERGE._replace(keys=(LOWER, UPPER, LOWER))


class Log(NamedTuple):
    """One segment of the path at its owner."""

    messages: tuple[int, ...] = ()
    read: int = 0  # sent to the consumer
    acked: int = 0  # in memory
    durable: int = 0
    consumer: str = ""  # attached
    ahead: bool = False  # its acks are kept apart: an ancestor is not done
    early: int = 0  # those


class World(NamedTuple):
    stage: int
    cached: int  # the producer's layout
    sent: int
    logs: tuple[Log, ...]
    stored: Ref  # the subscription's record
    plan: Ref  # assign.Assign of the controller
    drains: Ref  # drain.Drain of the controller
    seen: int  # the controller's layout
    last: tuple[int, int]  # the message of each key delivered last
    received: tuple[tuple[int, str], ...]  # what the controller heard: who has received all of a segment
    crashes: int
    failovers: int
    leaves: int
    joins: int
    detaches: int
    wrong: str


def as_stored(inputs: assign.InputsChanged) -> assign.InputsChanged:
    return inputs


def only_direct_parents_gate(inputs: assign.InputsChanged) -> assign.InputsChanged:
    """A latched segment counts as clear whatever comes before it: its edges upwards are cut."""
    latched = {id for id in inputs.latched if id in inputs.layout}
    return replace(inputs, layout=_without_edges(inputs.layout, latched))


def sealed_ones_are_always_given_out(inputs: assign.InputsChanged) -> assign.InputsChanged:
    """As Pulsar does: only active segments wait, and only for their parents."""
    sealed = {one.id for one in inputs.layout.segments if not one.is_active}
    return replace(inputs, layout=_without_edges(inputs.layout, sealed))


def _without_edges(layout: Layout, roots: set[SegmentId]) -> Layout:
    return replace(
        layout,
        segments=tuple(
            replace(
                one,
                parents=() if one.id in roots else one.parents,
                children=tuple(child for child in one.children if child not in roots),
            )
            for one in layout.segments
        ),
    )


def received_by_all(log: Log, consumer: str) -> bool:
    return log.consumer == consumer and log.read == len(log.messages)


def given_out_unread(log: Log, consumer: str) -> bool:
    """Whoever holds a sealed segment counts as having received it."""
    return log.consumer == consumer


def held_back(holds: Sequence[Hold], id: SegmentId, layout: Layout) -> bool:
    """Nobody attaches to an ancestor of a segment that is read early."""
    return any(
        hold.early is not Early.NO and hold.segment in layout and descends(layout, hold.segment, id) for hold in holds
    )


def never_held_back(holds: Sequence[Hold], id: SegmentId, layout: Layout) -> bool:
    return False


def durable(log: Log) -> int:
    return log.durable


def unflushed(log: Log) -> int:
    return log.acked


def ends_alone(segment: SegmentId, holder: str, ancestor: SegmentId, layout: Layout) -> assign.Event:
    return assign.EarlyRefused(segment, holder)


def ends_with_all_behind(segment: SegmentId, holder: str, ancestor: SegmentId, layout: Layout) -> assign.Event:
    """A proposal that is not confirmed takes back every segment behind the ancestor that the holder left."""
    return assign.AncestorLost(ancestor, layout)


@dataclass
class Stream:
    course: Course = SPLITS
    gate: Callable[[assign.InputsChanged], assign.InputsChanged] = as_stored
    mark: Callable[[Log], int] = durable
    received: Callable[[Log, str], bool] = received_by_all
    held_back: Callable[[Sequence[Hold], SegmentId, Layout], bool] = held_back
    refused: Callable[[SegmentId, str, SegmentId, Layout], assign.Event] = ends_alone
    messages: int = 3
    ref: Refs = field(default_factory=Refs)
    steps: dict[Any, tuple[Ref, tuple[StreamPlan, ...]]] = field(
        default_factory=dict
    )  # of `assign`: they cost the most
    ancestries: dict[tuple[Ref, int], read_ahead.Ancestry] = field(default_factory=dict)

    def start(
        self, *, crashes: int = 0, failovers: int = 0, leaves: int = 0, joins: int = 1, detaches: int = 0
    ) -> World:
        stored = Subscription("s", Type.STREAM, 0, 1, ready=True, members=(Member(FIRST, 1),))
        world = World(
            stage=0,
            cached=0,
            sent=0,
            logs=tuple(Log() for _ in self.course.path),
            stored=self.ref(stored),
            plan=self.ref(assign.Assign(stored.plan, self.course.layouts[0].epoch, Term(1))),
            drains=self.ref(drain.restore(stored)),
            seen=0,
            last=(0, 0),
            received=(),
            crashes=crashes,
            failovers=failovers,
            leaves=leaves,
            joins=joins,
            detaches=detaches,
            wrong="",
        )
        return self._reassign(world)

    def moves(self, world: World) -> Iterator[tuple[str, World, bool]]:
        if world.stage < 2:
            yield f"reshape {world.stage + 1}", world._replace(stage=world.stage + 1), False
        if world.sent < self.messages:
            yield self._produce(world)
        if world.seen < world.stage:
            seen = world._replace(seen=world.stage)
            yield (
                "controller sees the layout",
                self._to_drain(seen, drain.LayoutSeen(self.course.layouts[seen.seen])),
                False,
            )
        for place, log in enumerate(world.logs):
            yield from self._segment_moves(world, place, log)
        yield from self._member_moves(world)
        yield from self._early_moves(world)
        if world.failovers:
            stored: Subscription = world.stored.value
            term = Term(world.plan.value.term + 1)
            after = world._replace(
                plan=self.ref(assign.Assign(stored.plan, self.course.layouts[0].epoch, term)),
                drains=self.ref(drain.restore(stored)),
                received=(),
                failovers=world.failovers - 1,
            )
            after = self._to_drain(
                after, drain.LayoutSeen(self.course.layouts[after.seen])
            )  # the record is read at a take-over
            yield "CONTROLLER FAILS OVER", after, True

    def _produce(self, world: World) -> tuple[str, World, bool]:
        target = self.course.layouts[world.cached].route(self.course.keys[world.sent]).id
        if not self.course.layouts[world.stage].segment(target).is_active:
            return "producer hears of the layout", world._replace(cached=world.stage), False
        place = self.course.path.index(target)
        log = world.logs[place]
        after = self._log(world, place, log._replace(messages=(*log.messages, world.sent + 1)))
        return f"message {world.sent + 1} to {target}", after._replace(sent=world.sent + 1), False

    def _segment_moves(self, world: World, place: int, log: Log) -> Iterator[tuple[str, World, bool]]:
        id = self.course.path[place]
        stored: Subscription = world.stored.value
        granted = [one.name for one in stored.members if id in assign.assignment(stored.plan, one.name)]
        layout = self.course.layouts[world.stage]
        free = not log.consumer or not self._is_member(world, log.consumer)
        if granted and granted[0] != log.consumer and free and not self.held_back(stored.plan.holds, id, layout):
            ahead = bool(read_ahead.blocking(layout, id, stored.latched))
            known = max(log.acked, log.early)  # acks that are kept count at once if nothing comes before them any more
            kept = {"early": log.early} if ahead else {"early": 0, "acked": known}
            attached = log._replace(consumer=granted[0], read=known, ahead=ahead, **kept)
            yield f"{granted[0]} attaches to {id}", self._log(world, place, attached), False
        moving = next((hold for hold in stored.plan.holds if hold.segment == id and hold.moving), None)
        if log.consumer and log.consumer not in granted and self._is_member(world, log.consumer):
            freed = self._log(world, place, log._replace(consumer="", read=log.acked))
            if moving is None or moving.early is not Early.ENDING:
                freed = self._to_assign(freed, assign.SegmentReleased(id, log.consumer))
            yield f"{log.consumer} lets go of {id}", freed, False
        if moving is not None and not log.consumer and moving.early is not Early.ENDING:
            told = self._to_assign(world, assign.SegmentReleased(id, moving.held_by))
            yield f"owner tells that nobody is attached to {id}", told, False
        if log.consumer and log.read < len(log.messages):
            yield f"{log.consumer} gets {log.messages[log.read]} of {id}", self._deliver(world, place, log), False
        if log.consumer and (log.early if log.ahead else log.acked) < log.read:
            acked = log._replace(early=log.read) if log.ahead else log._replace(acked=log.read)
            yield f"{log.consumer} acks {id}", self._log(world, place, acked), False
        if log.consumer and world.detaches:
            lost = self._log(world, place, log._replace(consumer="", read=log.acked))
            yield f"{log.consumer.upper()} LOSES {id}", lost._replace(detaches=world.detaches - 1), True
        if log.durable < log.acked:
            yield f"acks of {id} reach the disk", self._log(world, place, log._replace(durable=log.acked)), False
        known = id in self.course.layouts[world.stage] and not self.course.layouts[world.stage].segment(id).is_active
        if known and drain.drained(Position(0, len(log.messages)), Position(0, self.mark(log))):
            told = drain.SegmentDrained(id, stored.life, stored.seeks)
            yield f"owner tells that {id} is drained", self._to_drain(world, told), False
        if world.crashes and log.messages:
            back = log._replace(acked=log.durable, read=log.durable, consumer="", ahead=False, early=0)
            yield f"OWNER OF {id} CRASHES", self._log(world, place, back)._replace(crashes=world.crashes - 1), True

    def _member_moves(self, world: World) -> Iterator[tuple[str, World, bool]]:
        stored: Subscription = world.stored.value
        names = [one.name for one in stored.members]
        if world.joins and SECOND not in names:
            both = replace(stored, members=(*stored.members, Member(SECOND, 2)))
            yield "b joins", self._reassign(world._replace(stored=self.ref(both), joins=world.joins - 1)), False
        if world.leaves and len(names) == 2:
            rest = replace(stored, members=(Member(SECOND, 2),))
            yield "A LEAVES", self._reassign(world._replace(stored=self.ref(rest), leaves=world.leaves - 1)), True

    def _early_moves(self, world: World) -> Iterator[tuple[str, World, bool]]:
        """What the controller asks owners for `read_ahead`."""
        stored: Subscription = world.stored.value
        layout, holds = self.course.layouts[world.seen], stored.plan.holds
        ancestry = self.ancestries.get((world.stored, world.seen))
        if ancestry is None:
            ancestry = read_ahead.unfinished_ancestors(layout, stored.latched, {hold.segment: hold for hold in holds})
            self.ancestries[world.stored, world.seen] = ancestry
        for hold in holds:
            id = hold.segment
            if id not in self.course.path:  # no message is there
                yield from self._empty_moves(world, hold, ancestry)
                continue
            place = self.course.path.index(id)
            log = world.logs[place]
            if hold.moving and hold.early is Early.ENDING:
                gone = self._log(world, place, log._replace(consumer="", read=log.acked, ahead=False, early=0))
                freed = self._to_assign(gone, assign.SegmentReleased(id, hold.held_by))
                yield f"{hold.holder} is sent away from {id}", self._reassign(freed), False
            if hold.moving:
                continue
            sealed = not layout.segment(id).is_active
            if sealed and (id, hold.holder) not in world.received and self.received(log, hold.holder):
                heard = world._replace(received=tuple(sorted({*world.received, (id, hold.holder)})))
                yield f"owner tells that {hold.holder} has received {id}", self._reassign(heard), False
            if hold.early is Early.PROPOSED:
                yield from self._confirm(world, hold, ancestry.get(id, frozenset()))
            elif hold.early is Early.GRANTED and id not in ancestry:
                applied = log._replace(acked=max(log.acked, log.early), ahead=False, early=0)
                after = self._to_assign(self._log(world, place, applied), assign.AcksApplied(id, hold.holder))
                yield f"acks of {id} are applied", self._reassign(after), False
        for id, consumer in sorted(read_ahead.watched(holds, ancestry).items()):
            log = world.logs[self.course.path.index(id)]
            if log.consumer != consumer and max(log.acked, log.early) < len(log.messages):
                heard = world._replace(received=tuple(one for one in world.received if one[0] != id))
                lost = self._lost(heard, assign.AncestorLost(id, layout))
                yield f"owner tells that {consumer} has left {id}", lost, False

    def _empty_moves(
        self, world: World, hold: Hold, ancestry: read_ahead.Ancestry
    ) -> Iterator[tuple[str, World, bool]]:
        id = hold.segment
        if hold.moving and hold.early is Early.ENDING:
            freed = self._to_assign(world, assign.SegmentReleased(id, hold.held_by))
            yield f"{hold.holder} is sent away from {id}", self._reassign(freed), False
        elif hold.early is Early.PROPOSED:
            yield from self._confirm(world, hold, ancestry.get(id, frozenset()))
        elif hold.early is Early.GRANTED and id not in ancestry:
            after = self._to_assign(world, assign.AcksApplied(id, hold.holder))
            yield f"acks of {id} are applied", self._reassign(after), False

    def _confirm(self, world: World, hold: Hold, ancestors: frozenset[SegmentId]) -> Iterator[tuple[str, World, bool]]:
        logs = [world.logs[self.course.path.index(id)] for id in sorted(ancestors)]
        missing = [id for id, log in zip(sorted(ancestors), logs, strict=True) if not self.received(log, hold.holder)]
        if not missing:
            event = assign.EarlyConfirmed(hold.segment, hold.holder)
            yield f"{hold.segment} is confirmed", self._to_assign(world, event), False
            return
        heard = world._replace(received=tuple(one for one in world.received if one[0] != missing[0]))
        event = self.refused(hold.segment, hold.holder, missing[0], self.course.layouts[world.seen])
        if isinstance(event, assign.AncestorLost):
            refused = self._lost(heard, event)
        else:
            refused = self._to_assign(heard, event)
        yield f"{hold.segment} is not confirmed", refused, False

    def _lost(self, world: World, event: assign.AncestorLost) -> World:
        """Acknowledgements behind an ancestor are dropped only if something of it is left to acknowledge."""
        log = world.logs[self.course.path.index(event.segment)]
        holds = world.stored.value.plan.holds
        if max(log.acked, log.early) == len(log.messages):
            for hold in holds:
                if hold.early is Early.GRANTED and descends(event.layout, hold.segment, event.segment):
                    wrong = f"segment {hold.segment} is taken back behind a segment that is all acknowledged"
                    world = world._replace(wrong=world.wrong or wrong)
        return self._to_assign(world, event)

    def _deliver(self, world: World, place: int, log: Log) -> World:
        number = log.messages[log.read]
        key = self.course.keys[number - 1]
        wrong = ""
        for missing in range(world.last[key == UPPER] + 1, number):
            if self.course.keys[missing - 1] == key and not self._is_acked(world, missing):
                wrong = f"message {number} is delivered before message {missing}"
        last = (world.last[0], number) if key == UPPER else (number, world.last[1])
        return self._log(world, place, log._replace(read=log.read + 1))._replace(last=last, wrong=world.wrong or wrong)

    def _is_acked(self, world: World, number: int) -> bool:
        for log in world.logs:
            if number in log.messages:
                return log.messages.index(number) < max(log.acked, log.early)
        return False

    # Deciders: what they store is stored at once, or the failover comes before

    def _to_drain(self, world: World, event: Any) -> World:
        state, effects = drain.step(world.drains.value, event)
        world = world._replace(drains=self.ref(state))
        for effect in effects:
            if isinstance(effect, drain.StoreLatches):
                stored = replace(world.stored.value, latched=effect.latched)
                world = self._to_drain(world._replace(stored=self.ref(stored)), drain.LatchesStored(stored))
            elif isinstance(effect, drain.Reassign):
                world = self._reassign(world)
        return world

    def _reassign(self, world: World) -> World:
        key = (world.plan, world.stored, world.seen, world.received)
        if key not in self.steps:
            stored: Subscription = world.stored.value
            names = tuple(one.name for one in stored.members)
            received = {SegmentId(id): name for id, name in world.received}
            layout = self.course.layouts[world.seen]
            inputs = assign.InputsChanged(layout, frozenset(stored.latched), names, 0, GRACE_MS, received=received)
            self._assign(key, world.plan, self.gate(inputs))
        return self._assigned(world, key)

    def _to_assign(self, world: World, event: Any) -> World:
        named = "ancestor", event.segment if isinstance(event, assign.AncestorLost) else event
        key = (world.plan, world.seen, named)
        if key not in self.steps:
            self._assign(key, world.plan, event)
        return self._assigned(world, key)

    def _assign(self, key: Any, plan: Ref, event: Any) -> None:
        state, effects = assign.step(plan.value, event)
        plans = tuple(effect.plan for effect in effects if isinstance(effect, assign.StorePlan))
        self.steps[key] = self.ref(state), plans

    def _assigned(self, world: World, key: Any) -> World:
        state, plans = self.steps[key]
        for plan in plans:
            world = world._replace(stored=self.ref(replace(world.stored.value, plan=plan)))
        return world._replace(plan=state)

    def _log(self, world: World, place: int, log: Log) -> World:
        return world._replace(logs=(*world.logs[:place], log, *world.logs[place + 1 :]))

    def _is_member(self, world: World, name: str) -> bool:
        return any(one.name == name for one in world.stored.value.members)

    # What must hold

    def broken(self, world: World) -> str:
        for place, log in enumerate(world.logs):
            if self.course.path[place] in world.stored.value.latched and log.durable < len(log.messages):
                return f"segment {self.course.path[place]} is latched as drained, and a crash would take it back"
        return world.wrong

    def unsettled(self, world: World) -> str:
        left = [number for number in range(1, self.messages + 1) if not self._is_acked(world, number)]
        if left or world.sent < self.messages:
            return f"messages {left} are never acknowledged"
        sealed = {one.id for one in self.course.layouts[-1].segments if not one.is_active}
        if not set(world.stored.value.latched) >= sealed:
            return "a sealed segment is never latched"
        return ""

    def explored(self, **faults: int) -> Found:
        return explore(self.start(**faults), self.moves, broken=self.broken, unsettled=self.unsettled)


@pytest.mark.parametrize(
    ("messages", "faults", "states"),
    [
        pytest.param(2, {"joins": 0, "crashes": 1}, 177_083, id="crash"),
        pytest.param(2, {"joins": 0, "failovers": 1}, 151_204, id="failover"),
        pytest.param(2, {"joins": 0, "detaches": 1}, 211_051, marks=pytest.mark.slow, id="lost connection"),
        pytest.param(2, {"crashes": 1}, 634_832, marks=pytest.mark.slow, id="join and crash"),
        pytest.param(2, {"leaves": 1}, 598_544, marks=pytest.mark.slow, id="join and leave"),
        pytest.param(3, {}, 427_212, marks=pytest.mark.slow, id="three messages and a join"),
    ],
)
def test_key_keeps_its_order_through_three_generations(messages, faults, states, record_property):
    found = Stream(messages=messages).explored(**faults)
    record_property("states", found.states)
    assert not found.wrong, str(found)
    assert found.states >= states, "fewer interleavings are tried than when this was written"


@pytest.mark.parametrize(
    ("course", "faults", "states"),
    [
        pytest.param(MERGE, {"joins": 0}, 134_630, id="one has both parents"),
        pytest.param(MERGE, {}, 648_778, marks=pytest.mark.slow, id="a second joins and has one of them"),
        pytest.param(MERGE_OF_TWO_KEYS, {"joins": 0}, 323_237, marks=pytest.mark.slow, id="messages in both parents"),
    ],
)
def test_keys_keep_their_order_through_merge(course, faults, states, record_property):
    found = Stream(course=course, messages=len(course.keys)).explored(**faults)
    record_property("states", found.states)
    assert not found.wrong, str(found)
    assert found.states >= states, "fewer interleavings are tried than when this was written"


@pytest.mark.parametrize(
    ("stream", "wrong"),
    [
        pytest.param(Stream(gate=only_direct_parents_gate), "is delivered before", id="only direct parents gate"),
        pytest.param(Stream(gate=sealed_ones_are_always_given_out), "is delivered before", id="sealed never wait"),
        pytest.param(Stream(mark=unflushed), "would take it back", id="drained judged from unflushed acks"),
        pytest.param(Stream(received=given_out_unread), "is delivered before", id="held counts as received"),
    ],
)
def test_missing_safeguard_breaks_order_of_key(stream, wrong):
    assert wrong in stream.explored(crashes=1).wrong


@pytest.mark.slow
def test_consumer_attached_before_segment_read_early_breaks_order():
    assert "is delivered before" in Stream(held_back=never_held_back).explored(joins=0, detaches=1).wrong


def test_unconfirmed_proposal_that_ends_more_drops_acknowledgements():
    """A consumer that acknowledged everything and left would get messages again."""
    wrong = Stream(refused=ends_with_all_behind, messages=2).explored(joins=0, detaches=1).wrong
    assert "is taken back behind a segment that is all acknowledged" in wrong
