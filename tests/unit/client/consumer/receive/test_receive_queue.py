"""The inbox: permits are given back exactly, lanes take turns, and bytes are bounded over all of them."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.limits import RECEIVER_WINDOW_MESSAGES_FIRST
from magnetar.client.consumer.receive.receive_queue import ReceiveQueue, TopicQueue
from magnetar.client.message import Delivery, Message
from magnetar.client.schema import BYTES
from magnetar.wire.proto import pb

METADATA = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=0)


def messages(*values: bytes, entry: int = 0) -> list[Message]:
    delivery = Delivery(METADATA, "t", BYTES, ledger=1, entry=entry)
    return [Message(value, delivery) for value in values]


def arrive(lane: TopicQueue, *values: bytes, counted: int | None = None, entry: int = 0) -> None:
    lane.arrived(messages(*values, entry=entry), sum(map(len, values)), len(values) if counted is None else counted)


def a_lane(queue_max: int = 10, size_max: int = 1 << 20) -> tuple[ReceiveQueue, TopicQueue, list[int]]:
    inbox = ReceiveQueue(size_max)
    asked: list[int] = []
    lane = inbox.lane(queue_max, asked.append)
    lane.attach()
    return inbox, lane, asked


def drain(inbox: ReceiveQueue) -> list[bytes]:
    found = []
    while (message := inbox.take()) is not None:
        found.append(message.data)
    return found


def test_permits_are_asked_for_again_when_half_of_them_is_free():
    inbox, lane, asked = a_lane(10)
    assert asked == [10]
    arrive(lane, *[b"x"] * 10)
    for _ in range(4):
        inbox.take()
    assert asked == [10]
    inbox.take()
    assert asked == [10, 5]


def test_what_is_not_shown_is_given_back():
    _, lane, asked = a_lane(10)
    arrive(lane, b"a", counted=6)
    assert asked == [10, 5]


def test_a_batch_beyond_the_permits_is_paid_back_before_more_is_asked_for():
    inbox, lane, asked = a_lane(2)
    arrive(lane, *[b"x"] * 100)
    for _ in range(99):
        inbox.take()
    broker = sum(asked) - 100
    assert broker + 1 <= 2  # one is still queued: never more than the window is out
    inbox.take()
    assert sum(asked) - 100 in (1, 2)


def test_the_window_starts_small_and_doubles_up_to_the_queue():
    inbox, lane, asked = a_lane(1000)
    assert asked == [RECEIVER_WINDOW_MESSAGES_FIRST]
    for _ in range(10):
        arrive(lane, *[b"x"] * (sum(asked) - lane._messages_seen))
        drain(inbox)
    assert lane.window == 1000


def test_large_messages_keep_the_window_small():
    inbox, lane, asked = a_lane(1000, size_max=10_000)
    for _ in range(10):
        arrive(lane, *[b"x" * 1000] * (sum(asked) - lane._messages_seen))
        drain(inbox)
    assert lane.window <= 10


def test_nothing_is_asked_for_while_the_inbox_is_full_whoever_filled_it():
    inbox = ReceiveQueue(100)
    asked: dict[str, list[int]] = {"a": [], "b": []}
    first = inbox.lane(4, asked["a"].append)
    second = inbox.lane(4, asked["b"].append)
    first.attach()
    second.attach()
    arrive(first, b"x" * 100, b"x" * 100, b"x" * 100)
    arrive(second, b"y", b"y", b"y", b"y")
    assert [inbox.take().data[:1] for _ in range(4)] == [b"x", b"y", b"x", b"y"]
    assert asked["b"] == [4]  # half of its window is free, but the other lane fills the inbox
    assert inbox.take().data[:1] == b"x"
    assert asked["b"] == [4, 2]
    assert drain(inbox) == [b"y", b"y"]


def test_lanes_take_turns_and_keep_their_own_order():
    inbox = ReceiveQueue(1 << 20)
    lanes = [inbox.lane(100, lambda permits: None) for _ in range(3)]
    for name, lane in zip(b"abc", lanes, strict=True):
        lane.attach()
        arrive(lane, *[bytes((name, 48 + number)) for number in range(3)])
    taken = drain(inbox)
    assert taken == [b"a0", b"b0", b"c0", b"a1", b"b1", b"c1", b"a2", b"b2", b"c2"]


def test_a_lost_broker_takes_its_messages_away_and_nothing_else():
    inbox = ReceiveQueue(1 << 20)
    asked: list[int] = []
    first, second = inbox.lane(4, asked.append), inbox.lane(4, lambda permits: None)
    first.attach()
    second.attach()
    arrive(first, b"aa", b"aa")
    arrive(second, b"b")
    first.detach()
    assert (inbox.count, inbox.size) == (1, 1)
    first.attach()
    assert asked == [4, 4]
    assert drain(inbox) == [b"b"]


def test_lane_that_was_dropped_holds_and_accepts_nothing():
    """H-R1: the broker delivers until it reads the close; these messages belong to the next consumer."""
    inbox, lane, _ = a_lane()
    arrive(lane, b"before")
    lane.drop()
    arrive(lane, b"late")
    assert (drain(inbox), inbox.count, lane.head) == ([], 0, None)


def test_entries_asked_for_again_leave_the_queue():
    inbox, lane, _ = a_lane(10)
    arrive(lane, b"a", b"b", entry=1)
    arrive(lane, b"c", entry=2)
    lane.remove({(1, 1)})
    assert (inbox.count, inbox.size) == (1, 1)
    assert drain(inbox) == [b"c"]
    lane.remove({(1, 9)})


def test_a_message_put_back_is_the_next_one_again():
    inbox = ReceiveQueue(1 << 20)
    first, second = inbox.lane(4, lambda permits: None), inbox.lane(4, lambda permits: None)
    first.attach()
    second.attach()
    arrive(first, b"a1", b"a2")
    arrive(second, b"b1")
    taken = inbox.take()
    inbox.put_back(taken, first)
    assert drain(inbox) == [b"a1", b"b1", b"a2"]
    assert inbox.size == 0


def test_a_paused_lane_asks_for_nothing_until_it_goes_on():
    inbox, lane, asked = a_lane(4)
    lane.paused = True
    arrive(lane, *[b"x"] * 4)
    drain(inbox)
    assert asked == [4]
    lane.paused = False
    lane.refill()
    assert asked == [4, 4]


def test_without_a_queue_one_is_asked_for_while_somebody_waits():
    inbox, lane, asked = a_lane(0)
    assert asked == []
    lane.ask_one()
    lane.ask_one()
    assert asked == [1]
    arrive(lane, b"x")
    inbox.take()
    assert asked == [1]
    lane.ask_one()
    assert asked == [1, 1]
    arrive(lane, counted=1)  # it was a duplicate
    lane.ask_one()
    assert asked == [1, 1, 1]


@given(
    queue_max=st.integers(1, 20),
    lanes=st.integers(1, 3),
    events=st.lists(st.tuples(st.sampled_from("adtlr"), st.integers(0, 2), st.integers(1, 5)), max_size=80),
)
def test_permits_never_leak_in_either_direction(queue_max, lanes, events):
    """The broker's view of its permits against the window, whatever arrives, is dropped, taken or lost."""
    inbox = ReceiveQueue(1 << 30)
    permits = Counter()
    made = [inbox.lane(queue_max, lambda count, index=index: permits.update({index: count})) for index in range(lanes)]
    for lane in made:
        lane.attach()
    for kind, which, count in events:
        index = which % lanes
        lane = made[index]
        if kind == "a" and permits[index] > 0:
            arrive(lane, *[b"x"] * count)
            permits[index] -= count
        elif kind == "d" and permits[index] > 0:
            permits[index] -= count  # before the lane hears of it, since it may ask for more at once
            arrive(lane, counted=count)
        elif kind == "t":
            inbox.take()
        elif kind == "l":
            lane.detach()
            permits[index] = 0
            lane.attach()
        elif kind == "r":
            lane.clear()
            lane.refill()
        for index, lane in enumerate(made):
            out = permits[index] + len(lane.queue)
            assert out + lane.room == lane.window
            assert lane.room < max(1, lane.window // 2) or lane.room <= 0
    assert inbox.count == sum(len(lane.queue) for lane in made)
    assert inbox.size == inbox.count


def test_lanes_ask_for_nothing_while_an_entry_waits_for_room():
    """It is opened when the inbox is empty: others must not keep it full."""
    inbox, busy, asked = a_lane(10, size_max=100)
    waiting = inbox.lane(10, asked.append)
    waiting.attach()
    arrive(busy, *[b"x" * 9] * 10)
    assert not waiting.has_room(50)

    def open_it() -> bool:
        if waiting.has_room(500):
            arrive(waiting, b"y" * 500)
            return True
        return False

    waiting.reopen = open_it
    waiting.wait()
    for _ in range(9):
        inbox.take()
    assert asked == [10, 10]
    assert inbox.capacity == 0
    inbox.take()
    assert drain(inbox) == [b"y" * 500]
    assert not inbox.waiting
    assert len(asked) == 3


def test_lane_that_waits_for_room_and_is_left_holds_up_no_other():
    inbox, busy, asked = a_lane(10, size_max=100)
    waiting = inbox.lane(10, asked.append)
    waiting.attach()
    waiting.reopen = lambda: False
    arrive(busy, *[b"x"] * 10)
    waiting.wait()
    drain(inbox)
    assert asked == [10, 10]
    waiting.drop()
    assert len(asked) == 3


def two_lanes() -> tuple[ReceiveQueue, TopicQueue, TopicQueue]:
    """A segment and one that came of it, which is read ahead."""
    inbox, parent, _ = a_lane()
    child = inbox.lane(10, lambda permits: None)
    child.behind = (parent,)
    child.attach()
    arrive(parent, b"1", b"2")
    arrive(child, b"3")
    return inbox, parent, child


def test_child_waits_while_its_parent_has_lost_its_broker():
    inbox, parent, child = two_lanes()
    parent.detach()
    arrive(child, b"4")
    assert drain(inbox) == []
    assert (inbox.count, inbox.size) == (0, 0)
    parent.attach()
    arrive(parent, b"1", b"2")
    assert drain(inbox) == [b"1", b"2"], "the child is delivered again by its own broker"
    child.detach()
    child.attach()
    arrive(child, b"3", b"4")
    assert drain(inbox) == [b"3", b"4"]


def test_child_goes_on_when_its_parent_is_done():
    inbox, parent, child = two_lanes()
    parent.detach()
    arrive(child, b"4")
    parent.drop()
    assert inbox.count == 2
    assert drain(inbox) == [b"3", b"4"]


def test_child_that_attaches_while_its_parent_is_away_waits():
    inbox, parent, child = two_lanes()
    parent.detach()
    child.detach()
    child.attach()
    arrive(child, b"3")
    assert drain(inbox) == []
    parent.drop()
    assert drain(inbox) == [b"3"]


def test_entries_set_aside_are_removed_when_they_come_again():
    inbox, parent, child = two_lanes()
    parent.detach()
    arrive(child, b"4", entry=7)
    child.remove({(1, 7)})
    parent.drop()
    assert drain(inbox) == [b"3"]
