"""The inbox: permits are given back exactly, queues take turns, and bytes are bounded over all of them."""

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


def arrive(queue: TopicQueue, *values: bytes, counted: int | None = None, entry: int = 0) -> None:
    queue.arrived(messages(*values, entry=entry), sum(map(len, values)), len(values) if counted is None else counted)


def a_queue(queue_max: int = 10, size_max: int = 1 << 20) -> tuple[ReceiveQueue, TopicQueue, list[int]]:
    inbox = ReceiveQueue(size_max)
    asked: list[int] = []
    queue = inbox.topic_queue(queue_max, asked.append)
    queue.attach()
    return inbox, queue, asked


def drain(inbox: ReceiveQueue) -> list[bytes]:
    found = []
    while (message := inbox.take()) is not None:
        found.append(message.data)
    return found


def test_permits_are_requested_when_half_are_free():
    inbox, queue, asked = a_queue(10)
    assert asked == [10]
    arrive(queue, *[b"x"] * 10)
    for _ in range(4):
        inbox.take()
    assert asked == [10]
    inbox.take()
    assert asked == [10, 5]


def test_what_is_not_shown_is_given_back():
    _, queue, asked = a_queue(10)
    arrive(queue, b"a", counted=6)
    assert asked == [10, 5]


def test_batch_beyond_permits_is_repaid_before_new_request():
    inbox, queue, asked = a_queue(2)
    arrive(queue, *[b"x"] * 100)
    for _ in range(99):
        inbox.take()
    broker = sum(asked) - 100
    assert broker + 1 <= 2  # one is still queued: never more than the window is out
    inbox.take()
    assert sum(asked) - 100 in (1, 2)


def test_window_starts_small_and_doubles_up_to_queue():
    inbox, queue, asked = a_queue(1000)
    assert asked == [RECEIVER_WINDOW_MESSAGES_FIRST]
    for _ in range(10):
        arrive(queue, *[b"x"] * (sum(asked) - queue._messages_seen))
        drain(inbox)
    assert queue.window == 1000


def test_large_messages_keep_window_small():
    inbox, queue, asked = a_queue(1000, size_max=10_000)
    for _ in range(10):
        arrive(queue, *[b"x" * 1000] * (sum(asked) - queue._messages_seen))
        drain(inbox)
    assert queue.window <= 10


def test_full_inbox_requests_nothing_from_any_queue():
    inbox = ReceiveQueue(100)
    asked: dict[str, list[int]] = {"a": [], "b": []}
    first = inbox.topic_queue(4, asked["a"].append)
    second = inbox.topic_queue(4, asked["b"].append)
    first.attach()
    second.attach()
    arrive(first, b"x" * 100, b"x" * 100, b"x" * 100)
    arrive(second, b"y", b"y", b"y", b"y")
    assert [inbox.take().data[:1] for _ in range(4)] == [b"x", b"y", b"x", b"y"]
    assert asked["b"] == [4]  # half of its window is free, but the other queue fills the inbox
    assert inbox.take().data[:1] == b"x"
    assert asked["b"] == [4, 2]
    assert drain(inbox) == [b"y", b"y"]


def test_queues_take_turns_and_keep_their_own_order():
    inbox = ReceiveQueue(1 << 20)
    queues = [inbox.topic_queue(100, lambda permits: None) for _ in range(3)]
    for name, queue in zip(b"abc", queues, strict=True):
        queue.attach()
        arrive(queue, *[bytes((name, 48 + number)) for number in range(3)])
    taken = drain(inbox)
    assert taken == [b"a0", b"b0", b"c0", b"a1", b"b1", b"c1", b"a2", b"b2", b"c2"]


def test_lost_broker_takes_its_messages_away_and_nothing_else():
    inbox = ReceiveQueue(1 << 20)
    asked: list[int] = []
    first, second = inbox.topic_queue(4, asked.append), inbox.topic_queue(4, lambda permits: None)
    first.attach()
    second.attach()
    arrive(first, b"aa", b"aa")
    arrive(second, b"b")
    first.detach()
    assert (inbox.count, inbox.size) == (1, 1)
    first.attach()
    assert asked == [4, 4]
    assert drain(inbox) == [b"b"]


def test_queue_that_was_dropped_holds_and_accepts_nothing():
    """H-R1: the broker delivers until it reads the close; these messages belong to the next consumer."""
    inbox, queue, _ = a_queue()
    arrive(queue, b"before")
    queue.drop()
    arrive(queue, b"late")
    assert (drain(inbox), inbox.count, queue.head) == ([], 0, None)


def test_entries_asked_for_again_leave_queue():
    inbox, queue, _ = a_queue(10)
    arrive(queue, b"a", b"b", entry=1)
    arrive(queue, b"c", entry=2)
    queue.remove({(1, 1)})
    assert (inbox.count, inbox.size) == (1, 1)
    assert drain(inbox) == [b"c"]
    queue.remove({(1, 9)})


