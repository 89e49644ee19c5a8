"""What becomes of messages is told once and truly: stored, unknown where it may be stored, failed where it is not."""

from __future__ import annotations

import pytest

from magnetar.base.errors import BadChecksum, Closed, InvalidTransition, Sealed, StorageFailed
from magnetar.client.producer.scalable.queued_messages import SendStatus
from magnetar.client.producer.scalable.segment_queue import BatchLimits
from magnetar.client.producer.scalable.segment_queues import (
    DropSegment,
    LayoutAdvanced,
    ReattachSegment,
    SegmentAttached,
    SegmentDetached,
    SegmentSealed,
)
from tests.support.segment_queues import LOW, PARENT, SPLIT, add, fates, names, some_lanes, written


def test_a_message_that_never_left_fails_for_sure():
    lanes = some_lanes()
    lanes.handle(SegmentDetached(PARENT))
    add(lanes, 0, "a", deadline=5.0)
    add(lanes, 0, "b", deadline=6.0)
    assert lanes.deadline == 5.0
    assert fates(lanes.expired(5.0)) == {"a": SendStatus.FAILED}
    lanes.handle(SegmentAttached(PARENT))
    assert written(lanes, PARENT) == [["b"]]


def test_a_message_without_an_answer_may_be_stored():
    lanes = some_lanes()
    add(lanes, 0, "a", deadline=5.0)
    written(lanes, PARENT)
    assert fates(lanes.expired(5.0)) == {"a": SendStatus.UNKNOWN}
    entry = lanes.stored(PARENT, 0)  # late: its sender was told already
    assert entry is not None
    assert [message.fate for message in entry.messages] == [SendStatus.UNKNOWN]
    assert lanes.bytes == lanes.messages == 0
    assert lanes.deadline is None


@pytest.mark.parametrize(("certain", "fate"), [(True, SendStatus.FAILED), (False, SendStatus.UNKNOWN)])
def test_a_message_that_a_sealed_segment_did_not_answer(certain, fate):
    lanes = some_lanes()
    add(lanes, 0, "a", deadline=5.0)
    written(lanes, PARENT)
    lanes.handle(SegmentSealed(PARENT))
    lanes.handle(SegmentDetached(PARENT, certain=certain))
    assert fates(lanes.expired(5.0)) == {"a": fate}


def test_a_refused_message_of_a_sealed_segment_fails_for_sure_even_if_the_connection_is_lost():
    lanes = some_lanes(cut=BatchLimits(messages_max=1))
    add(lanes, 0, "a", deadline=5.0)
    add(lanes, 0, "b", deadline=5.0)
    written(lanes, PARENT)
    lanes.refused(PARENT, 0, Sealed())
    lanes.handle(SegmentDetached(PARENT))
    assert fates(lanes.expired(5.0)) == {"a": SendStatus.FAILED, "b": SendStatus.UNKNOWN}


def test_a_doubt_is_kept_when_the_next_segment_refuses():
    lanes = some_lanes()
    add(lanes, 0, "a")
    written(lanes, PARENT)
    lanes.handle(SegmentDetached(PARENT))
    lanes.handle(SegmentSealed(PARENT))
    lanes.handle(LayoutAdvanced(SPLIT))
    lanes.handle(SegmentAttached(LOW))
    written(lanes, LOW)
    assert fates(lanes.refused(LOW, 0, BadChecksum())) == {"a": SendStatus.UNKNOWN}


def test_a_batch_of_which_one_message_failed_goes_without_it():
    lanes = some_lanes()
    add(lanes, 0, "a", deadline=5.0)
    add(lanes, 0, "b", deadline=6.0)
    entry = lanes.next_entry(PARENT)
    assert entry is not None
    entry.frames = b"made"
    lanes.handle(SegmentDetached(PARENT, certain=True))
    assert fates(lanes.expired(5.0)) == {"a": SendStatus.FAILED}
    lanes.handle(SegmentAttached(PARENT))
    again = lanes.next_entry(PARENT)
    assert again is entry
    assert names(again) == ["b"]
    assert again.frames is None


def test_a_refusal_for_good_is_told_and_others_go_on():
    lanes = some_lanes(cut=BatchLimits(messages_max=1))
    add(lanes, 0, "a")
    add(lanes, 0, "b")
    written(lanes, PARENT)
    assert fates(lanes.refused(PARENT, 0, BadChecksum())) == {"a": SendStatus.FAILED}
    assert names(lanes.stored(PARENT, 1)) == ["b"]


def test_a_refusal_that_leaves_open_what_happened_begins_again():
    lanes = some_lanes()
    add(lanes, 0, "a")
    written(lanes, PARENT)
    assert lanes.refused(PARENT, 0, StorageFailed()) == [ReattachSegment(PARENT)]
    lanes.handle(SegmentDetached(PARENT))
    lanes.handle(SegmentAttached(PARENT))
    assert written(lanes, PARENT) == [["a"]]


def test_closing_tells_every_message_what_became_of_it():
    lanes = some_lanes(cut=BatchLimits(messages_max=1))
    add(lanes, 0, "a")
    lanes.next_entry(PARENT)
    add(lanes, 0, "b")
    effects = lanes.ended(Closed("the producer is closed"))
    assert fates(effects) == {"a": SendStatus.UNKNOWN, "b": SendStatus.FAILED}
    assert effects[-1] == DropSegment(PARENT)
    assert lanes.stored(PARENT, 0) is None
    assert (lanes.bytes, lanes.messages) == (0, 0)


def test_a_receipt_that_skips_the_oldest_is_not_believed():
    lanes = some_lanes(cut=BatchLimits(messages_max=1))
    add(lanes, 0, "a")
    add(lanes, 0, "b")
    written(lanes, PARENT)
    with pytest.raises(InvalidTransition):
        lanes.stored(PARENT, 1)
