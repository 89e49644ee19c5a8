"""A hold moves forward only, keeps what its reader has before it, and never ends unannounced."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from magnetar.base.errors import Corrupt, Misuse
from magnetar.base.ids import AFTER_ALL, BEFORE_ALL, Position, SegmentId
from magnetar.base.limits import HOLD_EXPIRED_KEPT_S, HOLD_EXPIRES_S_MAX, HOLD_NOTICE_S_MAX
from magnetar.layout.layout import Layout, initial
from magnetar.layout.readable_range import DONE, START, Places, ReadPosition, stands
from magnetar.scalable.machines import hold
from magnetar.scalable.machines.hold import Due, StoredHold
from magnetar.scalable.record import subscription
from magnetar.scalable.record.subscription import Subscription, Type

A, B, C = (SegmentId(id) for id in range(3))


def at(
    layout: Layout, places: Places, before: StoredHold | None = None, now_ms: int = 1000, expires_s: int = 100
) -> StoredHold:
    return hold.moved(before, layout, places, now_ms=now_ms, expires_s=expires_s, owner="q")[0]


def test_earlier_place_changes_nothing_but_end() -> None:
    layout = initial(2, now_ms=1)
    first = at(layout, {A: ReadPosition(1, 5), B: ReadPosition(2, 5)})
    again, moved = hold.moved(first, layout, {A: ReadPosition(1, 4)}, now_ms=5000, expires_s=100, owner="")
    assert not moved
    assert (again.places, again.moved_ms, again.until_ms, again.owner) == (first.places, 1000, 105_000, "q")
    further, moved = hold.moved(
        again, layout, {A: ReadPosition(1, 4), B: ReadPosition(2, 6)}, now_ms=6000, expires_s=100, owner=""
    )
    assert moved
    assert dict(further.places) == {A: ReadPosition(1, 5), B: ReadPosition(2, 6)}
    assert further.moved_ms == 6000


def test_whatever_comes_in_whatever_order_nothing_moves_back() -> None:
    chance = random.Random(3)
    layout = initial(2, now_ms=1).split(A, now_ms=2).split(B, now_ms=3)
    held: StoredHold | None = None
    for step in range(300):
        places = {one.id: ReadPosition(1, chance.randrange(9)) for one in layout.segments if chance.random() < 0.5}
        before = stands(layout, dict(held.places)) if held is not None else stands(layout, {})
        held = at(layout, places, held, now_ms=step)
        after = stands(layout, dict(held.places))
        assert all(after[id] >= before[id] for id in before)
        if step == 150:
            layout = layout.split(layout.active[0].id, now_ms=4)


def test_only_what_reader_has_behind_it_may_go() -> None:
    layout = initial(1, now_ms=1).split(A, now_ms=2)
    held = at(layout, {A: ReadPosition(4, 7)})
    assert [hold.floor(held, layout, id) for id in (A, B, C)] == [Position(4, 6), BEFORE_ALL, BEFORE_ALL]
    held = at(layout, {B: ReadPosition(5, 0)}, held)
    assert [hold.floor(held, layout, id) for id in (A, B, C)] == [AFTER_ALL, Position(5, -1), BEFORE_ALL]
    assert hold.floor(held, layout, SegmentId(40)) == BEFORE_ALL  # a child that is being made
    assert hold.floor(hold.expired(held, 1), layout, A) == AFTER_ALL
    assert hold.floor(hold.expired(held, 1), layout, B) == AFTER_ALL
    assert hold.floor(at(layout, {}), layout, A) == BEFORE_ALL


def test_segment_that_takes_messages_cannot_be_done() -> None:
    with pytest.raises(Misuse):
        at(initial(1, now_ms=1), {A: DONE})


@pytest.mark.parametrize("expires_s", [0, -1, HOLD_EXPIRES_S_MAX + 1])
def test_expiry_out_of_bounds_is_refused(expires_s: int) -> None:
    with pytest.raises(Misuse):
        at(initial(1, now_ms=1), {}, expires_s=expires_s)


def test_hold_ends_only_after_announcement_was_visible() -> None:
    held = at(initial(1, now_ms=1), {}, now_ms=0, expires_s=1000)
    assert held.notice_s == 100
    assert hold.due(held, 899_999, 0) is Due.NOTHING
    assert hold.due(held, 900_000, 0) is Due.WARN
    assert hold.due(held, 10**12, 10**6) is Due.WARN  # a clock that jumped, a broker that was down
    told = hold.warned(held, 10**12)
    assert hold.due(told, 10**12, 99.9) is Due.NOTHING
    assert hold.due(told, 999_999, 10**6) is Due.NOTHING
    assert hold.due(told, 10**12, 100) is Due.EXPIRE
    over = hold.expired(told, 10**12)
    assert not over.keeps
    assert hold.due(over, 10**12, 10**6) is Due.NOTHING
    assert hold.due(over, 10**12 + int(HOLD_EXPIRED_KEPT_S * 1000), 0) is Due.REMOVE
    assert replace(held, expires_s=10**9).notice_s == HOLD_NOTICE_S_MAX


def test_whoever_waits_for_what_is_due_comes_when_it_is() -> None:
    held = at(initial(1, now_ms=1), {}, now_ms=0, expires_s=20)
    assert hold.due_in_s(held, 0, 0) == 18
    told = hold.warned(held, 19_000)
    assert hold.due_in_s(told, 19_000, 0) == 2  # announced late: as long before the end as it would have been
    assert hold.due_in_s(told, 19_500, 1.9) == 0.5
    over = hold.expired(told, 21_000)
    assert hold.due_in_s(over, 22_000, 3) == HOLD_EXPIRED_KEPT_S - 1
    for one, now_ms, seen_s in ((held, 0, 0.0), (told, 19_000, 0.0), (over, 22_000, 3.0)):
        left_s = hold.due_in_s(one, now_ms, seen_s)
        assert hold.due(one, now_ms + int(left_s * 1000) - 1, seen_s + left_s - 0.001) is Due.NOTHING
        assert hold.due(one, now_ms + int(left_s * 1000), seen_s + left_s) is not Due.NOTHING


def test_returning_reader_is_kept_and_warned_again() -> None:
    layout = initial(1, now_ms=1)
    over = hold.expired(hold.warned(at(layout, {A: ReadPosition(1, 1)}), 5), 6)
    back = at(layout, {A: ReadPosition(1, 2)}, over, now_ms=7)
    assert (back.keeps, back.warned_ms, back.expired_ms) == (True, 0, 0)
    assert dict(back.places) == {A: ReadPosition(1, 2)}


def test_hold_is_read_from_subscription_record_unchanged() -> None:
    layout = initial(3, now_ms=1)
    held = hold.warned(at(layout, {A: ReadPosition(1, 2, 3), B: START}), 77)
    one = Subscription("q", Type.CHECKPOINT, 1, 2, hold=held)
    assert subscription.decode("q", subscription.encode(one)) == one
    assert subscription.decode("q", subscription.encode(replace(one, hold=None))).hold is None
    with pytest.raises(Corrupt):
        subscription.decode("q", subscription.encode(one).replace(b"[1,2,3]", b"[-4,2,3]"))


def test_surrounding_chunks_stay_with_position_until_it_moves() -> None:
    layout = initial(2, now_ms=1)
    first, _ = hold.moved(
        None,
        layout,
        {A: ReadPosition(1, 5), B: ReadPosition(2, 5)},
        now_ms=1000,
        expires_s=100,
        owner="q",
        around={A: (1, 2), B: (2, 6)},  # of B it is no place before
    )
    assert dict(first.around) == {A: (1, 2)}
    assert (hold.floor(first, layout, A), hold.floor(first, layout, B)) == (Position(1, 1), Position(2, 4))
    assert hold.decode(hold.encode(first)) == first
    same = at(layout, {A: ReadPosition(1, 5)}, first)
    earlier, _ = hold.moved(
        same, layout, {A: ReadPosition(1, 4)}, now_ms=1000, expires_s=100, owner="q", around={A: (1, 0)}
    )
    assert dict(same.around) == dict(earlier.around) == {A: (1, 2)}
    further = at(layout, {A: ReadPosition(1, 6)}, first)
    assert further.around == ()
    assert hold.floor(further, layout, A) == Position(1, 5)
