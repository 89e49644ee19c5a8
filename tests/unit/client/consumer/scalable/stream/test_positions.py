"""One acknowledgement covers everything handed out before it, over all segments, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from magnetar.base.errors import InvalidTransition
from magnetar.base.ids import SegmentId
from magnetar.client.consumer.receive.receive_queue import ReceiveQueue, TopicQueue
from magnetar.client.consumer.scalable.stream.positions import Positions
from magnetar.client.message import Delivery, Message
from magnetar.client.schema import BYTES
from magnetar.wire.proto import pb
from tests.support.search_effort import examples

A, B = SegmentId(0), SegmentId(1)
METADATA = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=0)


def some_positions() -> Positions[int]:
    positions: Positions[int] = Positions()
    positions.opened(A)
    positions.opened(B)
    return positions


def test_acknowledgement_covers_what_came_before_on_every_segment():
    positions = some_positions()
    positions.delivered(A, 1)
    positions.delivered(B, 7)
    stamp = positions.delivered(A, 2)
    positions.delivered(B, 8)
    assert positions.vector(stamp) == {A: 2, B: 7}
    assert positions.acknowledged(stamp) == [(A, 2), (B, 7)]
    assert (positions.unacked(A), positions.unacked(B)) == (0, 1)


def test_what_is_acknowledged_already_is_not_acknowledged_again():
    positions = some_positions()
    first = positions.delivered(A, 1)
    second = positions.delivered(A, 2)
    assert positions.acknowledged(second) == [(A, 2)]
    assert positions.acknowledged(first) == []
    assert positions.acknowledged(second) == []


def test_messages_are_acknowledged_individually_while_earlier_one_is_pending():
    positions: Positions[int] = Positions(apart=lambda id: id in (3, 4))
    positions.opened(A)
    stamps = [positions.delivered(A, id) for id in (1, 2, 3, 4, 5)]
    assert positions.acknowledged(stamps[2]) == [(A, 1), (A, 2), (A, 3)]
    assert positions.acknowledged(stamps[2]) == []
    assert positions.acknowledged(stamps[4]) == [(A, 5)]
    assert positions.unacked(A) == 0


def test_id_kept_at_such_time_covers_messages_returned_here():
    positions: Positions[int] = Positions(apart=lambda id: id == 3)
    positions.opened(A)
    positions.delivered(A, 2)
    positions.delivered(A, 4)
    assert positions.covered({A: 3}) == [(A, 2), (A, 3)]
    assert positions.unacked(A) == 1


def test_message_returned_behind_pending_one_stays_unacknowledged():
    positions: Positions[int] = Positions(apart=lambda id: id == 5)
    positions.opened(A)
    first = positions.delivered(A, 5)
    again = positions.delivered(A, 4)
    positions.delivered(A, 5)
    assert positions.acknowledged(first) == [(A, 5)]
    assert positions.unacked(A) == 1
    assert positions.acknowledged(again) == [(A, 4)]


def test_redelivery_after_lost_acknowledgement_is_acknowledged_again():
    positions = some_positions()
    assert positions.acknowledged(positions.delivered(A, 2)) == [(A, 2)]
    again = positions.delivered(A, 1)
    last = positions.delivered(A, 2)
    assert positions.acknowledged(again) == [(A, 1)]
    assert positions.acknowledged(last) == [(A, 2)]
    positions.delivered(A, 2)
    assert positions.covered({A: 2}) == [(A, 2)]


def test_segment_taken_away_can_be_acknowledged_until_it_is_closed():
    positions = some_positions()
    stamp = positions.delivered(A, 1)
    late = positions.delivered(A, 2)
    assert positions.acknowledged(stamp) == [(A, 1)]
    positions.closed(A)
    assert positions.acknowledged(late) == []
    with pytest.raises(InvalidTransition):
        positions.delivered(A, 3)


def test_reassigned_segment_is_not_acknowledged_by_earlier_messages():
    positions = some_positions()
    positions.delivered(A, 1)
    old = positions.delivered(B, 5)
    positions.closed(A)
    positions.opened(A)
    positions.delivered(A, 1)
    assert positions.acknowledged(old) == [(B, 5)]
    assert positions.unacked(A) == 1


def test_what_is_delivered_again_is_done_with_first_acknowledgement():
    positions = some_positions()
    positions.delivered(A, 5)
    stamp = positions.delivered(A, 6)
    positions.delivered(A, 7)
    for id in (5, 6, 7):  # the connection was lost
        positions.delivered(A, id)
    assert positions.acknowledged(stamp) == [(A, 6)]
    assert positions.unacked(A) == 2
    assert positions.acknowledged(stamp + 99) == [(A, 7)]
    assert positions.unacked(A) == 0


def test_message_that_did_not_reach_application_is_not_covered():
    positions = some_positions()
    first = positions.delivered(A, 1)
    stamp = positions.delivered(A, 2)
    positions.returned(A, stamp)
    assert positions.acknowledged(stamp) == [(A, 1)]
    positions.returned(A, first)
    assert positions.segments == [A, B]


class StampsOnArrival(Positions[int]):
    """As the reference's client: the position of a segment is noted apart from handing the message out (H-F23)."""

    def delivered(self, segment: SegmentId, id: int) -> int:
        stamp = super().delivered(segment, id)
        given = self._out[segment].given
        given.remove_newest(stamp)
        given.append(stamp + 1, id)
        return stamp


