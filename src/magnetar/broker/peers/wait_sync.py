"""The two ends of `AwaitAny` as deciders: the waits of a caller, and the same waits at the receiver.

A call contains the changes since the newest call that the receiver has confirmed, so a lost, late or repeated call does
no harm. A receiver that does not have the state that the changes are relative to, for example after its restart, says
so, and the next call contains all waits. Nothing here waits, sends or runs a request; `wait_client.py` and
`wait_server.py` do.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from magnetar.base.names import TopicName
from magnetar.cluster.calls.wait_calls import AwaitAny, Happened, Wait, WaitRequest, WaitResult


class CallerWaits:
    """The waits of this broker at one other broker."""

    def __init__(self, process: str) -> None:
        self._process = process
        self._waits: dict[int, Wait] = {}
        self._confirmed = 0  # the newest call that the receiver has certainly applied; 0: none, it gets all waits
        self._number = 0  # of the newest call
        self._last_id = 0
        # Ids that the receiver may not know to be added or removed, with the first call that said so; 0: none has.
        self._added: dict[int, int] = {}
        self._removed: dict[int, int] = {}
        self.is_changed = False  # since the newest call

    def __len__(self) -> int:
        return len(self._waits)

    @property
    def is_idle(self) -> bool:
        """Whether no call is necessary: nothing waits, and the receiver keeps nothing."""
        return not self._waits and not self._removed

    def add(self, name: TopicName, request: WaitRequest) -> int:
        self._last_id += 1
        self._waits[self._last_id] = Wait(self._last_id, str(name), request)
        self._added[self._last_id] = 0
        self.is_changed = True
        return self._last_id

    def remove(self, id: int) -> None:
        """The wait has its result, or is not needed."""
        if self._waits.pop(id, None) is not None and self._added.pop(id, -1) != 0:
            self._removed[id] = 0  # a call has named it: the receiver may have it
            self.is_changed = True

    def call(self) -> AwaitAny:
        """The next call to send."""
        self._number += 1
        self.is_changed = False
        for changes in (self._added, self._removed):
            for id, number in changes.items():
                changes[id] = number or self._number
        added = self._added if self._confirmed else self._waits
        return AwaitAny(
            process=self._process,
            number=self._number,
            base=self._confirmed,
            added=tuple(self._waits[id] for id in added),
            removed=tuple(self._removed) if self._confirmed else (),
        )

    def answered(self, call: AwaitAny, answer: Happened) -> list[WaitResult]:
        """The results that are new. Answers may come in any order."""
        if answer.known:
            self._confirm(call.number)
        elif call.base and call.base == self._confirmed:
            self.reset()
        return [result for result in answer.results if result.id in self._waits]

    def lost(self) -> None:
        """The newest call has no answer: the next one repeats its changes."""
        self.is_changed = True

    def reset(self) -> None:
        """The receiver may have lost the waits: the next call contains all of them."""
        self._confirmed = 0
        self._added = dict.fromkeys(self._waits, 0)
        self.is_changed = True

    def abandon(self) -> None:
        """No call is in flight and the receiver is not reached: it forgets the removed waits by itself."""
        self.reset()
        self._removed.clear()
        self.is_changed = False

    def _confirm(self, number: int) -> None:
        if number <= self._confirmed:
            return
        self._confirmed = number
        self._added = _after(number, self._added)
        self._removed = _after(number, self._removed)

    def validate(self) -> None:
        assert self._confirmed <= self._number
        assert not self._removed.keys() & self._waits.keys()
        assert self._added.keys() <= self._waits.keys()


class ReceivedWaits:
    """The waits of one calling process at this broker."""

    def __init__(self) -> None:
        self.number = 0  # of the newest call
        self._running: dict[int, None] = {}
        self._results: dict[int, WaitResult] = {}

    def __len__(self) -> int:
        return len(self._running) + len(self._results)

    @property
    def results(self) -> tuple[WaitResult, ...]:
        return tuple(self._results.values())

    @property
    def running(self) -> tuple[int, ...]:
        return tuple(self._running)

    def apply(self, call: AwaitAny) -> tuple[list[Wait], list[int]] | None:
        """The waits to start, and the ids of those to cancel. None: the changes are relative to an unknown state."""
        if self.number < call.base:
            return None
        if call.number <= self.number:
            return [], []  # a newer call has said all of this
        self.number = call.number
        removed = call.removed
        if not call.base:
            present = {wait.id for wait in call.added}
            removed = tuple(id for id in (*self._running, *self._results) if id not in present)
        cancelled = [id for id in removed if id in self._running]
        self._drop(removed)
        started = [wait for wait in call.added if wait.id not in self._running and wait.id not in self._results]
        self._running.update(dict.fromkeys(wait.id for wait in started))
        return started, cancelled

    def ended(self, id: int, reply: msgspec.Raw) -> None:
        if id in self._running:
            del self._running[id]
            self._results[id] = WaitResult(id, reply)

    def _drop(self, ids: Iterable[int]) -> None:
        for id in ids:
            self._running.pop(id, None)
            self._results.pop(id, None)

    def validate(self) -> None:
        assert not self._running.keys() & self._results.keys()


def _after(number: int, changes: dict[int, int]) -> dict[int, int]:
    """The changes that the call of this number does not contain."""
    return {id: first for id, first in changes.items() if not 0 < first <= number}
