"""Segment queues go together under load and at once when nothing is on its way; nothing that waits is forgotten."""

from __future__ import annotations

import random

from magnetar.base.ids import SegmentId
from magnetar.base.limits import CLIENT_ROUND_DELAYS_MAX, CLIENT_ROUND_ENTRIES_A_DELAY
from magnetar.client.producer.scalable.segment_queue import BatchLimits
from magnetar.client.producer.scalable.send_schedule import SendAction, SendSchedule

A, B, C = SegmentId(0), SegmentId(1), SegmentId(2)
MANY = [SegmentId(number) for number in range(2 * CLIENT_ROUND_ENTRIES_A_DELAY)]
DELAY_S = 1.0


def a_pace(*, eager: bool = True) -> SendSchedule:
    return SendSchedule(BatchLimits(messages_max=10, bytes_max=1000), eager=eager, delay_s=DELAY_S)


def gather(pace: SendSchedule, segment: SegmentId, now: float = 0.0, *, awaited: bool = False) -> SendAction:
    return pace.gathered(segment, 10, 1, now, awaited=awaited)


def write(pace: SendSchedule, segments: list[SegmentId], now: float = 0.0) -> list[SegmentId]:
    """As the publisher does for a round."""
    for segment in segments:
        pace.wrote(segment, something=True)
    pace.went(len(segments), now)
    return segments


def a_round(pace: SendSchedule, segments: list[SegmentId], now: float = 0.0) -> None:
    """Gathered in one turn while nothing was on its way, written, answered."""
    for segment in segments:
        gather(pace, segment, now)
    due, _ = pace.turned(now)
    write(pace, due, now)
    for segment in due:
        assert pace.answered(segment, now) is SendAction.LATER


def test_queues_of_one_turn_leave_together_without_traffic_in_flight():
    pace = a_pace()
    assert [gather(pace, segment) for segment in (A, B, A)] == [SendAction.TURN, SendAction.LATER, SendAction.LATER]
    assert pace.turned(0.0) == ([A, B], SendAction.LATER)


def test_full_queue_goes_by_itself_and_others_stay():
    pace = a_pace()
    gather(pace, A)
    assert pace.gathered(B, 990, 1, 0.0) is SendAction.LATER
    assert pace.gathered(B, 10, 2, 0.0) is SendAction.NOW
    pace.wrote(B, something=True)
    assert pace.gathered(C, 1, 10, 0.0) is SendAction.NOW
    assert pace.turned(0.0)[0] == [A, C]


def test_full_entries_leave_immediately_unless_first_lingers():
    pace = a_pace()
    gather(pace, A)
    assert pace.gathered(A, 2980, 29, 0.0, room=3.0) is SendAction.LATER
    assert pace.gathered(A, 10, 30, 0.0, room=3.0) is SendAction.NOW
    assert pace.gathered(B, 3000, 2, 0.0, room=3.0) is SendAction.NOW
    assert a_pace(eager=False).gathered(A, 1, 10, 0.0, room=3.0) is SendAction.NOW


def test_several_entries_of_one_queue_delay_next_round():
    pace = a_pace()
    gather(pace, A)
    pace.turned(0.0)
    pace.wrote(A, something=True)
    pace.went(len(MANY), 0.0)
    assert pace.answered(A, 0.0) is SendAction.LATER
    assert gather(pace, A, 0.5) is SendAction.RING
    assert pace.wait_s == len(MANY) / CLIENT_ROUND_ENTRIES_A_DELAY * DELAY_S - 0.5


def test_messages_gathered_during_flight_leave_with_last_receipt():
    pace = a_pace()
    gather(pace, A)
    gather(pace, B)
    write(pace, pace.turned(0.0)[0], now=-100.0)
    assert gather(pace, C) is SendAction.RING
    assert pace.wait_s == DELAY_S
    assert gather(pace, A) is SendAction.LATER
    assert pace.answered(A, 0.0) is SendAction.LATER
    assert pace.answered(B, 0.0) is SendAction.TURN
    assert pace.turned(0.0)[0] == [C, A]


def test_message_gathered_after_last_receipt_joins_next_round():
    pace = a_pace()
    gather(pace, A)
    write(pace, pace.turned(0.0)[0])
    gather(pace, B, awaited=True)
    assert pace.answered(A, 0.0) is SendAction.TURN
    assert gather(pace, A, awaited=True) is SendAction.LATER
    assert pace.turned(0.0)[0] == [B, A]


def test_last_receipt_before_next_round_is_due_starts_no_turn():
    pace = a_pace()
    a_round(pace, MANY)
    gather(pace, A, 0.1, awaited=True)
    write(pace, pace.turned(0.1)[0], 0.1)
    gather(pace, B, 0.2)
    assert pace.answered(A, 0.3) is SendAction.LATER
    assert pace.watched


