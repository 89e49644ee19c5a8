"""A stream consumer follows its assignments: revoked before opened, tried again while busy, parents before children."""

from __future__ import annotations

import pytest

from magnetar.base.errors import ConsumerBusy, NotAuthorized, NotReady, Superseded, TopicNotFound
from magnetar.base.ids import Epoch, SegmentId
from magnetar.base.limits import (
    CLIENT_BACKOFF_S_MIN,
    FOLLOW_BACKOFF_S_MAX,
    HELD_BACK_WARN_S,
    HELD_BACK_WARN_S_MIN,
    REVOKED_DRAIN_S,
)
from magnetar.client.consumer.scalable.stream.assignment import (
    Assigned,
    AssignmentState,
    CloseSegment,
    EndConsumer,
    LayoutAdvanced,
    OpenSegment,
    RevokeSegment,
    SegmentClosed,
    SegmentEnded,
    SegmentGrant,
    SegmentOpened,
    SegmentRefused,
    SegmentSettled,
    State,
    TimePassed,
    WarnHeldBack,
)
from magnetar.layout.layout import initial

P, L, R = SegmentId(0), SegmentId(1), SegmentId(2)
SPLIT = initial(1, now_ms=0).split(P, now_ms=1)


def grant(segment: int, **options) -> SegmentGrant:
    return SegmentGrant(SegmentId(segment), f"segment://t/n/x/{segment}", **options)


def assigned(*segments: int, epoch: int = 1, generation: int | None = None) -> Assigned:
    return Assigned(Epoch(epoch), tuple(grant(one) for one in segments), generation)


def following(*segments: int, **options) -> AssignmentState:
    follow = AssignmentState()
    follow.handle(assigned(*segments, **options), 0.0)
    for one in segments:
        follow.handle(SegmentOpened(SegmentId(one)), 0.0)
    return follow


def test_what_is_taken_away_is_revoked_before_anything_is_opened():
    follow = following(0, 1)
    assert follow.handle(assigned(1, 2), 1.0) == [RevokeSegment(P), OpenSegment(grant(2))]
    assert follow.handle(SegmentSettled(P), 1.0) == [CloseSegment(P)]
    assert follow.handle(SegmentClosed(P), 1.0) == []
    assert sorted(follow.segments) == [1, 2]


def test_repeated_assignment_changes_nothing():
    follow = following(0, 1)
    assert follow.handle(assigned(0, 1), 1.0) == []  # 74 after 75


def test_older_epoch_is_dropped_and_of_equal_ones_later_holds():
    follow = following(0, epoch=5)
    assert follow.handle(assigned(1, epoch=4), 1.0) == []
    assert follow.handle(assigned(0, 1, epoch=5), 1.0) == [OpenSegment(grant(1))]


def test_generation_goes_before_epoch():
    follow = following(0, epoch=5, generation=3)
    assert follow.handle(assigned(1, epoch=6, generation=2), 1.0) == []
    assert follow.handle(assigned(1, epoch=5, generation=4), 1.0) == [RevokeSegment(P), OpenSegment(grant(1))]


def test_application_has_bounded_time_to_acknowledge_what_was_taken_away():
    follow = following(0)
    follow.handle(assigned(), 1.0)
    assert follow.due == 1.0 + REVOKED_DRAIN_S
    assert follow.handle(TimePassed({}), follow.due - 0.1) == []
    assert follow.handle(TimePassed({}), follow.due) == [CloseSegment(P)]


def test_segment_granted_again_while_it_closes_is_opened_after_that():
    follow = following(0)
    follow.handle(assigned(), 1.0)
    assert follow.handle(assigned(0), 2.0) == []
    assert follow.handle(SegmentSettled(P), 3.0) == [CloseSegment(P)]
    assert follow.handle(SegmentClosed(P), 3.0) == [OpenSegment(grant(0))]


def test_segment_taken_away_again_while_it_closes_stays_away():
    follow = following(0)
    for event in (assigned(), assigned(0), assigned(), SegmentSettled(P), SegmentClosed(P)):
        effects = follow.handle(event, 1.0)
    assert effects == []
    assert follow.segments == {}


def test_one_that_is_still_being_opened_is_closed_at_once():
    follow = AssignmentState()
    follow.handle(assigned(0), 0.0)
    assert follow.handle(assigned(), 0.0) == [CloseSegment(P)]
    assert follow.handle(SegmentOpened(P), 0.0) == []
    assert follow.handle(SegmentClosed(P), 0.0) == []
    assert follow.segments == {}


