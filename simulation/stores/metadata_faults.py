"""The fault rates of the metadata store, and one handle's view of it: a lagging follower, late events.

`FaultRates` is data: probabilities and bounds in virtual seconds, all off by default. A world changes the fields while
it runs and calls `clear` to heal. `ChangeFeed` is one handle's side of the stream of changes. It keeps the promises of
every engine: the follower never goes back; an event never arrives before its change can be read; events of one path
keep their order; several may become one (the last); after a cut a RESYNC stands for the missed events.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections import Counter, deque
from dataclasses import dataclass, fields

from magnetar.metadata.listeners import Listeners
from magnetar.metadata.path_checks import ROOT
from magnetar.metadata.store import Change, Event
from simulation.stores.metadata_tree import Record, RecordTree


@dataclass(slots=True)
class FaultRates:
    """Probabilities are per operation or event; seconds are upper bounds of what is drawn. Default: a perfect store."""

    delay_s: float = 0.0  # of an operation, each way
    watch_s: float = 0.0  # until an event is heard
    coalesce: float = 0.0  # an event takes the place of one of its path that still waits
    stale: float = 0.0  # a read is answered by a follower that is behind ...
    lag_s: float = 2.0  # ... by no more than this
    lost_applied: float = 0.0  # a write happens, its answer is lost
    lost_dropped: float = 0.0  # a write (or a read) and its answer are lost
    late: float = 0.0  # of the writes lost or cut off in flight: they happen after the caller got its error ...
    late_s: float = 0.5  # ... within this time
    lost_s: float = 0.2  # until the caller of an operation without an answer gets the error
    disconnect: float = 0.0  # the connection breaks under an operation ...
    unnoticed: float = 0.5  # ... and of those and of outages this share is noticed only after up to ...
    notice_s: float = 1.0
    away_s: float = 1.0  # until it is back by itself
    expire: float = 0.0  # the session ends at an operation, and its owner is notified
    expire_untold: float = 0.0  # the session ends at an operation, and its owner learns it only ...
    learn_s: float = 2.0  # ... within this time
    session_s: float = 10.0  # how long a session outlives its connection

    def clear(self) -> None:
        """Sets all rates to zero; faults in progress end within their bounds."""
        for each in fields(self):
            if each.name not in _BOUNDS:
                setattr(self, each.name, 0.0)

    @property
    def is_perfect(self) -> bool:
        """Whether operations are quick and certain."""
        return not (
            self.delay_s
            or self.lost_applied
            or self.lost_dropped
            or self.disconnect
            or self.expire
            or self.expire_untold
        )


_BOUNDS = {"lag_s", "late_s", "lost_s", "notice_s", "away_s", "learn_s", "session_s", "unnoticed"}


@dataclass(slots=True)
class StoreChange:
    """One change of the store, numbered."""

    number: int
    path: str
    record: Record | None
    events: list[Event]
    at_s: float = 0.0


@dataclass(slots=True)
class PendingEvent:
    event: Event
    number: int


class ChangeFeed:
    """One handle's view of the store's changes. A follower that has delivered an event has applied its change, so reads
    are stale only without listeners or with late events (`watch_s`)."""

    def __init__(
        self,
        tree: RecordTree,
        fault_rates: FaultRates,
        rng: random.Random,
        counts: Counter[str],
        listeners: Listeners,
    ) -> None:
        self._tree = tree
        self._fault_rates = fault_rates
        self._rng = rng
        self._counts = counts
        self._listeners = listeners
        self._follower: RecordTree | None = None
        self._behind: deque[StoreChange] = deque()
        self._waiting: dict[str, deque[PendingEvent]] = {}
        self._cut = False
        self._context = contextvars.copy_context()  # whose listeners these are: a host's, where there are several

    def changed(self, steps: list[StoreChange]) -> None:
        """The store has changed; called before the writer's answer leaves."""
        for step in steps:
            if self._follower is not None:
                step.at_s = asyncio.get_running_loop().time()
                self._behind.append(step)
            if not self._cut:
                self._announce(step)

    def read(self) -> RecordTree:
        """The tree that the next read is answered from."""
        if self._follower is None:
            if not self._fault_rates.stale:
                return self._tree
            self._follower = self._tree.copy()
            return self._follower
        oldest = asyncio.get_running_loop().time() - self._fault_rates.lag_s
        while self._behind and self._behind[0].at_s <= oldest:
            self._follow()
        if not self._behind:
            return self._follower
        if not self._fault_rates.stale or self._rng.random() >= self._fault_rates.stale:
            self.catch_up()
        else:
            self._counts["stale reads"] += 1
            for _ in range(self._rng.randrange(len(self._behind))):
                self._follow()
        return self._follower

    def catch_up(self) -> None:
        """The handle reads nothing older than its own changes and requests."""
        while self._behind:
            self._follow()

    def cut(self) -> None:
        """No event arrives any more; waiting ones are lost."""
        self._cut = True
        self._waiting.clear()

    def join(self) -> None:
        """Events arrive again, from a follower that may be another one: RESYNC for the changes that it has applied,
        then events."""
        if not self._cut:
            return
        self._cut = False
        keep = self._rng.randint(0, len(self._behind)) if self._fault_rates.stale and self._behind else 0
        while len(self._behind) > keep:
            self._follow()
        self._counts["resyncs"] += 1
        self._tell_here([Event(Change.RESYNC, ROOT)])
        for step in list(self._behind):
            self._announce(step)

    def _announce(self, step: StoreChange) -> None:
        if not self._fault_rates.watch_s and not self._waiting:
            if any(self._listeners.hears(event.path) for event in step.events):
                self._catch_up_to(step.number)
                self._tell_here(step.events)
            return
        for event in step.events:
            if self._listeners.hears(event.path):
                self._queue(event, step.number)

    def _queue(self, event: Event, number: int) -> None:
        """Keeps the order of its path: the first timer that fires takes the oldest event."""
        queue = self._waiting.setdefault(event.path, deque())
        if queue and self._fault_rates.coalesce and self._rng.random() < self._fault_rates.coalesce:
            last = queue[-1]
            if (last.event.change is Change.CHILDREN_CHANGED) == (event.change is Change.CHILDREN_CHANGED):
                last.event, last.number = event, number
                self._counts["events coalesced"] += 1
                return
        self._counts["events late"] += 1
        queue.append(PendingEvent(event, number))
        delay_s = self._rng.uniform(0, self._fault_rates.watch_s)
        asyncio.get_running_loop().call_later(delay_s, self._ring, event.path, context=self._context)

    def _ring(self, path: str) -> None:
        queue = self._waiting.get(path)
        if not queue:
            return  # a cut took it
        first = queue.popleft()
        if not queue:
            del self._waiting[path]
        self._catch_up_to(first.number)
        self._listeners.tell([first.event])

    def _tell_here(self, events: list[Event]) -> None:
        """Notifies in the handle's own context, for a change by any handle."""
        if events:
            self._context.copy().run(self._listeners.tell, events)

    def _catch_up_to(self, number: int) -> None:
        while self._behind and self._behind[0].number <= number:
            self._follow()

    def _follow(self) -> None:
        assert self._follower is not None
        step = self._behind.popleft()
        self._follower.set(step.path, step.record)