def test_round_of_many_queues_delays_next_and_single_does_not():
    pace = a_pace()
    a_round(pace, [A])
    assert gather(pace, B) is SendAction.TURN
    write(pace, pace.turned(0.0)[0])
    pace.answered(B, 0.0)
    a_round(pace, MANY)
    quiet_s = len(MANY) / CLIENT_ROUND_ENTRIES_A_DELAY * DELAY_S
    assert gather(pace, A, 0.5) is SendAction.RING
    assert pace.wait_s == quiet_s - 0.5
    assert gather(pace, B, 0.6) is SendAction.LATER
    assert pace.rang() == [A, B]
    assert gather(a_pace(), A, quiet_s) is SendAction.TURN


def test_however_many_queues_next_round_comes_in_bounded_time():
    pace = a_pace()
    a_round(pace, [SegmentId(number) for number in range(1000)])
    gather(pace, A)
    assert pace.wait_s == CLIENT_ROUND_DELAYS_MAX * DELAY_S


def test_awaited_message_is_delayed_by_no_round():
    pace = a_pace()
    a_round(pace, MANY)
    assert gather(pace, A, 0.1) is SendAction.RING
    assert gather(pace, B, 0.1, awaited=True) is SendAction.TURN
    assert pace.turned(0.1) == ([B], SendAction.LATER)
    write(pace, [B], 0.1)
    assert gather(pace, C, 0.2, awaited=True) is SendAction.LATER  # behind what is on its way, as on a plain topic
    assert pace.answered(B, 0.3) is SendAction.TURN
    assert pace.turned(0.3) == ([C], SendAction.LATER)
    assert pace.waiting == [A, C]


def test_turn_that_begins_for_one_who_waits_rings_for_rest():
    pace = a_pace()
    a_round(pace, MANY)
    assert gather(pace, A, 0.1, awaited=True) is SendAction.TURN
    assert gather(pace, B, 0.1) is SendAction.LATER
    assert pace.turned(0.1) == ([A], SendAction.RING)


def test_hurry_ends_turn_before_its_end_and_end_finds_nothing():
    pace = a_pace()
    gather(pace, A)
    assert pace.hurry(0.0, awaited=False) == ([A], SendAction.LATER)
    write(pace, [A])
    gather(pace, B)
    assert pace.turned(0.0) == ([], SendAction.LATER)
    assert pace.waiting == [B]


def test_sender_waiting_for_room_flushes_everything_gathered():
    pace = a_pace()
    a_round(pace, MANY)
    gather(pace, A, 0.1)
    gather(pace, B, 0.1)
    assert pace.hurry(0.1, awaited=False) == ([], SendAction.LATER)
    assert pace.hurry(0.1, awaited=True) == ([A, B], SendAction.LATER)


def test_linger_waits_full_delay_without_traffic_in_flight():
    pace = a_pace(eager=False)
    assert gather(pace, A) is SendAction.RING
    assert pace.wait_s == DELAY_S
    assert gather(pace, B, awaited=True) is SendAction.LATER
    assert pace.hurry(0.0, awaited=True) == ([], SendAction.LATER)
    assert pace.rang() == [A, B]
    write(pace, [A])
    assert pace.answered(A, 0.0) is SendAction.LATER


def test_ring_is_called_off_once_and_only_when_nothing_waits():
    pace = a_pace()
    gather(pace, A)
    write(pace, pace.turned(0.0)[0])
    gather(pace, A)
    assert not pace.silenced()
    assert pace.answered(A, 0.0) is SendAction.TURN
    write(pace, pace.turned(0.0)[0])
    assert pace.silenced()
    assert not pace.silenced()


def test_queue_that_lost_its_broker_holds_nobody_back():
    pace = a_pace()
    for end in (pace.lost, pace.dropped):
        gather(pace, A)
        write(pace, pace.turned(0.0)[0])
        end(A)
        assert gather(pace, B) is SendAction.TURN
        write(pace, pace.turned(0.0)[0])
        pace.answered(B, 0.0)


def test_waiting_message_always_has_turn_or_timer():
    for seed in range(300):
        chance = random.Random(seed)
        pace = a_pace(eager=chance.random() < 0.8)
        now = 0.0
        flying: set[SegmentId] = set()
        for _ in range(60):
            now += chance.choice((0.0, 0.1, 1.0))
            segment = chance.choice(MANY)
            match chance.randrange(8):
                case 0 | 1 | 2 | 3:
                    if gather(pace, segment, now, awaited=chance.random() < 0.2) is SendAction.NOW:
                        flying.update(write(pace, [segment], now))
                case 4:
                    flying.update(write(pace, pace.turned(now)[0], now))
                case 5 if pace.waiting:
                    flying.update(write(pace, pace.rang(), now))
                case 6 if flying:
                    gone = chance.choice(sorted(flying))
                    flying.discard(gone)
                    pace.answered(gone, now)
                case 7:
                    flying.update(write(pace, pace.hurry(now, awaited=chance.random() < 0.5)[0], now))
            pace.silenced()
            assert pace.watched, seed