@pytest.mark.parametrize("error", [ConsumerBusy(), NotReady()])
def test_busy_segment_is_tried_again_for_ever(error):
    follow = AssignmentState()
    follow.handle(assigned(0), 0.0)
    now, waits = 0.0, []
    for _ in range(12):
        assert follow.handle(SegmentRefused(P, error), now) == []
        assert follow.due is not None
        assert follow.handle(TimePassed({}), follow.due - 0.01) == []
        waits.append(follow.due - now)
        now = follow.due
        assert follow.handle(TimePassed({}), now) == [OpenSegment(grant(0))]
    assert waits[:3] == pytest.approx([CLIENT_BACKOFF_S_MIN, 2 * CLIENT_BACKOFF_S_MIN, 4 * CLIENT_BACKOFF_S_MIN])
    assert waits[-1] == pytest.approx(FOLLOW_BACKOFF_S_MAX)
    follow.handle(SegmentOpened(P), now)
    follow.handle(SegmentRefused(P, error), now)  # lost, and not taken back at once
    assert follow.due == pytest.approx(now + CLIENT_BACKOFF_S_MIN)


def test_children_wait_for_every_ancestor_read_here():
    again = SPLIT.split(L, now_ms=2)
    follow = AssignmentState()
    follow.handle(LayoutAdvanced(again), 0.0)
    assert follow.handle(assigned(0, 3), 0.0) == [OpenSegment(grant(0))]
    follow.handle(SegmentOpened(P), 0.0)
    assert follow.handle(SegmentEnded(P), 0.0) == [CloseSegment(P)]
    assert follow.handle(SegmentClosed(P), 0.0) == [OpenSegment(grant(3))]


def test_ended_segment_is_not_opened_again_by_same_plan():
    follow = following(0, 1, generation=1)
    follow.handle(SegmentEnded(P), 0.0)
    assert follow.handle(assigned(0, 1, generation=1), 0.0) == []
    follow.handle(SegmentClosed(P), 0.0)
    assert follow.handle(assigned(0, 1, generation=1), 0.0) == []
    assert follow.handle(assigned(0, 1, generation=2), 0.0) == [OpenSegment(grant(0))]


def test_pruned_segment_is_done():
    follow = AssignmentState()
    follow.handle(LayoutAdvanced(SPLIT), 0.0)
    follow.handle(assigned(0, 1), 0.0)
    assert follow.handle(SegmentRefused(P, TopicNotFound()), 0.0) == [OpenSegment(grant(1))]
    assert follow.handle(assigned(0, 1), 0.0) == []


@pytest.mark.parametrize("error", [Superseded(), NotAuthorized()])
def test_consumer_that_was_superseded_stops_and_does_not_come_back(error):
    follow = following(0, 1)
    follow.handle(assigned(0, 1, 2), 0.0)
    effects = follow.handle(SegmentRefused(R, error), 0.0)
    assert effects == [CloseSegment(P), CloseSegment(L), EndConsumer(error)]
    assert follow.handle(assigned(0), 0.0) == []
    assert follow.handle(SegmentClosed(P), 0.0) == follow.handle(SegmentClosed(L), 0.0) == []
    assert follow.segments == {}


def test_shared_boundaries_that_change_open_segment_anew():
    follow = following(0)
    shared = SegmentGrant(P, grant(0).topic, buckets=((0, 0x7FFF), (0x8000, 0xFFFF)))
    assert follow.handle(Assigned(Epoch(1), (shared,)), 0.0) == [RevokeSegment(P)]
    follow.handle(SegmentSettled(P), 0.0)
    assert follow.handle(SegmentClosed(P), 0.0) == [OpenSegment(shared)]


def test_unacknowledged_messages_of_sealed_parent_are_warned_of_periodically():
    follow = following(0)
    follow.handle(LayoutAdvanced(SPLIT), 0.0)
    assert follow.handle(TimePassed({P: 3}), 1.0) == []
    warned = 1.0 + HELD_BACK_WARN_S_MIN
    assert follow.due == warned
    assert follow.handle(TimePassed({P: 3}), warned) == [WarnHeldBack(P, (L, R), 3)]
    assert follow.handle(TimePassed({P: 3}), warned + HELD_BACK_WARN_S - 1) == []
    assert follow.handle(TimePassed({P: 2}), warned + HELD_BACK_WARN_S) == [WarnHeldBack(P, (L, R), 2)]
    assert follow.handle(TimePassed({P: 0}), warned + HELD_BACK_WARN_S + 1) == []
    assert follow.handle(TimePassed({P: 1}), warned + 3 * HELD_BACK_WARN_S) == []


