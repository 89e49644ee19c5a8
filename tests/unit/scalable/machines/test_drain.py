"""Drained is said when it is on disk, latched when it is stored, and taken back by a seek alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.base.ids import Position, SegmentId
from magnetar.layout.layout import initial
from magnetar.scalable.machines.drain import (
    AskDrained,
    LatchesStored,
    LayoutSeen,
    PollDue,
    Reassign,
    SegmentDrained,
    StoreLatches,
    drained,
    latch,
    restore,
    step,
)
from magnetar.scalable.record.subscription import Subscription, Type

S0, S1, S2 = (SegmentId(id) for id in range(3))
LAYOUT = initial(1, now_ms=0).split(S0, now_ms=1).split(S1, now_ms=2)
STORED = Subscription("s", Type.STREAM, life=4, incarnation=1, seeks=2)


def watching():
    state, effects = step(restore(STORED), LayoutSeen(LAYOUT))
    assert effects == (AskDrained(S0, 4, 2), AskDrained(S1, 4, 2), Reassign())
    return state


@pytest.mark.parametrize(
    ("end", "durable", "done"),
    [
        (Position(3, 5), Position(3, 5), True),
        (Position(3, 5), Position(3, 4), False),
        (Position(3, -1), Position(3, -1), True),
        (Position(3, 5), Position(4, -1), True),
    ],
)
def test_drained_is_judged_from_cursor_on_disk_h_f2(end, durable, done):
    assert drained(end, durable) is done


def test_nothing_is_opened_before_latch_is_stored_h_f3():
    state, effects = step(watching(), SegmentDrained(S0, 4, 2))
    assert effects == (StoreLatches((S0,)),)
    assert state.latched == frozenset()
    state, effects = step(state, LatchesStored(replace(STORED, latched=(S0,))))
    assert effects == (Reassign(),)
    assert state.latched == {S0}


def test_same_answer_twice_stores_one_latch():
    state, _ = step(watching(), SegmentDrained(S0, 4, 2))
    assert step(state, SegmentDrained(S0, 4, 2)) == (state, ())
    state, _ = step(state, LatchesStored(replace(STORED, latched=(S0,))))
    assert step(state, SegmentDrained(S0, 4, 2)) == (state, ())


@pytest.mark.parametrize(("life", "seeks"), [(3, 2), (4, 1)])
def test_answer_before_seek_or_of_another_incarnation_latches_nothing_h_d7_h_d9(life, seeks):
    state = watching()
    assert step(state, SegmentDrained(S0, life, seeks)) == (state, ())


def test_overtaken_write_is_repeated_over_present_state():
    state, _ = step(watching(), SegmentDrained(S0, 4, 2))
    state, effects = step(state, LatchesStored(replace(STORED, latched=(S1,))))
    assert effects == (Reassign(), StoreLatches((S0, S1)))


def test_seek_takes_latches_back_and_forgets_what_was_told():
    state, _ = step(watching(), SegmentDrained(S0, 4, 2))
    state, effects = step(state, LatchesStored(replace(STORED, seeks=3)))
    assert (state.latched, state.unstored, state.seeks) == (frozenset(), frozenset(), 3)
    assert effects == (AskDrained(S0, 4, 3), AskDrained(S1, 4, 3), Reassign())


def test_latches_survive_failover_and_rest_is_requested_h_f3():
    state, effects = step(restore(replace(STORED, latched=(S0,))), LayoutSeen(LAYOUT))
    assert effects == (AskDrained(S1, 4, 2), Reassign())
    assert step(state, PollDue()) == (state, (AskDrained(S1, 4, 2),))


def test_subscription_made_anew_under_same_name_is_another_one():
    state = watching()
    assert step(state, LatchesStored(replace(STORED, life=9, latched=(S0,)))) == (state, ())


def test_latches_of_pruned_segments_are_dropped():
    pruned = LAYOUT.pruning([S0]).removed(S0)
    stored = replace(STORED, latched=(S0,))
    assert latch(stored, seeks=2, latched=(S0, S1), layout=pruned).latched == (S1,)
    assert latch(stored, seeks=2, latched=(S0, S1), layout=LAYOUT).latched == (S0, S1)
    newer = SegmentId(LAYOUT.next_segment_id)
    assert latch(stored, seeks=2, latched=(newer,), layout=pruned).latched == (newer,), "a layout not seen yet"
    state, _ = step(restore(stored), LayoutSeen(pruned))
    state, _ = step(state, LatchesStored(replace(stored, latched=(S1,))))
    assert state.latched == {S1}


def test_segment_being_pruned_is_not_asked_about():
    _, effects = step(restore(STORED), LayoutSeen(LAYOUT.pruning([S0])))
    assert effects == (AskDrained(S1, 4, 2), Reassign())
