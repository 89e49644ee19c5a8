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
from tests.support.segment_queues import LOW, PARENT, SPLIT, add, fates, names, some_queues, written


def test_message_that_never_left_fails_for_sure():
    queues = some_queues()
    queues.handle(SegmentDetached(PARENT))
    add(queues, 0, "a", deadline=5.0)
    add(queues, 0, "b", deadline=6.0)
    assert queues.deadline == 5.0
    assert fates(queues.expired(5.0)) == {"a": SendStatus.FAILED}
    queues.handle(SegmentAttached(PARENT))
    assert written(queues, PARENT) == [["b"]]


def test_message_without_answer_may_be_stored():
    queues = some_queues()
    add(queues, 0, "a", deadline=5.0)
    written(queues, PARENT)
    assert fates(queues.expired(5.0)) == {"a": SendStatus.UNKNOWN}
    entry = queues.stored(PARENT, 0)  # late: its sender was told already
    assert entry is not None
    assert [message.fate for message in entry.messages] == [SendStatus.UNKNOWN]
    assert queues.bytes == queues.messages == 0
    assert queues.deadline is None


@pytest.mark.parametrize(("certain", "fate"), [(True, SendStatus.FAILED), (False, SendStatus.UNKNOWN)])
def test_message_that_sealed_segment_did_not_answer(certain, fate):
    queues = some_queues()
    add(queues, 0, "a", deadline=5.0)
    written(queues, PARENT)
    queues.handle(SegmentSealed(PARENT))
    queues.handle(SegmentDetached(PARENT, certain=certain))
    assert fates(queues.expired(5.0)) == {"a": fate}


def test_message_refused_by_seal_fails_definitely_despite_disconnect():
    queues = some_queues(cut=BatchLimits(messages_max=1))
    add(queues, 0, "a", deadline=5.0)
    add(queues, 0, "b", deadline=5.0)
    written(queues, PARENT)
    queues.refused(PARENT, 0, Sealed())
    queues.handle(SegmentDetached(PARENT))
    assert fates(queues.expired(5.0)) == {"a": SendStatus.FAILED, "b": SendStatus.UNKNOWN}


def test_doubt_is_kept_when_next_segment_refuses():
    queues = some_queues()
    add(queues, 0, "a")
    written(queues, PARENT)
    queues.handle(SegmentDetached(PARENT))
    queues.handle(SegmentSealed(PARENT))
    queues.handle(LayoutAdvanced(SPLIT))
    queues.handle(SegmentAttached(LOW))
    written(queues, LOW)
    assert fates(queues.refused(LOW, 0, BadChecksum())) == {"a": SendStatus.UNKNOWN}


def test_batch_of_which_one_message_failed_goes_without_it():
    queues = some_queues()
    add(queues, 0, "a", deadline=5.0)
    add(queues, 0, "b", deadline=6.0)
    entry = queues.next_entry(PARENT)
    assert entry is not None
    entry.frames = b"made"
    queues.handle(SegmentDetached(PARENT, certain=True))
    assert fates(queues.expired(5.0)) == {"a": SendStatus.FAILED}
    queues.handle(SegmentAttached(PARENT))
    again = queues.next_entry(PARENT)
    assert again is entry
    assert names(again) == ["b"]
    assert again.frames is None


def test_refusal_for_good_is_told_and_others_go_on():
    queues = some_queues(cut=BatchLimits(messages_max=1))
    add(queues, 0, "a")
    add(queues, 0, "b")
    written(queues, PARENT)
    assert fates(queues.refused(PARENT, 0, BadChecksum())) == {"a": SendStatus.FAILED}
    assert names(queues.stored(PARENT, 1)) == ["b"]


def test_refusal_that_leaves_open_what_happened_begins_again():
    queues = some_queues()
    add(queues, 0, "a")
    written(queues, PARENT)
    assert queues.refused(PARENT, 0, StorageFailed()) == [ReattachSegment(PARENT)]
    queues.handle(SegmentDetached(PARENT))
    queues.handle(SegmentAttached(PARENT))
    assert written(queues, PARENT) == [["a"]]


def test_closing_tells_every_message_what_became_of_it():
    queues = some_queues(cut=BatchLimits(messages_max=1))
    add(queues, 0, "a")
    queues.next_entry(PARENT)
    add(queues, 0, "b")
    effects = queues.ended(Closed("the producer is closed"))
    assert fates(effects) == {"a": SendStatus.UNKNOWN, "b": SendStatus.FAILED}
    assert effects[-1] == DropSegment(PARENT)
    assert queues.stored(PARENT, 0) is None
    assert (queues.bytes, queues.messages) == (0, 0)


def test_receipt_that_skips_oldest_is_not_believed():
    queues = some_queues(cut=BatchLimits(messages_max=1))
    add(queues, 0, "a")
    add(queues, 0, "b")
    written(queues, PARENT)
    with pytest.raises(InvalidTransition):
        queues.stored(PARENT, 1)