def test_position_noted_apart_from_its_message_is_caught():
    positions = StampsOnArrival()
    positions.opened(A)
    positions.opened(B)
    positions.delivered(A, 1)
    stamp = positions.delivered(B, 7)
    assert positions.acknowledged(stamp) != [(A, 1), (B, 7)]


class Streaming(RuleBasedStateMachine):
    """An inbox over several segments, of which some are taken away: messages are handed out in the order of their
    segment, and an acknowledgement is exactly what the application was handed up to it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.inbox = ReceiveQueue(size_max=200)
        self.positions: Positions[int] = Positions()
        self.queues: dict[SegmentId, TopicQueue] = {}
        self.revoked: set[SegmentId] = set()
        self.permits: dict[SegmentId, int] = {}
        self.sent: dict[SegmentId, int] = {}
        self.acked: dict[SegmentId, int] = {}
        self.out: list[tuple[int, SegmentId, int]] = []  # stamp, segment, id; of open segments
        self.last: dict[SegmentId, int] = {}

    @rule(segment=st.integers(0, 3))
    def open(self, segment: int) -> None:
        id = SegmentId(segment)
        if id in self.permits:
            return
        self.permits[id] = 0
        self.positions.opened(id)
        queue = self.queues[id] = self.inbox.topic_queue(8, lambda count: self.allow(id, count))
        self.sent[id] = self.last[id] = self.acked.get(id, -1)
        queue.attach()

    def allow(self, id: SegmentId, count: int) -> None:
        self.permits[id] += count

    @rule(segment=st.integers(0, 3), count=st.integers(1, 5))
    def deliver(self, segment: int, count: int) -> None:
        id = SegmentId(segment)
        if id in self.queues and self.permits[id] >= count:
            self.permits[id] -= count
            first = self.sent[id] + 1
            self.sent[id] += count
            delivery = [Delivery(METADATA, "t", BYTES, ledger=0, entry=first + at, source=id) for at in range(count)]
            self.queues[id].arrived([Message(b"x" * 10, one) for one in delivery], 10 * count, count)

    @rule()
    def take(self) -> None:
        message = self.inbox.take()
        if message is not None:
            id, entry = message._delivery.source, message._delivery.entry
            assert id not in self.revoked
            assert entry == self.last[id] + 1
            self.last[id] = entry
            self.out.append((self.positions.delivered(id, entry), id, entry))

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        stamp = data.draw(st.sampled_from(self.out))[0]
        expected = {id: entry for at, id, entry in self.out if at <= stamp}  # of each segment the last
        assert self.positions.acknowledged(stamp) == sorted(expected.items())
        self.acked.update(expected)
        self.out = [one for one in self.out if one[0] > stamp]

    @rule(segment=st.integers(0, 3))
    def revoke(self, segment: int) -> None:
        id = SegmentId(segment)
        if id in self.queues:
            self.inbox.drop(self.queues.pop(id))
            self.revoked.add(id)

    @rule(segment=st.integers(0, 3))
    def close(self, segment: int) -> None:
        id = SegmentId(segment)
        if id in self.revoked:
            self.revoked.discard(id)
            del self.permits[id]
            self.positions.closed(id)
            self.out = [one for one in self.out if one[1] != id]

    @invariant()
    def what_is_out_is_known(self) -> None:
        for id in self.permits:
            assert self.positions.unacked(id) == sum(one[1] == id for one in self.out)

    @invariant()
    def what_waits_is_bounded(self) -> None:
        assert self.inbox.count <= 8 * 4
        assert self.inbox.size <= 200 + 8 * 4 * 10
        assert self.inbox.count == sum(len(queue.messages) for queue in self.queues.values())


TestStreaming = Streaming.TestCase
TestStreaming.settings = settings(max_examples=examples(80), stateful_step_count=40, deadline=None)


def test_kept_ids_cover_earlier_messages_of_open_segments():
    positions: Positions[int] = Positions()
    for segment in (SegmentId(1), SegmentId(2)):
        positions.opened(segment)
    for id in (10, 11, 12):
        positions.delivered(SegmentId(1), id)
    later = positions.delivered(SegmentId(2), 20)
    assert positions.covered({SegmentId(1): 11, SegmentId(7): 3}) == [(SegmentId(1), 11)]
    assert (positions.unacked(SegmentId(1)), positions.unacked(SegmentId(2))) == (1, 1)
    assert positions.covered({SegmentId(1): 10}) == []
    assert positions.acknowledged(later) == [(SegmentId(1), 12), (SegmentId(2), 20)]


def test_messages_of_shared_segment_are_acknowledged_individually():
    positions: Positions[int] = Positions()
    positions.opened(A, shared=True)
    positions.opened(B)
    positions.delivered(A, 7)
    positions.delivered(B, 1)
    second = positions.delivered(A, 3)  # of a bucket that another had: older, and yet it came later
    positions.delivered(A, 9)
    assert positions.acknowledged(second) == [(A, 7), (A, 3), (B, 1)]
    assert positions.unacked(A) == 1


def test_kept_id_of_shared_segment_covers_earlier_messages_here():
    positions: Positions[int] = Positions()
    positions.opened(A, shared=True)
    for id in (7, 3, 9):
        positions.delivered(A, id)
    assert positions.covered({A: 3}) == [(A, 7), (A, 3)]  # and not 9, which is higher, nor by number: 7 came before
    assert positions.covered({A: 100}) == [(A, 100)]  # of another life of this consumer
    assert positions.unacked(A) == 1
