"""Which sealed segments go, in which order, and how a round ends whatever happens to its calls."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations

import pytest

from magnetar.base.ids import Position, SegmentId, Term
from magnetar.base.limits import RECORD_PLAIN_BYTES_MAX
from magnetar.cluster.calls.topic_calls import Delete
from magnetar.layout.layout import Layout, initial
from magnetar.layout.lineage import ancestors
from magnetar.layout.segment import Ending, State
from magnetar.ledger.retention import Retention, Rule
from magnetar.scalable.machines import pruning
from magnetar.scalable.machines.effects import (
    AskOwner,
    CallFenced,
    CallLost,
    Finished,
    ListSubscriptions,
    ReadRecord,
    RecordOvertaken,
    RecordRead,
    RecordWritten,
    SegmentDeleted,
    StepDown,
    SubscriptionsListed,
    TermEnded,
    WriteRecord,
)
from magnetar.scalable.machines.pruning import Phase, chosen, due, held, step
from magnetar.scalable.record.codec import encode
from magnetar.scalable.record.record import Intent, Kind, Record, created
from magnetar.scalable.record.subscription import Hold, StreamPlan, Subscription, Type

OP, TERM = "prune", Term(1)
MINUTE, TEN_MINUTES = 60_000, 600_000


def ids(*numbers: int) -> frozenset[SegmentId]:
    return frozenset(SegmentId(number) for number in numbers)


def drawn(rng: random.Random, reshapes: int) -> Layout:
    layout = initial(rng.randint(1, 3), now_ms=0)
    for _ in range(reshapes):
        active = list(layout.active)
        index = rng.randrange(len(active))
        if rng.random() < 0.5 or index == 0:
            layout = layout.split(active[index].id, now_ms=0)
        else:
            layout = layout.merge([active[index - 1].id, active[index].id], now_ms=0)
    return layout


def three() -> Layout:
    """0 split into 1 and 2, then 1 into 3 and 4."""
    return initial(1, now_ms=0).split(SegmentId(0), now_ms=0).split(SegmentId(1), now_ms=0)


def test_every_choice_is_closed_under_ancestors_and_complete_h_h8():
    """For every set of empty and of held segments of small layouts."""
    for seed in range(8):
        layout = drawn(random.Random(seed), 4)
        sealed = [one.id for one in layout.segments if not one.is_active]
        for count in range(len(sealed) + 1):
            for empty in combinations(sealed, count):
                for taken in [(), *((id,) for id in sealed)]:
                    going = chosen(layout, empty, taken)
                    may = set(empty) - set(taken)
                    assert set(going) == {id for id in may if ancestors(layout, id) <= may}


def test_pruning_of_drawn_layouts_leaves_valid_layouts_and_ancestry():
    for seed in range(100):
        rng = random.Random(seed)
        layout = drawn(rng, 30)
        sealed = [one.id for one in layout.segments if not one.is_active]
        going = chosen(layout, [id for id in sealed if rng.random() < 0.7], at_most=rng.randint(1, 20))
        after = layout.pruning(going).removed(*going)
        assert [one.id for one in after.segments] == [one.id for one in layout.segments if one.id not in going]
        assert [one.id for one in after.active] == [one.id for one in layout.active]
        for one in after.segments:
            assert ancestors(after, one.id) == ancestors(layout, one.id) - set(going)
            assert one.merge_depth == layout.segment(one.id).merge_depth


def test_active_and_full_segments_are_never_chosen():
    layout = three()
    assert chosen(layout, ids(1, 2, 3, 4)) == (), "their ancestor has messages"
    assert chosen(layout, ids(0, 1, 2, 3, 4)) == (0, 1)
    assert chosen(layout, ids(0, 1), at_most=1) == (0,)
    assert chosen(layout.pruning([SegmentId(0)]), ids(0, 1)) == (1,)


def test_migrated_plain_topic_stays_and_blocks_nothing_when_empty():
    layout = three()
    plain = replace(layout.segment(SegmentId(0)), legacy_topic="persistent://public/default/t")
    layout = Layout(layout.epoch, layout.next_segment_id, (plain, *layout.segments[1:]))
    assert chosen(layout, ids(1)) == ()
    assert chosen(layout, ids(0, 1)) == (1,)
    after = layout.pruning([SegmentId(1)]).removed(SegmentId(1))
    assert after.segment(SegmentId(0)).children == (2,)
    assert after.segment(SegmentId(3)).parents == ()


def test_segment_that_consumer_has_is_kept():
    plan = StreamPlan(holds=(Hold(SegmentId(1), "c", "c"), Hold(SegmentId(2), "", "")))
    subscription = Subscription("s", Type.STREAM, 0, 1, plan=plan)
    assert held([subscription]) == ids(1, 2)
    assert chosen(three(), ids(0, 1), held([subscription])) == (0,)


@pytest.mark.parametrize(
    ("minutes", "messages", "age_ms", "aging", "goes"),
    [
        (60, 5, 60 * MINUTE, True, True),  # its messages were deleted by size, else it would not be empty
        (60, 5, TEN_MINUTES - 1, True, False),
        (60, 0, 60 * MINUTE, True, False),
        (60, 0, 60 * MINUTE + 1, True, True),
        (60, 0, 60 * MINUTE + 1, False, False),
        (-1, 0, 10_000 * MINUTE, True, False),
        (-1, 5, 10_000 * MINUTE, True, True),
        (0, 0, TEN_MINUTES, True, True),
        (0, 0, -TEN_MINUTES, True, False),  # sealed by a clock that was ahead
    ],
)
def test_segment_is_due_by_its_age_and_messages_h_h6(minutes, messages, age_ms, aging, goes):
    layout = initial(1, now_ms=0)
    burned, children = layout.burned(layout.split_ranges(SegmentId(0)))
    ending = Ending(Position(1, messages - 1), messages)
    layout = burned.reshaped([SegmentId(0)], children, now_ms=10**12, endings={SegmentId(0): ending})
    rule = Rule(Retention(minutes, -1), 10**12 + age_ms, aging=aging, sealed_ms_min=TEN_MINUTES)
    assert [one.id for one in due(layout, rule)] == ([0] if goes else [])


def test_crowded_record_keeps_no_segment_that_never_had_message():
    rule = Rule(Retention(-1, -1), 10**12, sealed_ms_min=TEN_MINUTES)
    few, many = (drawn(random.Random(1), count) for count in (40, 200))
    assert due(few, rule) == []
    assert len(due(many, rule)) == len(many) - len(many.active) > 100


def reshaped(record: Record, kind: Kind, number: int) -> Record:
    active = [one.id for one in record.layout.active]
    ranges = record.layout.split_ranges(active[0]) if kind is Kind.SPLIT else (record.layout.merge_range(active),)
    parents = tuple(active[:1] if kind is Kind.SPLIT else active)
    layout, children = record.layout.burned(ranges)
    intended = record.intended(Intent(f"op-{number}", kind, parents, children, record.term), layout)
    return intended.committed({id: Ending(Position(1, 2), 3) for id in parents}, fence=0, now_ms=number)


def test_record_stays_small_over_ten_thousand_reshapes():
    record = created(None, 1, now_ms=1)
    size_max = 0
    for number in range(10_000):
        record = reshaped(record, Kind.MERGE if number % 2 else Kind.SPLIT, number)
        if number % 25 == 24:
            size_max = max(size_max, len(encode(record)))
            going = chosen(record.layout, [one.id for one in record.layout.segments if not one.is_active])
            record = record.pruning(going).pruned()
    assert size_max < RECORD_PLAIN_BYTES_MAX, "it is not even compressed"
    assert len(record.layout) == 1
    assert record.layout.active[0].merge_depth == 5_000, "the depth survives"
    assert [past.op for past in record.history[-2:]] == ["op-9998", "op-9999"], "cool-downs are counted from these"


# The machine


def a_record() -> Record:
    return replace(created(None, 1, now_ms=1).claimed(), layout=three())


def marking() -> tuple[pruning.Pruning, Record]:
    record = replace(a_record(), term=TERM)
    state, effects = pruning.begin(OP, term=TERM, incarnation=record.incarnation, empty=ids(0, 1))
    assert effects == (ReadRecord(OP),)
    state, effects = step(state, RecordRead(OP, record, 7))
    assert effects == (ListSubscriptions(OP, record.incarnation, groups=True),)
    state, effects = step(state, SubscriptionsListed(OP, ()))
    assert effects == (WriteRecord(OP, 7, record.pruning((SegmentId(0), SegmentId(1)))),)
    return state, record


def deleting() -> tuple[pruning.Pruning, tuple[AskOwner, ...]]:
    state, _ = marking()
    state, effects = step(state, RecordWritten(OP, 8))
    assert all(isinstance(one, AskOwner) and isinstance(one.request, Delete) for one in effects)
    return state, effects  # type: ignore[return-value]


def forgetting() -> pruning.Pruning:
    state, _ = deleting()
    state, effects = step(state, SegmentDeleted(OP, SegmentId(1)))
    assert effects == ()
    state, [write] = step(state, SegmentDeleted(OP, SegmentId(0)))
    assert isinstance(write, WriteRecord)
    assert write.version == 8
    assert [one.id for one in write.record.layout.segments] == [2, 3, 4]
    return state


def test_record_forgets_segments_after_last_topic_is_gone_h_h1():
    state, effects = step(forgetting(), RecordWritten(OP, 9))
    assert (state.phase, effects) == (Phase.DONE, (Finished(OP),))


@pytest.mark.parametrize("answer", [RecordOvertaken(OP), CallLost(OP, ReadRecord(OP))])
def test_mark_over_changed_record_is_chosen_again_h_h2(answer):
    state, record = marking()
    state, effects = step(state, answer)
    assert (state.phase, effects) == (Phase.LOOK, (ReadRecord(OP),))
    state, effects = step(state, RecordRead(OP, record.resubscribed(), 8))
    assert effects == (ListSubscriptions(OP, record.incarnation, groups=True),)


def test_mark_with_lost_answer_is_found_in_record():
    state, record = marking()
    state, _ = step(state, CallLost(OP, WriteRecord(OP, 7, record)))
    state, effects = step(state, RecordRead(OP, record.pruning((SegmentId(0), SegmentId(1))), 8))
    assert state.phase is Phase.DELETE
    assert [one.segment.id for one in effects if isinstance(one, AskOwner)] == [0, 1]


def test_forgotten_with_lost_answer_ends_and_other_change_is_kept():
    state = forgetting()
    assert state.record is not None
    state, effects = step(state, CallLost(OP, WriteRecord(OP, 8, state.record)))
    assert effects == (ReadRecord(OP),)
    assert state.record is not None
    _, effects = step(state, RecordRead(OP, state.record, 9))
    assert effects == (Finished(OP),)
    other = a_record().pruning((SegmentId(0), SegmentId(1))).resubscribed()
    state, [write] = step(state, RecordRead(OP, other, 9))
    assert isinstance(write, WriteRecord)
    assert (write.version, write.record.subs_gen) == (9, other.subs_gen)
    assert [one.id for one in write.record.layout.segments] == [2, 3, 4]


def test_lost_deletion_is_repeated_and_late_answers_change_nothing():
    state, calls = deleting()
    again, effects = step(state, CallLost(OP, calls[0]))
    assert (again, effects) == (state, (calls[0],))
    assert step(state, SegmentDeleted("other", SegmentId(0))) == (state, ())
    assert step(state, RecordWritten(OP, 9)) == (state, ())


def test_higher_term_and_end_of_term_stop_round_h_b3():
    state, calls = deleting()
    lost, effects = step(state, CallFenced(OP, calls[0]))
    assert (lost.phase, [type(one) for one in effects]) == (Phase.LOST, [StepDown])
    assert step(state, TermEnded(TERM))[0].phase is Phase.LOST
    assert step(state, TermEnded(Term(9)))[0] == state
    begun, _ = pruning.begin(OP, term=TERM, incarnation=1, empty=ids(0))
    taken = replace(a_record(), term=Term(2))
    lost, effects = step(begun, RecordRead(OP, taken, 1))
    assert [type(one) for one in effects] == [StepDown]


@pytest.mark.parametrize("record", [None, a_record().deleting(), replace(a_record(), incarnation=9)])
def test_topic_that_is_gone_is_not_pruned(record):
    begun, _ = pruning.begin(OP, term=TERM, incarnation=1, empty=ids(0))
    state, effects = step(begun, RecordRead(OP, record, 1))
    assert (state.phase, effects) == (Phase.DONE, (Finished(OP),))


def test_every_sealed_state_is_left_out_of_active_ranges():
    layout = three().pruning([SegmentId(0)])
    assert [one.state for one in layout.segments][:2] == [State.PRUNING, State.SEALED]
