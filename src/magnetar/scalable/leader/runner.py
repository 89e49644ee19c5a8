"""Drives one machine to its end: its calls go out together, and their answers come back one by one.

The machine decides; this module waits. The machine hears of a call with an unknown outcome after a delay that grows
with each failure, so that retries cost little. Tasks belong to the owner of the operation: when a term ends, they end
with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

from magnetar.base.limits import CALL_RETRY_S_MAX, CALL_RETRY_S_MIN, CALLS_AT_ONCE_MAX
from magnetar.runtime.runtime import Owner, Runtime
from magnetar.scalable.machines.effects import Call, CallLost, Effect, Event, Finished, StepDown


class Machine(Protocol):
    @property
    def phase(self) -> Any: ...


M = TypeVar("M", bound=Machine)


class MachineRunner(Generic[M]):
    """`perform` makes a call and returns its event; `moved` is called at every step with state before, event, after."""

    def __init__(
        self,
        runtime: Runtime,
        owner: Owner,
        *,
        step: Callable[[M, Event], tuple[M, tuple[Effect, ...]]],
        perform: Callable[[M, Call], Awaitable[Event]],
        moved: Callable[[M, Event, M], None] | None = None,
    ) -> None:
        self._runtime = runtime
        self._owner = owner
        self._step = step
        self._perform = perform
        self._moved = moved
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._room = asyncio.Semaphore(CALLS_AT_ONCE_MAX)
        self._retry_s = CALL_RETRY_S_MIN

    async def run(self, state: M, effects: tuple[Effect, ...]) -> tuple[M, Finished | StepDown]:
        """Until the machine answers, or says that its term is over."""
        while True:
            for effect in effects:
                if isinstance(effect, Finished | StepDown):
                    return state, effect
                self._runtime.spawn(self._owner, self._call(state, effect))
            event = await self._events.get()
            before = state
            state, effects = self._step(before, event)
            if self._moved is not None:
                self._moved(before, event, state)

    async def _call(self, state: M, call: Call) -> None:
        async with self._room:
            event = await self._perform(state, call)
        if isinstance(event, CallLost):
            wait_s, self._retry_s = self._retry_s, min(2 * self._retry_s, CALL_RETRY_S_MAX)
            await asyncio.sleep(wait_s)
        else:
            self._retry_s = CALL_RETRY_S_MIN
        self._events.put_nowait(event)
