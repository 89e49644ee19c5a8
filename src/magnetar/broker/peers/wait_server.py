"""The waits of other brokers at this broker: each runs once, and one call of each caller is answered for all of them.

The waits of a caller are kept under the token of its process. They run between its calls, and end when a call removes
them or when the caller stays away. An answer contains every result that the caller has not removed. The table is
bounded in callers and in the waits of each; the caller of a wait repeats it where it is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from magnetar.base.errors import Busy, NotReady
from magnetar.base.limits import (
    PEER_CALLERS_MAX,
    PEER_WAIT_AWAY_S,
    PEER_WAIT_CALL_S,
    PEER_WAITS_MAX,
)
from magnetar.broker.peers.wait_sync import ReceivedWaits
from magnetar.cluster.calls.wait_calls import AwaitAny, Happened, Wait
from magnetar.runtime.runtime import Owner, Runtime

Run = Callable[[Wait], Awaitable[msgspec.Raw]]


class WaitServer:
    """By the token of the calling process."""

    def __init__(self, runtime: Runtime, owner: Owner) -> None:
        self._runtime = runtime
        self._owner = owner
        self._callers: dict[str, Caller] = {}

    def __len__(self) -> int:
        """Waits of all callers."""
        return sum(len(caller.waits) for caller in self._callers.values())

    async def answer(self, call: AwaitAny, run: Run) -> Happened:
        """`run` answers one wait, and raises nothing. Busy: the table is full."""
        if self._owner.closed:
            raise NotReady("the broker stops: ask the next owner of the topic")
        caller = self._callers.get(call.process)
        if caller is None:
            if call.base:
                return Happened(known=False)
            if len(self._callers) >= PEER_CALLERS_MAX:
                raise Busy(f"more than {PEER_CALLERS_MAX} brokers wait at this one")
            caller = self._callers[call.process] = Caller()
        try:
            return await caller.answer(call, lambda wait: self._start(caller, wait, run))
        finally:
            if not caller.calls and caller.away is None:
                caller.away = asyncio.get_running_loop().call_later(PEER_WAIT_AWAY_S, self._forget, call.process)

    def _start(self, caller: Caller, wait: Wait, run: Run) -> asyncio.Task[None]:
        return self._runtime.spawn(self._owner, caller.run(wait, run))

    def _forget(self, process: str) -> None:
        for task in self._callers.pop(process).tasks.values():
            task.cancel()


class Caller:
    """One process that waits here."""

    def __init__(self) -> None:
        self.waits = ReceivedWaits()
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self.calls = 0  # being answered: a newer one ends those before it
        self.away: asyncio.TimerHandle | None = None  # without a call
        self._changed = asyncio.Event()

    async def answer(self, call: AwaitAny, start: Callable[[Wait], asyncio.Task[None]]) -> Happened:
        if len(self.waits) + len(call.added) > 2 * PEER_WAITS_MAX:  # the old set and the new one, at most
            raise Busy(f"more than {PEER_WAITS_MAX} waits of one broker")
        changes = self.waits.apply(call)
        if changes is None:
            return Happened(known=False)
        started, cancelled = changes
        for id in cancelled:
            self.tasks.pop(id).cancel()
        for wait in started:
            self.tasks[wait.id] = start(wait)
        if self.away is not None:
            self.away.cancel()
            self.away = None
        self.calls += 1
        self._changed.set()  # for an older call, which this one replaces
        try:
            async with asyncio.timeout(PEER_WAIT_CALL_S):
                while self.waits.number == call.number and len(self.waits) and not self.waits.results:
                    self._changed.clear()
                    await self._changed.wait()
            await asyncio.sleep(0)  # the waits of one operation end together
        except TimeoutError:
            pass
        finally:
            self.calls -= 1
        return Happened(self.waits.results)

    async def run(self, wait: Wait, run: Run) -> None:
        reply = await run(wait)
        self.tasks.pop(wait.id, None)
        self.waits.ended(wait.id, reply)
        self._changed.set()
