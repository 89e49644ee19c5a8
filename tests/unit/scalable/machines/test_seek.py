"""A subscription is moved as a whole: whatever is lost, repeated or killed, each cursor once, and then it is done."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from magnetar.base.errors import Busy, Conflict, Misuse, Refused, SubscriptionNotFound, TopicNotFound
from magnetar.base.ids import AFTER_ALL, Position, SegmentId
from magnetar.cluster.calls.topic_calls import ResetCursor
from magnetar.scalable.machines import seek
from magnetar.scalable.machines.effects import (
    AskOwner,
    CallLost,
    CallOvertaken,
    CallRefused,
    CursorReset,
    Effect,
    Event,
    Finished,
    ReadRecord,
    ReadSubscription,
    RecordRead,
    SubscriptionOvertaken,
    SubscriptionRead,
    SubscriptionWritten,
    WriteSubscription,
)
from magnetar.scalable.machines.seek import Phase, Seeking, begin, step
from magnetar.scalable.machines.seek_target import Seek, Target, TargetKind, at_places
from magnetar.scalable.record.record import Record, created
from magnetar.scalable.record.subscription import Hold, StreamPlan, Subscription, SubscriptionState, Type

OP, S = "seek-1", "s"
LATEST = Target(TargetKind.LATEST)


def a_record() -> Record:
    """0 sealed, 1 and 2 active."""
    record = created(None, 1, now_ms=1)
    return replace(record, layout=record.layout.split(SegmentId(0), now_ms=2))


def a_subscription(**fields: object) -> Subscription:
    made = Subscription(S, Type.STREAM, 7, a_record().incarnation, ready=True, latched=(SegmentId(0),))
    return replace(made, **fields)  # type: ignore[arg-type]


@dataclass(frozen=True)
class World:
    """What is stored, what owners have, what is on its way, and the driver; every choice makes another world."""

    one: Subscription = field(default_factory=a_subscription)
    version: int = 0
    cursors: tuple[tuple[int, Position | None, int], ...] = (
        (0, None, 0),
        (1, None, 0),
        (2, None, 0),
    )  # + seek's number
    moves: int = 0
    state: Seeking | None = None
    effects: tuple[Effect, ...] = ()
    ghosts: tuple[Effect, ...] = ()  # calls of a leader that is dead, still on their way to owners
    answer: Finished | None = None
    losses: int = 2
    crashes: int = 1


RECORD = a_record()


def carried_out(world: World, effect: Effect) -> tuple[World, Event]:
    """By the store or by an owner, as `records` and `resets` do."""
    match effect:
        case ReadRecord():
            return world, RecordRead(effect.op, RECORD, 1)
        case ReadSubscription():
            return world, SubscriptionRead(effect.op, world.one, world.version)
        case WriteSubscription():
            if effect.version != world.version:
                return world, SubscriptionOvertaken(effect.op)
            written = replace(world, one=effect.subscription, version=world.version + 1)
            return written, SubscriptionWritten(effect.op, written.version)
        case AskOwner(request=ResetCursor() as request):
            if world.one.seek is None or world.one.seeks != request.seeks:
                return world, CallOvertaken(effect.op, effect)
            id = effect.segment.id
            before = world.cursors[id]
            if before[2] != request.seeks:
                moved = (id, request.position, request.seeks)
                cursors = tuple(moved if one[0] == id else one for one in world.cursors)
                world = replace(world, cursors=cursors, moves=world.moves + 1)
            return world, CursorReset(effect.op, id, id == 0 and request.position == AFTER_ALL)
    raise AssertionError(effect)


def stepped(world: World, event: Event) -> World:
    assert world.state is not None
    state, effects = step(world.state, event)
    answers = [effect for effect in effects if isinstance(effect, Finished)]
    rest = tuple(effect for effect in effects if not isinstance(effect, Finished))
    return replace(world, state=state, effects=world.effects + rest, answer=answers[0] if answers else world.answer)


def begun(world: World) -> World:
    """By a new leader: what stands in the record goes on; else the caller asks again, under the same name."""
    state, effects = begin(OP, S, LATEST) if world.one.seek is None else seek.resume(world.one)
    return replace(world, state=state, effects=effects)


def after(world: World) -> list[World]:
    """Every way it can go on."""
    found = []
    for number, effect in enumerate(world.effects):
        rest = replace(world, effects=world.effects[:number] + world.effects[number + 1 :])
        done, event = carried_out(rest, effect)
        found.append(stepped(done, event))
        if world.losses:
            lost = CallLost(OP, effect)  # type: ignore[arg-type]
            found.append(stepped(replace(rest, losses=world.losses - 1), lost))
            found.append(stepped(replace(done, losses=world.losses - 1), lost))
    for number, effect in enumerate(world.ghosts):
        rest = replace(world, ghosts=world.ghosts[:number] + world.ghosts[number + 1 :])
        found.append(carried_out(rest, effect)[0])
    if world.crashes:
        late = tuple(effect for effect in world.effects if isinstance(effect, AskOwner))
        found.append(begun(replace(world, crashes=world.crashes - 1, effects=(), ghosts=late)))
    return found


def test_any_interleaving_moves_each_cursor_once_and_ends_seek() -> None:
    first = begun(World())
    seen, waiting, ended = {first}, [first], 0
    while waiting:
        world = waiting.pop()
        if world.answer is not None:
            ended += 1
            assert world.answer.refusal is None
            assert world.one.seek is None
            assert (world.one.seeks, world.one.sought, world.one.latched) == (1, OP, (0,))
            assert [(stop, seeks) for _, stop, seeks in world.cursors] == [(AFTER_ALL, 1)] * 3
            assert world.moves == 3
            for effect in world.ghosts:
                assert carried_out(world, effect)[0] == world, "a late call takes nothing back"
            continue
        ways = after(world)
        assert ways, f"it stands still: {world}"
        for way in ways:
            if way not in seen:
                seen.add(way)
                waiting.append(way)
    assert (ended > 20, len(seen) > 1000) == (True, True)


def looked(found: Subscription | None, target: Target = LATEST, record: Record | None = RECORD):
    state, effects = begin(OP, S, target)
    assert effects == (ReadRecord(OP),)
    state, effects = step(state, RecordRead(OP, record, 1))
    return step(state, SubscriptionRead(OP, found, 5)) if state.phase is Phase.LOOK else (state, effects)


def test_target_is_stored_before_any_cursor_moves_h_d7() -> None:
    state, effects = looked(a_subscription(seeks=4))
    sought = a_subscription(seeks=5, latched=(), seek=Seek(OP, LATEST))
    assert effects == (WriteSubscription(OP, 5, sought),)
    state, effects = step(state, SubscriptionWritten(OP, 6))
    assert effects == (ReadRecord(OP),)
    state, effects = step(state, RecordRead(OP, RECORD, 2))
    assert [(one.segment.id, one.request.seeks, one.request.position) for one in effects] == [
        (id, 5, AFTER_ALL) for id in range(3)
    ]


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (None, SubscriptionNotFound),
        (a_subscription(incarnation=0), SubscriptionNotFound),
        (a_subscription(standing=SubscriptionState.DELETING), SubscriptionNotFound),
        (a_subscription(type=Type.CHECKPOINT), Refused),
        (a_subscription(ready=False), Busy),
    ],
)
def test_what_cannot_be_moved_is_refused_and_nothing_is_written(found, kind) -> None:
    _, effects = looked(found)
    [answer] = effects
    assert isinstance(answer, Finished)
    assert answer.refusal is not None
    assert answer.refusal.kind is kind


def test_missing_topic_and_invalid_position_are_refused() -> None:
    for record, target, kind in [
        (None, LATEST, TopicNotFound),
        (RECORD, at_places({SegmentId(9): Position(1, 1)}), Misuse),
    ]:
        _, [answer] = looked(a_subscription(), target, record)
        assert answer.refusal.kind is kind


def test_segment_that_is_gone_needs_no_move() -> None:
    state, _ = looked(a_subscription())
    state, _ = step(state, SubscriptionWritten(OP, 6))
    state, effects = step(state, RecordRead(OP, RECORD, 2))
    for effect in effects:
        state, found = step(state, CallRefused(OP, effect, "no such topic"))  # type: ignore[arg-type]
    assert found == (ReadSubscription(OP, S),)
    assert state.phase is Phase.FINISH
    assert state.drained == {0}, "pruned: consumers do not wait for it (H-H10)"


def test_segment_that_is_being_pruned_is_not_moved_h_h10() -> None:
    state, _ = looked(a_subscription(), Target(TargetKind.EARLIEST))
    state, _ = step(state, SubscriptionWritten(OP, 6))
    state, effects = step(state, RecordRead(OP, RECORD.pruning([SegmentId(0)]), 2))
    assert [one.segment.id for one in effects if isinstance(one, AskOwner)] == [1, 2]
    for effect in effects:
        assert isinstance(effect, AskOwner)
        state, _ = step(state, CursorReset(OP, effect.segment.id, False))
    moved = a_subscription(seeks=1, seek=Seek(OP, Target(TargetKind.EARLIEST)), latched=())
    held = replace(moved, plan=StreamPlan(5, (Hold(SegmentId(1), "c", "c"),)))
    _, [write] = step(state, SubscriptionRead(OP, held, 8))
    assert isinstance(write, WriteSubscription), "a descendant that a consumer has does not wait for it"
    assert write.subscription.latched == (0,)


def test_later_seek_supersedes_earlier_one_and_informs_it() -> None:
    state, _ = looked(a_subscription())
    state, _ = step(state, SubscriptionWritten(OP, 6))
    state, [first, *_] = step(state, RecordRead(OP, RECORD, 2))
    state, effects = step(state, CallOvertaken(OP, first))  # type: ignore[arg-type]
    assert effects == (ReadSubscription(OP, S),)
    other = a_subscription(seeks=2, seek=Seek("seek-2", LATEST))
    _, [answer] = step(state, SubscriptionRead(OP, other, 9))
    assert isinstance(answer, Finished)
    assert answer.refusal is not None
    assert answer.refusal.kind is Conflict
    _, effects = looked(a_subscription(seek=Seek(OP, LATEST)), at_places({SegmentId(1): Position(1, 1)}))
    assert effects == (ReadRecord(OP),), "its own, begun before: it goes on"


def test_what_others_wrote_into_record_meanwhile_stays() -> None:
    state, _ = looked(a_subscription())
    state, _ = step(state, SubscriptionWritten(OP, 6))
    state, effects = step(state, RecordRead(OP, RECORD, 2))
    for effect in effects:
        assert isinstance(effect, AskOwner)
        state, _ = step(state, CursorReset(OP, effect.segment.id, False))
    now = a_subscription(seeks=1, seek=Seek(OP, LATEST), latched=(), unknown="theirs")
    state, effects = step(state, SubscriptionRead(OP, now, 8))
    assert effects == (WriteSubscription(OP, 8, replace(now, seek=None, sought=OP)),)
    state, effects = step(state, SubscriptionOvertaken(OP))
    assert effects == (ReadSubscription(OP, S),)


def test_seek_lasts_while_moved_segment_has_consumer() -> None:
    state, _ = looked(a_subscription(), Target(TargetKind.EARLIEST))
    state, _ = step(state, SubscriptionWritten(OP, 6))
    state, effects = step(state, RecordRead(OP, RECORD, 2))
    for effect in effects:
        assert isinstance(effect, AskOwner)
        state, _ = step(state, CursorReset(OP, effect.segment.id, False))
    held = a_subscription(seeks=1, seek=Seek(OP, Target(TargetKind.EARLIEST)), latched=())
    child, parent = Hold(SegmentId(1), "c", ""), Hold(SegmentId(0), "c", "c")
    state, effects = step(state, SubscriptionRead(OP, replace(held, plan=StreamPlan(4, (child,))), 8))
    assert (effects, state.waits) == ((ReadSubscription(OP, S),), 1)
    state, effects = step(
        state, SubscriptionRead(OP, replace(held, plan=StreamPlan(5, (parent, Hold(SegmentId(1), "", "")))), 9)
    )
    assert isinstance(effects[0], WriteSubscription)
