"""Queues between the threads of a blocking client and its loop: an inbox for items from threads, an outbox for items to
threads.

Waking the loop's thread costs as much as tens of messages, so both avoid it. An inbox wakes the loop once for all items
before its next look; with patience, the loop looks again by itself for a while. A thread that waits at an outbox is
woken by new items and sends no request to the loop. Both keep order. They trust the loop's side to run on the loop.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

from magnetar.runtime.portal import Portal

T = TypeVar("T")


class LoopInbox(Generic[T]):
    """Items from any thread, taken on the loop in order, many at a time. `put` waits while the inbox is full. The loop
    is woken once for all items that arrive before its look. With `patience_s`, only the first item wakes it. The loop
    then looks again after this time, until a look finds no item; `hurry_items` items wake it early.
    """

    def __init__(
        self,
        portal: Portal,
        taken: Callable[[], None],
        items_max: int,
        *,
        patience_s: float = 0.0,
        hurry_items: int = 0,
    ) -> None:
        self._portal = portal
        self._taken = taken
        self._items_max = items_max
        self._patience_s = patience_s
        self._hurry_items = min(hurry_items or items_max, items_max)
        self._items: deque[T] = deque()
        self._woken = False  # also set while the next look is scheduled
        self._hurried = False
        self._timer: asyncio.TimerHandle | None = None
        self._room = threading.Condition()
        self._waiting = 0

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: T) -> None:
        self._items.append(item)
        if not self._woken:
            self._woken = True
            self._portal.tell(self._look)
        elif len(self._items) >= self._hurry_items and not self._hurried:
            self._hurried = True
            self._portal.tell(self._look)
        if len(self._items) >= self._items_max:
            self._wait_for_room()

    def take(self) -> T | None:
        """The oldest item, or None. On the loop."""
        try:
            item = self._items.popleft()
        except IndexError:
            return None
        if self._waiting and len(self._items) <= self._items_max // 2:
            with self._room:
                self._room.notify_all()
        return item

    def _look(self) -> None:
        self._hurried = False
        if self._timer is None:
            self._woken = False  # reset before the look: later items wake the loop again
        self._taken()
        if self._patience_s and self._timer is None:
            self._woken = True  # items since the look have woken the loop, or the next look finds them
            self._timer = asyncio.get_running_loop().call_later(self._patience_s, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        self._woken = False
        if self._items:
            self._look()

    def _wait_for_room(self) -> None:
        with self._room:
            self._waiting += 1
            try:
                self._room.wait_for(lambda: len(self._items) <= self._items_max // 2)
            finally:
                self._waiting -= 1


class ThreadOutbox(Generic[T]):
    """Items that the loop puts and threads take. `ready` is callable from any thread and says whether the loop has
    items that are not in the outbox yet, or has ended.

    Items are not assigned to a particular thread: a woken thread takes them itself. So an interrupted wait has taken no
    item, and passes its wake-up on.
    """

    def __init__(self, portal: Portal, ready: Callable[[], bool]) -> None:
        self.items: deque[T] = deque()
        self._pop: Callable[[], T] = self.items.popleft
        self._portal = portal
        self._ready = ready
        self._waiters: deque[threading.Lock] = deque()

    def __len__(self) -> int:
        return len(self.items)

    @property
    def waiting(self) -> bool:
        return bool(self._waiters)

    def put(self, items: Sequence[T]) -> None:
        """On the loop."""
        self.items.extend(items)
        self._wake(len(items), self._portal.wake)

    def wake_all(self) -> None:
        """On the loop: call it after the result of `ready` has changed."""
        self._wake(len(self._waiters), self._portal.wake)

    def take(self, timeout_s: float | None, fetch: Callable[[float | None], None]) -> T | None:
        """The oldest item; None if no item arrived in time. `fetch(timeout_s)` makes the loop put the `ready` items, or
        raises.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            while True:
                try:
                    return self._pop()
                except IndexError:  # also if another thread was faster
                    left_s = None if deadline is None else deadline - time.monotonic()
                if self._ready():
                    fetch(None if left_s is None else max(left_s, 0.0))
                elif not self._wait(left_s):
                    return self._last()
        except BaseException:
            if self.items:
                self._wake(1, _release)
            raise

    def take_some(self, items_max: int) -> list[T]:
        """The current items, at most `items_max`."""
        items: list[T] = []
        try:
            while len(items) < items_max:
                items.append(self._pop())
        except IndexError:  # the outbox is empty, or another thread was faster
            pass
        return items

    def _last(self) -> T | None:
        try:
            return self._pop()
        except IndexError:
            return None

    def _wait(self, timeout_s: float | None) -> bool:
        if timeout_s is not None and timeout_s <= 0:
            return False
        waiter = threading.Lock()
        waiter.acquire()
        try:
            self._waiters.append(waiter)
            if self.items or self._ready():  # it arrived before this thread was registered as waiting
                return True
            return waiter.acquire(timeout=-1 if timeout_s is None else timeout_s)
        finally:
            try:
                self._waiters.remove(waiter)
            except ValueError:
                pass  # woken, or interrupted before it was registered

    def _wake(self, count: int, wake: Callable[[threading.Lock], None]) -> None:
        for _ in range(count):
            try:
                waiter = self._waiters.popleft()
            except IndexError:
                return
            wake(waiter)


class PullOutbox(ThreadOutbox[T]):
    """An outbox that is filled only on request: one thread at a time asks the loop, the others wait for its items. With
    two askers, one could wait on the loop while its item is already here.
    """

    def __init__(self, portal: Portal) -> None:
        super().__init__(portal, self._nobody_asks)
        self._asking = threading.Lock()

    def take(self, timeout_s: float | None, fetch: Callable[[float | None], None]) -> T | None:
        return super().take(timeout_s, partial(self._pull, fetch))

    def _nobody_asks(self) -> bool:
        return not self._asking.locked()

    def _pull(self, fetch: Callable[[float | None], None], timeout_s: float | None) -> None:
        if not self._asking.acquire(blocking=False):
            return
        try:
            fetch(timeout_s)
        finally:
            self._asking.release()
            self._wake(1, _release)  # a waiting thread asks next


class CountedOutbox(PullOutbox[T]):
    """An outbox that records the items that threads have taken, in order, until the loop asks. At every moment, an item
    is either in the outbox or recorded as taken. So threads take no item that the loop has dropped, and the loop learns
    of every taken item.
    """

    def __init__(self, portal: Portal) -> None:
        super().__init__(portal)
        self._counted: deque[T] = deque()
        self._moving = threading.Lock()
        self._pop = self._pop_counted

    def taken(self) -> list[T]:
        """The items that threads have taken since the last call. On the loop."""
        with self._moving:
            items = list(self._counted)
            self._counted.clear()
        return items

    def drop(self, gone: Callable[[T], bool]) -> None:
        """On the loop."""
        with self._moving:
            kept = [item for item in self.items if not gone(item)]
            self.items.clear()
            self.items.extend(kept)

    def _pop_counted(self) -> T:
        with self._moving:
            item = self.items.popleft()
            self._counted.append(item)
        return item


def _release(waiter: threading.Lock) -> None:
    waiter.release()
