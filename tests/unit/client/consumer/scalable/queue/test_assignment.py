"""A queue consumer is on every segment of its topic until the subscription is drained there."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

import pytest

from magnetar.base.errors import ConsumerBusy, NotAuthorized, NotReady, SubscriptionNotFound, TimedOut, TopicNotFound
from magnetar.base.ids import SegmentId
from magnetar.base.limits import CLIENT_BACKOFF_S_MIN, FOLLOW_BACKOFF_S_MAX
from magnetar.client.consumer.scalable.queue.assignment import (
    CloseSegment,
    Effect,
    EndConsumer,
    Event,
    LayoutAdvanced,
    OpenSegment,
    QueueAssignment,
    SegmentClosed,
    SegmentEnded,
    SegmentOpened,
    SegmentRefused,
    State,
    SubscriptionMoved,
    TimePassed,
)
from magnetar.layout.layout import Layout, initial

P, L, R, M = (SegmentId(id) for id in range(4))
ONE = initial(1, now_ms=0)
SPLIT = ONE.split(P, now_ms=1)
MERGED = SPLIT.merge([L, R], now_ms=2)
PRUNED = MERGED.pruning([P]).removed(P)


def spread_over(layout: Layout) -> QueueAssignment:
    spread = QueueAssignment()
    spread.handle(LayoutAdvanced(layout), 0.0)
    for one in layout.segments:
        spread.handle(SegmentOpened(one.id), 0.0)
    return spread


def test_every_segment_is_opened_without_waiting_for_another():
    spread = QueueAssignment()
    assert spread.handle(LayoutAdvanced(SPLIT), 0.0) == [OpenSegment(one, inherits=False) for one in (P, L, R)]
    assert not spread.begun
    for one in (P, L, R):
        spread.handle(SegmentOpened(one), 0.0)
    assert spread.begun


def test_children_open_with_layout_and_inherit_subscription_h_d3():
    spread = spread_over(ONE)
    assert spread.handle(LayoutAdvanced(SPLIT), 1.0) == [OpenSegment(L, inherits=True), OpenSegment(R, inherits=True)]
    assert spread.segments[P].state is State.OPEN  # its subscription is not drained


def test_early_children_are_told_start_of_consumer():
    spread = QueueAssignment()
    spread.handle(LayoutAdvanced(ONE), 0.0)
    spread.handle(SegmentRefused(P, NotReady("not yet")), 0.0)
    assert spread.handle(LayoutAdvanced(SPLIT), 0.0) == [OpenSegment(L, inherits=False), OpenSegment(R, inherits=False)]


def test_drained_segment_is_left_and_not_reopened_h_f13():
    spread = spread_over(SPLIT)
    assert spread.handle(SegmentEnded(P), 1.0) == [CloseSegment(P)]
    assert spread.handle(SegmentEnded(P), 1.0) == []
    assert spread.handle(SegmentClosed(P), 1.0) == []
    assert spread.handle(LayoutAdvanced(MERGED), 2.0) == [OpenSegment(M, inherits=True)]
    assert spread.done == {P}
    spread.handle(LayoutAdvanced(PRUNED), 3.0)
    assert spread.done == set()


def test_seek_reopens_drained_and_closing_segments_h_d7():
    spread = spread_over(MERGED)
    for one in (P, L):
        spread.handle(SegmentEnded(one), 1.0)
    spread.handle(SegmentClosed(P), 1.0)
    assert spread.handle(SubscriptionMoved(), 2.0) == [OpenSegment(P, inherits=True)]
    assert spread.handle(SegmentClosed(L), 2.0) == [OpenSegment(L, inherits=True)]
    assert spread.handle(SubscriptionMoved(), 3.0) == []


def test_older_or_repeated_layout_changes_nothing():
    spread = spread_over(SPLIT)
    assert spread.handle(LayoutAdvanced(ONE), 1.0) == []
    assert spread.handle(LayoutAdvanced(SPLIT), 1.0) == []
    assert sorted(spread.segments) == [P, L, R]


def test_unlisted_segment_is_closed_or_not_opened():
    spread = spread_over(MERGED)
    assert spread.handle(LayoutAdvanced(PRUNED), 1.0) == [CloseSegment(P)]
    waiting = QueueAssignment()
    waiting.handle(LayoutAdvanced(MERGED), 0.0)
    waiting.handle(SegmentRefused(P, NotReady("not yet")), 0.0)
    assert waiting.handle(LayoutAdvanced(PRUNED), 0.0) == []
    assert P not in waiting.segments


@pytest.mark.parametrize("error", [NotReady("moved"), TimedOut("slow"), ConsumerBusy("full")])
def test_transient_failures_are_retried_with_growing_waits(error):
    spread = spread_over(ONE)
    now, wait_s = 0.0, CLIENT_BACKOFF_S_MIN
    for _ in range(12):
        assert spread.handle(SegmentRefused(P, error), now) == []
        assert spread.due == now + wait_s
        assert spread.handle(TimePassed(), now + wait_s * 0.9) == []
        now += wait_s
        assert spread.handle(TimePassed(), now) == [OpenSegment(P, inherits=True)]
        wait_s = min(wait_s * 2, FOLLOW_BACKOFF_S_MAX)
    assert spread.due is None


def test_pruned_segment_is_done_and_missing_active_one_retried():
    spread = spread_over(SPLIT)
    spread.handle(SegmentRefused(P, TopicNotFound("pruned")), 0.0)
    spread.handle(SegmentRefused(L, TopicNotFound("not here yet")), 0.0)
    assert spread.done == {P}
    assert spread.handle(TimePassed(), 1.0) == [OpenSegment(L, inherits=True)]


@pytest.mark.parametrize("error", [NotAuthorized("no"), SubscriptionNotFound("removed")])
def test_permanent_refusal_ends_consumer_and_leaves_segments_h_d9(error):
    spread = spread_over(SPLIT)
    assert spread.handle(SegmentRefused(L, error), 0.0) == [CloseSegment(P), CloseSegment(R), EndConsumer(error)]
    assert spread.handle(LayoutAdvanced(MERGED), 1.0) == []
    spread.handle(SegmentClosed(P), 1.0)
    spread.handle(SegmentClosed(R), 1.0)
    assert spread.segments == {}


def test_subscription_that_is_full_is_told_to_whoever_makes_consumer():
    spread = QueueAssignment()
    spread.handle(LayoutAdvanced(ONE), 0.0)
    error = ConsumerBusy("the subscription has its maximum of consumers")
    assert spread.handle(SegmentRefused(P, error), 0.0) == [EndConsumer(error)]


def test_long_history_is_opened_few_segments_at_time():
    spread = QueueAssignment(opening_max=2)
    assert spread.handle(LayoutAdvanced(initial(5, now_ms=0)), 0.0) == [OpenSegment(P, False), OpenSegment(L, False)]
    assert spread.handle(SegmentOpened(P), 0.0) == [OpenSegment(R, False)]
    assert spread.handle(SegmentRefused(L, NotReady("later")), 0.0) == [OpenSegment(M, False)]


class Story:
    """A consumer and the brokers around it, in one of all the ways that things can go."""

    LAYOUTS = (ONE, SPLIT, MERGED, PRUNED)

    def __init__(self) -> None:
        self.spread = QueueAssignment(opening_max=2)
        self.shown = 0
        self.opening: set[SegmentId] = set()
        self.open: set[SegmentId] = set()
        self.closing: set[SegmentId] = set()
        self.drained: set[SegmentId] = set()
        self.troubles = 1

    def branched(self) -> Story:
        other = copy(self)
        other.opening, other.open = set(self.opening), set(self.open)
        other.closing, other.drained = set(self.closing), set(self.drained)
        other.spread = copy(self.spread)
        other.spread.segments = {segment: copy(held) for segment, held in self.spread.segments.items()}
        other.spread.done = set(self.spread.done)
        return other

    @property
    def layout(self) -> Layout | None:
        return self.LAYOUTS[self.shown - 1] if self.shown else None

    def choices(self) -> Iterator[Event]:
        if self.shown < len(self.LAYOUTS) and (self.LAYOUTS[self.shown] is not PRUNED or P in self.drained):
            yield LayoutAdvanced(self.LAYOUTS[self.shown])
        for one in sorted(self.opening):
            yield SegmentOpened(one)
        if self.troubles:
            for one in sorted(self.opening | self.open):
                yield SegmentRefused(one, NotReady("moved"))
        for one in sorted(self.open):
            if self.layout is not None and (one not in self.layout or not self.layout.segment(one).is_active):
                yield SegmentEnded(one)
        for one in sorted(self.closing):
            yield SegmentClosed(one)
        if self.spread.due is not None:
            yield TimePassed()

    def do(self, event: Event) -> None:
        match event:
            case LayoutAdvanced():
                self.shown += 1
            case SegmentOpened(segment=segment):
                self.opening.remove(segment)
                self.open.add(segment)
            case SegmentRefused(segment=segment):
                self.troubles -= 1
                self.opening.discard(segment)
                self.open.discard(segment)
            case SegmentEnded(segment=segment):
                self.drained.add(segment)
            case SegmentClosed(segment=segment):
                self.closing.remove(segment)
        for effect in self.spread.handle(event, 1e9 if isinstance(event, TimePassed) else 0.0):
            self.follow(effect)

    def follow(self, effect: Effect) -> None:
        match effect:
            case OpenSegment(segment=segment):
                assert segment not in self.opening | self.open | self.closing, "two consumers of one segment"
                assert segment not in self.drained, "drained is for ever"
                assert self.layout is not None
                assert segment in self.layout, "not listed"
                self.opening.add(segment)
                assert len(self.opening) <= 2
            case CloseSegment(segment=segment):
                assert segment in self.opening | self.open
                assert self.layout is not None
                assert segment in self.drained or segment not in self.layout, "left with messages in it"
                self.opening.discard(segment)
                self.open.discard(segment)
                self.closing.add(segment)
            case EndConsumer():
                raise AssertionError("nothing went wrong for good")

    @property
    def key(self) -> object:
        held = tuple((one, held.state, held.at > 0) for one, held in sorted(self.spread.segments.items()))
        sets = tuple(tuple(sorted(one)) for one in (self.opening, self.open, self.closing, self.drained))
        return self.shown, held, sets, self.troubles, self.spread.begun, tuple(sorted(self.spread.done))


def test_any_event_order_ends_on_all_undrained_segments():
    waiting = [Story()]
    seen = {waiting[0].key}
    ends = 0
    while waiting:
        story = waiting.pop()
        choices = list(story.choices())
        if not any(not isinstance(event, SegmentRefused | SegmentEnded) for event in choices):
            ends += 1  # nothing is under way: what stands now stands until something happens
            assert story.layout is not None
            assert story.open == {one.id for one in story.layout.segments} - story.drained
            assert story.spread.begun
        for event in choices:
            after = story.branched()
            after.do(event)
            if after.key not in seen:
                seen.add(after.key)
                waiting.append(after)
    assert ends > 10
    assert len(seen) > 1000


def test_refused_messages_return_and_drained_segments_do_not():
    spread = spread_over(SPLIT)
    assert not spread.comes_again(M)
    spread.handle(SegmentRefused(L, NotReady("busy")), 1.0)
    assert [spread.comes_again(segment) for segment in (P, L, R)] == [True] * 3
    spread.handle(SegmentEnded(R), 1.0)
    assert not spread.comes_again(R)  # while it is being left
    spread.handle(SegmentClosed(R), 1.0)
    assert not spread.comes_again(R)  # and after
    spread.handle(LayoutAdvanced(PRUNED), 1.0)
    assert not spread.comes_again(P)  # not listed any more, and being left
    spread.handle(SegmentClosed(P), 1.0)
    assert [spread.comes_again(segment) for segment in (P, L, R, M)] == [False, True, False, True]