def test_children_that_are_read_ahead_are_not_warned_of():
    follow = following(0)
    follow.handle(LayoutAdvanced(SPLIT), 0.0)
    both = tuple(grant(id) for id in (0, 1, 2))
    opened = follow.handle(Assigned(Epoch(1), both, ordered=True), 0.0)
    assert opened == [OpenSegment(grant(1)), OpenSegment(grant(2))]
    assert follow.held_back() == ()
    follow.handle(TimePassed({P: 3}), 1.0)
    assert follow.handle(TimePassed({P: 3}), 1.0 + HELD_BACK_WARN_S) == []


def test_child_assigned_before_its_layout_arrives_is_opened_after_it():
    follow = following(0, epoch=0)
    follow.handle(LayoutAdvanced(initial(1, now_ms=0)), 0.0)
    early = Assigned(Epoch(1), tuple(grant(id) for id in (0, 1, 2)), ordered=True)
    assert follow.handle(early, 1.0) == [], "its parents are not known"
    assert follow.handle(TimePassed({}), 2.0) == []
    assert follow.handle(LayoutAdvanced(SPLIT), 3.0) == [OpenSegment(grant(1)), OpenSegment(grant(2))]


def test_assigned_segment_missing_in_layout_is_opened_and_refused():
    follow = following(0)
    follow.handle(LayoutAdvanced(SPLIT), 0.0)
    assert follow.handle(assigned(0, 7), 1.0) == [OpenSegment(grant(7))]
    assert follow.handle(SegmentRefused(SegmentId(7), TopicNotFound()), 1.0) == []
    assert SegmentId(7) not in follow.segments


def test_child_that_is_done_does_not_wait():
    merged = SPLIT.merge([L, R], now_ms=2)
    follow = following(0)
    follow.handle(LayoutAdvanced(merged), 0.0)
    assert follow.held_back() == (P,)
    follow.handle(Assigned(Epoch(2), tuple(grant(id) for id in (0, 1, 3)), ordered=True), 0.0)
    assert follow.held_back() == (), "#2 was empty: #3, which came of it, is read"


def test_revoked_segment_that_was_warned_of_sets_no_past_timer():
    follow = following(0)
    follow.handle(LayoutAdvanced(SPLIT), 0.0)
    follow.handle(TimePassed({P: 3}), 0.0)
    assert follow.handle(assigned(1), 0.0) == [RevokeSegment(P)]
    follow.handle(TimePassed({P: 3}), HELD_BACK_WARN_S_MIN)
    assert follow.due is not None
    assert follow.due > HELD_BACK_WARN_S_MIN


def test_refused_child_behind_revoked_parent_sets_no_past_timer():
    follow = following(0)
    follow.handle(LayoutAdvanced(SPLIT), 0.0)
    follow.handle(Assigned(Epoch(1), (grant(0), grant(1)), ordered=True), 0.0)
    follow.handle(SegmentRefused(L, ConsumerBusy()), 0.0)
    assert follow.due == CLIENT_BACKOFF_S_MIN
    assert follow.handle(assigned(1), 0.0) == [RevokeSegment(P)]
    assert follow.handle(TimePassed({}), CLIENT_BACKOFF_S_MIN) == []
    assert follow.due is not None
    assert follow.due > CLIENT_BACKOFF_S_MIN
    follow.handle(SegmentSettled(P), 1.0)
    assert follow.handle(SegmentClosed(P), 1.0) == [OpenSegment(grant(1))]


def test_answers_that_come_late_change_nothing():
    follow = following(0)
    for event in (SegmentClosed(P), SegmentSettled(P), SegmentOpened(L), SegmentEnded(L), SegmentClosed(R)):
        assert follow.handle(event, 0.0) == []
    assert follow.segments[P].state is State.OPEN
    assert follow.handle(SegmentRefused(R, ConsumerBusy()), 0.0) == []


def test_segment_granted_again_is_not_opened_after_end_of_consumer():
    follow = following(0, 1)
    follow.handle(assigned(1), 1.0)
    follow.handle(assigned(0, 1), 1.0)  # 0 comes back while it is revoked
    assert EndConsumer(Superseded("a newer consumer")) not in follow.handle(SegmentSettled(P), 1.0)
    follow.handle(SegmentRefused(L, Superseded("a newer consumer")), 1.0)
    follow.handle(SegmentClosed(P), 1.0)
    assert follow.segments == {}
