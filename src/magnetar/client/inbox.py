"""Messages received and not yet taken: one lane for each topic, taken fairly, with bounds in messages and in bytes.

Decides only; `receive` waits and `part` talks to brokers. A lane gives its broker permits for as many messages as it
has room for, again when half of that is free. Its window starts small and doubles with use, as long as messages of the
size seen so far fit the inbox's bytes; nothing is asked for while the inbox is full. Messages of one lane keep their
order; lanes take turns. It trusts its user to report every message that a broker counts as delivered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from magnetar.base.limits import RECEIVER_WINDOW_MESSAGES_FIRST
from magnetar.client.message import Message


class Lane:
    """One topic's queue. `ask(permits)` sends them to its broker."""

    __slots__ = (
        "_ask",
        "_half",
        "_inbox",
        "_messages_seen",
        "_size_seen",
        "attached",
        "last",
        "paused",
        "queue",
        "queue_max",
        "room",
        "window",
    )

    def __init__(self, inbox: Inbox, queue_max: int, ask: Callable[[int], None]) -> None:
        self.queue: deque[Message[Any]] = deque()
        self.queue_max = queue_max  # 0: nothing is asked for ahead of a waiting receive
        self.window = min(queue_max, RECEIVER_WINDOW_MESSAGES_FIRST)
        self.room = 0  # messages of the window neither asked for nor queued
        self.attached = False
        self.paused = False
        self.last: Message[Any] | None = None  # taken most recently
        self._inbox = inbox
        self._ask = ask
        self._half = max(1, self.window // 2)
        self._messages_seen = 0
        self._size_seen = 0

    def attach(self) -> None:
        """A broker is there and has no permits yet: whatever was queued from another one was put away."""
        self.attached = True
        self.room = self.window - len(self.queue)
        self.refill()

    def detach(self) -> None:
        """The broker is gone, and will deliver again what is queued: put it away."""
        self.attached = False
        self.clear()

    def clear(self) -> int:
        count = len(self.queue)
        if count:
            size = sum(len(message.data) for message in self.queue)
            self.queue.clear()
            self.room += count
            self._inbox.removed(self, count, size)
        return count

    def remove(self, positions: set[tuple[int, int]]) -> None:
        """Put away what is queued of these entries: it was asked for again."""
        gone = [message for message in self.queue if (message._delivery.ledger, message._delivery.entry) in positions]
        if not gone:
            return
        if len(gone) == len(self.queue):
            self.clear()
        else:
            away = set(map(id, gone))
            kept = [message for message in self.queue if id(message) not in away]
            self.queue.clear()
            self.queue.extend(kept)
            self.room += len(gone)
            self._inbox.count -= len(gone)
            self._inbox.size -= sum(len(message.data) for message in gone)
        if self.room >= self._half:
            self.refill()

    def arrived(self, messages: list[Message[Any]], size: int, delivered: int) -> None:
        """`messages` to queue out of `delivered` that the broker counted against the permits."""
        if messages:
            if not self.queue:
                self._inbox.lanes_ready.append(self)
            self.queue.extend(messages)
            self._inbox.count += len(messages)
            self._inbox.size += size
            self._messages_seen += len(messages)
            self._size_seen += size
        skipped = delivered - len(messages)
        if skipped:
            self.room += skipped
            if self.room >= self._half:
                self.refill()

    def refill(self) -> None:
        """Ask for as many messages as there is room for."""
        if self.paused or not self.attached:
            return
        if self._inbox.size >= self._inbox.size_max:
            self._inbox.hold(self)
            return
        if self._messages_seen:
            self._grow()
        permits = self.room
        if permits > 0:
            self.room = 0
            self._ask(permits)

    def ask_one(self) -> None:
        """For a lane without a queue: a receive waits."""
        if self.queue_max == 0 and self.attached and not self.paused and self.room == 0:
            self.room = -1  # one is on its way; taken or skipped, it is given back
            self._ask(1)

    def _grow(self) -> None:
        fits = self._inbox.size_max * self._messages_seen // (len(self._inbox.lanes) * max(self._size_seen, 1))
        window = max(1, min(self.window * 2, fits, self.queue_max)) if self.queue_max else 0
        self.room += window - self.window
        self.window = window
        self._half = max(1, window // 2)
        if self._messages_seen > 100_000:  # newer messages count for more
            self._messages_seen //= 2
            self._size_seen //= 2


class Inbox:
    """All lanes of one consumer. `count` and `size` are what is queued, in messages and in bytes."""

    __slots__ = ("_held", "count", "lanes", "lanes_ready", "size", "size_max")

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max
        self.count = 0
        self.size = 0
        self.lanes: list[Lane] = []
        self.lanes_ready: deque[Lane] = deque()  # those with messages, in the order of their turns
        self._held: list[Lane] = []

    def lane(self, queue_max: int, ask: Callable[[int], None]) -> Lane:
        lane = Lane(self, queue_max, ask)
        self.lanes.append(lane)
        return lane

    def drop(self, lane: Lane) -> None:
        """The lane's topic is gone."""
        lane.detach()
        if lane in self.lanes:
            self.lanes.remove(lane)
        if lane in self._held:
            self._held.remove(lane)

    def take(self) -> Message[Any] | None:
        """The next message, None if there is none."""
        ready = self.lanes_ready
        if not ready:
            return None
        lane = ready[0]
        queue = lane.queue
        message = queue.popleft()
        lane.last = message
        if not queue:
            ready.popleft()
        elif len(ready) > 1:
            ready.rotate(-1)
        self.count -= 1
        self.size -= len(message.data)
        lane.room += 1
        if lane.room >= lane._half:
            lane.refill()
        if self._held and self.size < self.size_max:
            self._release()
        return message

    def put_back(self, message: Message[Any], lane: Lane) -> None:
        """A message taken and not handed over: it is the next one again."""
        if not lane.queue:
            self.lanes_ready.appendleft(lane)
        elif self.lanes_ready[0] is not lane:
            self.lanes_ready.remove(lane)
            self.lanes_ready.appendleft(lane)
        lane.queue.appendleft(message)
        lane.room -= 1
        self.count += 1
        self.size += len(message.data)

    @property
    def capacity(self) -> int:
        """How many messages may be here at once, as things are: no use in waiting for more."""
        return 0 if self.size >= self.size_max else max(1, sum(lane.window for lane in self.lanes))

    def removed(self, lane: Lane, count: int, size: int) -> None:
        self.count -= count
        self.size -= size
        self.lanes_ready.remove(lane)
        if self._held and self.size < self.size_max:
            self._release()

    def hold(self, lane: Lane) -> None:
        if lane not in self._held:
            self._held.append(lane)

    def _release(self) -> None:
        held, self._held = self._held, []
        for lane in held:
            lane.refill()
