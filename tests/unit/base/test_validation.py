"""Every pure machine has a `validate` that rejects a state which its steps can never reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from magnetar.base import validation
from magnetar.base.errors import NotAuthorized
from magnetar.base.ids import Epoch, LedgerId, Position, SegmentId, Term
from magnetar.client.consumer.scalable.queue import assignment as queue
from magnetar.client.consumer.scalable.segment_events import LayoutAdvanced
from magnetar.client.consumer.scalable.stream import assignment as stream
from magnetar.client.producer.router import KeyRoute
from magnetar.client.producer.scalable import segment_queues
from magnetar.layout.layout import initial
from magnetar.scalable.machines import (
    assign,
    deletion,
    drain,
    reshape,
    seek,
    sessions,
    subscription_change,
    takeover,
)
from magnetar.scalable.machines.seek_target import Target, TargetKind
from magnetar.scalable.record.record import Record
from magnetar.scalable.record.subscription import Hold, StreamPlan, Subscription, Type
from magnetar.staged import machine as staged
from magnetar.topic.dispatch.key_order import KeyOrder
from magnetar.topic.producers.access import Mode, ProducerAccess, Request

ONE = initial(1, now_ms=0)
S0 = SegmentId(0)
RECORD = Record(ONE, incarnation=0)


def leader_without_a_term() -> None:
    takeover.validate(takeover.TakeOver(takeover.Phase.LEADING))


def two_sessions_of_one_name() -> None:
    sessions.validate(
        sessions.Sessions((sessions.ConsumerSession("a", 1), sessions.ConsumerSession("a", 2)), generation=2)
    )


def segment_read_alone_and_together() -> None:
    assign.validate(StreamPlan(1, (Hold(S0, "a", "a", ("b", "c")),)))


def reshape_without_a_plan() -> None:
    reshape.validate(reshape.Reshape("op", Term(1), 0, 0, reshape.Phase.SEAL))


def deletion_before_the_mark() -> None:
    deletion.validate(deletion.Deletion("op", Term(1), 0, deletion.Phase.CLEAN, RECORD, version=0))


def drain_of_a_stored_latch() -> None:
    drain.validate(drain.Drain(life=0, seeks=0, latched=frozenset((S0,)), unstored=frozenset((S0,))))


def seek_without_its_record() -> None:
    seek.validate(seek.Seeking("op", "s", Target(TargetKind.EARLIEST), seek.Phase.MOVE, RECORD))


def subscription_removed_before_the_mark() -> None:
    change = subscription_change.SubscriptionChange("op", subscription_change.ChangeKind.DELETE, "s")
    subscription_change.validate(
        replace(
            change,
            phase=subscription_change.Phase.CURSORS,
            record=RECORD,
            subscription=Subscription("s", Type.STREAM, 1, 0),
        )
    )


def stream_segment_done_and_open() -> None:
    follow = stream.AssignmentState()
    follow.handle(stream.Assigned(Epoch(1), (stream.SegmentGrant(S0, "segment"),)), 0.0)
    follow._done.add(S0)
    follow.validate()


def queue_segment_open_after_the_end() -> None:
    spread = queue.QueueAssignment()
    spread.handle(LayoutAdvanced(ONE), 0.0)
    spread.error = NotAuthorized("consume")
    spread.validate()


def stage_chosen_and_dropped() -> None:
    chosen = staged.CommittedStage(0, 0, 0, 0, 1)
    sequences = (1, *(0,) * (staged.SINK_PRODUCERS - 1))
    staged.validate(
        staged.Sink(topic="t", name="s", life="", issued=1, chosen=(chosen,), dropped=(0,), sequences=sequences)
    )


def exclusive_producer_beside_another() -> None:
    access = ProducerAccess()
    access.join(Request("a", Mode.EXCLUSIVE, "connection", 1))
    other = Request("b", Mode.SHARED, "connection", 2)
    access._producers[other.name] = other
    access.validate()


def message_that_is_not_counted() -> None:
    queues = segment_queues.SegmentQueues()
    queues.handle(segment_queues.LayoutAdvanced(ONE))
    queues.handle(segment_queues.SegmentAttached(S0))
    queues.add(b"", KeyRoute(0, 0), size=1, deadline=1.0)
    queues.validate()
    queues.messages = 0
    queues.validate()


def entry_that_waits_and_is_held() -> None:
    order = KeyOrder[str]()
    at = Position(LedgerId(1), 0)
    order.sent(0, "a", at)
    order.validate()
    order._slots[at] = 0
    order.validate()


@pytest.mark.parametrize(
    "broken",
    [
        leader_without_a_term,
        two_sessions_of_one_name,
        segment_read_alone_and_together,
        deletion_before_the_mark,
        drain_of_a_stored_latch,
        seek_without_its_record,
        subscription_removed_before_the_mark,
        stream_segment_done_and_open,
        queue_segment_open_after_the_end,
        stage_chosen_and_dropped,
        exclusive_producer_beside_another,
        message_that_is_not_counted,
        entry_that_waits_and_is_held,
    ],
    ids=lambda broken: broken.__name__,
)
def test_unreachable_state_fails_validation(broken: Callable[[], None]) -> None:
    with pytest.raises(AssertionError):
        broken()


def test_reshape_without_its_plan_fails_validation() -> None:
    with pytest.raises(Exception, match="the operation has no plan"):
        reshape_without_a_plan()


def test_validation_is_on_in_tests() -> None:
    assert validation.enabled
