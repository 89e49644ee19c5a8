"""Received messages that were not taken yet: one queue for each topic, taken fairly, with bounds in messages and bytes.

Pure decisions: `waiters` waits and `topic_consumer` talks to brokers. A topic queue grants its broker permits for as
many messages as it has room for, again when half of that is free. Its window starts small and doubles with use, as long
as messages of the size seen so far fit the byte bound; a full receive queue requests no messages. Messages of one topic
queue keep their order. Topic queues take turns, except that one waits for those before it (`behind`): its segment's
ancestors. If an ancestor loses its broker, its queued messages are redelivered, so all messages behind it are set
aside. They stay there until their own broker closes and redelivers too, or until the ancestor is dropped because its
segment is done. An entry too large for the remaining room waits undecoded (`compressed_entries`). It trusts its user to
report every message that a broker counts as delivered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from magnetar.base.limits import FLOW_PERMITS_MAX, RECEIVER_WINDOW_MESSAGES_FIRST
from magnetar.client.message import Message


class TopicQueue:
    """One topic's queue. `ask(permits)` sends permits to its broker."""

    __slots__ = (
        "_ask",
        "_half",
        "_inbox",
        "_messages_seen",
        "_size_seen",
        "aside",
        "attached",
        "behind",
        "dropped",
        "held_by",
        "last",
        "messages",
        "paused",
        "queue_max",
        "reopen",
        "room",
        "window",
    )

    def __init__(self, inbox: ReceiveQueue, queue_max: int, ask: Callable[[int], None]) -> None:
        self.messages: deque[Message[Any]] = deque()
        self.queue_max = queue_max  # 0: request one message for each waiting receive
        self.window = min(queue_max, RECEIVER_WINDOW_MESSAGES_FIRST)
        self.room = 0  # messages of the window neither requested nor queued
        self.attached = False
        self.dropped = False  # the topic is closed: messages that still arrive belong to the next consumer
        self.paused = False
        self.behind: tuple[TopicQueue, ...] = ()  # no message is taken while one of those has a message
        self.held_by: tuple[TopicQueue, ...] = ()  # those of them that lost their broker after this one was attached
        self.aside: deque[Message[Any]] = deque()  # received, and not taken while it is held
        self.last: Message[Any] | None = None  # taken most recently
        self.reopen: Callable[[], bool] = _nothing_waits  # decodes waiting entries; returns whether none is left
        self._inbox = inbox
        self._ask = ask
        self._half = max(1, self.window // 2)
        self._messages_seen = 0
        self._size_seen = 0

    def attach(self) -> None:
        """A broker is attached and has no permits yet: messages queued from an earlier one were discarded."""
        self.attached = True
        self.held_by = tuple(one for one in self.behind if not one.attached and not one.dropped)
        self.room = self.window - len(self.messages)
        self.refill()

    def detach(self) -> None:
        """The broker was lost and will redeliver the queued messages: discard them."""
        self.attached = False
        self.clear()
        self.held_by = ()
        if not self.dropped:
            self._inbox.lost(self)

    def drop(self) -> None:
        """The topic is closed: the queue holds no message from now on."""
        self._inbox.drop(self)

    @property
    def head(self) -> tuple[int, int] | None:
        """The entry of the next message; other messages of its batch may have been taken."""
        if not self.messages:
            return None
        delivery = self.messages[0]._delivery
        return delivery.ledger, delivery.entry

    def clear(self) -> int:
        aside = len(self.aside)
        self.aside.clear()
        self.room += aside
        count = len(self.messages)
        if count:
            size = sum(len(message.data) for message in self.messages)
            self.messages.clear()
            self.room += count
            self._inbox.removed(self, count, size)
        return count + aside

    def hold(self, before: TopicQueue) -> None:
        """No message of this queue is taken before the messages that `before` gets again (H-F20)."""
        self.held_by = (*self.held_by, before)
        if self.messages:
            self.aside.extend(self.messages)
            count, size = len(self.messages), sum(len(message.data) for message in self.messages)
            self.messages.clear()
            self._inbox.removed(self, count, size)

    def release(self, before: TopicQueue) -> None:
        """The queue `before` is done."""
        self.held_by = tuple(one for one in self.held_by if one is not before)
        if self.aside and not self.held_by:
            messages = list(self.aside)
            self.aside.clear()
            self._enqueue(messages, sum(len(message.data) for message in messages))

    def _enqueue(self, messages: list[Message[Any]], size: int) -> None:
        if not self.messages:
            self._inbox.queues_ready.append(self)
        self.messages.extend(messages)
        self._inbox.count += len(messages)
        self._inbox.size += size

    def remove(self, positions: set[tuple[int, int]]) -> None:
        """Discard queued messages of these entries: they were requested again."""
        kept_aside = [one for one in self.aside if (one._delivery.ledger, one._delivery.entry) not in positions]
        self.room += len(self.aside) - len(kept_aside)
        self.aside = deque(kept_aside)
        gone = [one for one in self.messages if (one._delivery.ledger, one._delivery.entry) in positions]
        if not gone:
            return
        if len(gone) == len(self.messages):
            self.clear()
        else:
            away = set(map(id, gone))
            kept = [message for message in self.messages if id(message) not in away]
            self.messages.clear()
            self.messages.extend(kept)
            self.room += len(gone)
            self._inbox.count -= len(gone)
            self._inbox.size -= sum(len(message.data) for message in gone)
        if self.room >= self._half:
            self.refill()

    def arrived(self, messages: list[Message[Any]], size: int, delivered: int) -> None:
        """Queue `messages`, out of `delivered` that the broker counted against the permits."""
        if self.dropped:
            return
        if messages:
            if self.held_by:
                self.aside.extend(messages)
            else:
                self._enqueue(messages, size)
            self._messages_seen += len(messages)
            self._size_seen += size
        skipped = delivered - len(messages)
        if skipped:
            self.room += skipped
            if self.room >= self._half:
                self.refill()

    def refill(self) -> None:
        """Request as many messages as there is room for."""
        if self.paused or not self.attached:
            return
        if self._inbox.size >= self._inbox.size_max or self._inbox.waiting:
            self._inbox.hold(self)
            return
        if self._messages_seen:
            self._grow()
        permits = min(self.room, FLOW_PERMITS_MAX)
        if permits > 0:
            self.room -= permits
            self._ask(permits)

    def has_room(self, size: int) -> bool:
        """Whether an entry of this size fits. An empty queue takes an entry above the bound, which else never fits."""
        return self._inbox.size == 0 or self._inbox.size + size <= self._inbox.size_max

    def wait(self) -> None:
        """An entry waits undecoded for room."""
        self._inbox.waiting[self] = None

    def waits_no_more(self) -> None:
        self._inbox.waits_no_more(self)

    def ask_one(self) -> None:
        """For a topic without a queue: a receive waits."""
        if self.queue_max == 0 and self.attached and not self.paused and self.room == 0:
            self.room = -1  # one message is requested; its room is returned when it is taken or skipped
            self._ask(1)

    def _grow(self) -> None:
        fits = self._inbox.size_max * self._messages_seen // (len(self._inbox.queues) * max(self._size_seen, 1))
        window = max(1, min(self.window * 2, fits, self.queue_max)) if self.queue_max else 0
        self.room += window - self.window
        self.window = window
        self._half = max(1, window // 2)
        if self._messages_seen > 100_000:  # give newer messages more weight
            self._messages_seen //= 2
            self._size_seen //= 2


class ReceiveQueue:
    """All topic queues of one consumer. `count` and `size` are the queued messages, in number and bytes."""

    __slots__ = ("_held", "count", "queues", "queues_ready", "size", "size_max", "waiting")

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max
        self.count = 0
        self.size = 0
        self.queues: list[TopicQueue] = []
        self.queues_ready: deque[TopicQueue] = deque()  # those with messages, in the order of their turns
        self.waiting: dict[TopicQueue, None] = {}  # those with entries that wait for room: then none requests more
        self._held: list[TopicQueue] = []

    def topic_queue(self, queue_max: int, ask: Callable[[int], None]) -> TopicQueue:
        queue = TopicQueue(self, queue_max, ask)
        self.queues.append(queue)
        return queue

    def drop(self, queue: TopicQueue) -> None:
        """The topic is closed: its queue holds no message from now on."""
        queue.dropped = True
        queue.detach()
        for other in self.queues:
            if queue in other.held_by:
                other.release(queue)
        if queue in self.queues:
            self.queues.remove(queue)
        if queue in self._held:
            self._held.remove(queue)
        self.waits_no_more(queue)

    def lost(self, queue: TopicQueue) -> None:
        """The topic's broker was lost: its redelivered messages come before everything behind this queue."""
        for other in self.queues:
            if other.attached and queue in other.behind and queue not in other.held_by:
                other.hold(queue)

    def take(self) -> Message[Any] | None:
        """The next message, None if the queue is empty."""
        ready = self.queues_ready
        if not ready:
            return None
        queue = ready[0]
        if queue.behind:
            queue = self._foremost(queue)
        messages = queue.messages
        message = messages.popleft()
        queue.last = message
        if not messages:
            ready.popleft()
        elif len(ready) > 1:
            ready.rotate(-1)
        self.count -= 1
        self.size -= len(message.data)
        queue.room += 1
        if queue.room >= queue._half:
            queue.refill()
        if (self._held or self.waiting) and self.size < self.size_max:
            self._release()
        return message

    def _foremost(self, queue: TopicQueue) -> TopicQueue:
        """The topic queue whose turn it is, or one before it that has messages."""
        while (before := next((one for one in queue.behind if one.messages), None)) is not None:
            queue = before
        ready = self.queues_ready
        if ready[0] is not queue:
            ready.remove(queue)
            ready.appendleft(queue)
        return queue

    def put_back(self, message: Message[Any], queue: TopicQueue) -> None:
        """Return a message that was taken and not handed over: it is the next one again."""
        queue.room -= 1
        if queue.held_by:
            queue.aside.appendleft(message)
            return
        if not queue.messages:
            self.queues_ready.appendleft(queue)
        elif self.queues_ready[0] is not queue:
            self.queues_ready.remove(queue)
            self.queues_ready.appendleft(queue)
        queue.messages.appendleft(message)
        self.count += 1
        self.size += len(message.data)

    @property
    def capacity(self) -> int:
        """The number of messages that can be queued now: waiting for more would never end."""
        return 0 if self.size >= self.size_max or self.waiting else max(1, sum(queue.window for queue in self.queues))

    def removed(self, queue: TopicQueue, count: int, size: int) -> None:
        self.count -= count
        self.size -= size
        self.queues_ready.remove(queue)
        if (self._held or self.waiting) and self.size < self.size_max:
            self._release()

    def hold(self, queue: TopicQueue) -> None:
        if queue not in self._held:
            self._held.append(queue)

    def waits_no_more(self, queue: TopicQueue) -> None:
        """The waiting entries of a topic were dropped: other topics may request again."""
        if queue in self.waiting:
            del self.waiting[queue]
            if self.size < self.size_max:
                self._release()

    def _release(self) -> None:
        for queue in list(self.waiting):
            if queue.reopen():
                self.waiting.pop(queue, None)
        if self.waiting:
            return
        held, self._held = self._held, []
        for queue in held:
            queue.refill()


def _nothing_waits() -> bool:
    return True