def test_message_put_back_is_next_one_again():
    inbox = ReceiveQueue(1 << 20)
    first, second = inbox.topic_queue(4, lambda permits: None), inbox.topic_queue(4, lambda permits: None)
    first.attach()
    second.attach()
    arrive(first, b"a1", b"a2")
    arrive(second, b"b1")
    taken = inbox.take()
    inbox.put_back(taken, first)
    assert drain(inbox) == [b"a1", b"b1", b"a2"]
    assert inbox.size == 0


def test_paused_queue_asks_for_nothing_until_it_goes_on():
    inbox, queue, asked = a_queue(4)
    queue.paused = True
    arrive(queue, *[b"x"] * 4)
    drain(inbox)
    assert asked == [4]
    queue.paused = False
    queue.refill()
    assert asked == [4, 4]


def test_without_queue_one_is_asked_for_while_somebody_waits():
    inbox, queue, asked = a_queue(0)
    assert asked == []
    queue.ask_one()
    queue.ask_one()
    assert asked == [1]
    arrive(queue, b"x")
    inbox.take()
    assert asked == [1]
    queue.ask_one()
    assert asked == [1, 1]
    arrive(queue, counted=1)  # it was a duplicate
    queue.ask_one()
    assert asked == [1, 1, 1]


@given(
    queue_max=st.integers(1, 20),
    queues=st.integers(1, 3),
    events=st.lists(st.tuples(st.sampled_from("adtlr"), st.integers(0, 2), st.integers(1, 5)), max_size=80),
)
def test_permits_never_leak_in_either_direction(queue_max, queues, events):
    """The broker's view of its permits against the window, whatever arrives, is dropped, taken or lost."""
    inbox = ReceiveQueue(1 << 30)
    permits = Counter()
    made = [
        inbox.topic_queue(queue_max, lambda count, index=index: permits.update({index: count}))
        for index in range(queues)
    ]
    for queue in made:
        queue.attach()
    for kind, which, count in events:
        index = which % queues
        queue = made[index]
        if kind == "a" and permits[index] > 0:
            arrive(queue, *[b"x"] * count)
            permits[index] -= count
        elif kind == "d" and permits[index] > 0:
            permits[index] -= count  # before the queue hears of it, since it may ask for more at once
            arrive(queue, counted=count)
        elif kind == "t":
            inbox.take()
        elif kind == "l":
            queue.detach()
            permits[index] = 0
            queue.attach()
        elif kind == "r":
            queue.clear()
            queue.refill()
        for index, queue in enumerate(made):
            out = permits[index] + len(queue.messages)
            assert out + queue.room == queue.window
            assert queue.room < max(1, queue.window // 2) or queue.room <= 0
    assert inbox.count == sum(len(queue.messages) for queue in made)
    assert inbox.size == inbox.count


def test_queues_ask_for_nothing_while_entry_waits_for_room():
    """It is opened when the inbox is empty: others must not keep it full."""
    inbox, busy, asked = a_queue(10, size_max=100)
    waiting = inbox.topic_queue(10, asked.append)
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


def test_cancelled_queue_waiting_for_room_blocks_no_other():
    inbox, busy, asked = a_queue(10, size_max=100)
    waiting = inbox.topic_queue(10, asked.append)
    waiting.attach()
    waiting.reopen = lambda: False
    arrive(busy, *[b"x"] * 10)
    waiting.wait()
    drain(inbox)
    assert asked == [10, 10]
    waiting.drop()
    assert len(asked) == 3


def two_queues() -> tuple[ReceiveQueue, TopicQueue, TopicQueue]:
    """A segment and one that came of it, which is read ahead."""
    inbox, parent, _ = a_queue()
    child = inbox.topic_queue(10, lambda permits: None)
    child.behind = (parent,)
    child.attach()
    arrive(parent, b"1", b"2")
    arrive(child, b"3")
    return inbox, parent, child


def test_child_waits_while_its_parent_has_lost_its_broker():
    inbox, parent, child = two_queues()
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
    inbox, parent, child = two_queues()
    parent.detach()
    arrive(child, b"4")
    parent.drop()
    assert inbox.count == 2
    assert drain(inbox) == [b"3", b"4"]


def test_child_that_attaches_while_its_parent_is_away_waits():
    inbox, parent, child = two_queues()
    parent.detach()
    child.detach()
    child.attach()
    arrive(child, b"3")
    assert drain(inbox) == []
    parent.drop()
    assert drain(inbox) == [b"3"]


def test_entries_set_aside_are_removed_when_they_come_again():
    inbox, parent, child = two_queues()
    parent.detach()
    arrive(child, b"4", entry=7)
    child.remove({(1, 7)})
    parent.drop()
    assert drain(inbox) == [b"3"]
