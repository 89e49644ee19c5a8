"""The waits of this broker at one other broker, in one call at a time (`AwaitAny`).

A changed set of waits is sent immediately, and again after a short pause, so that the waits of one operation share
calls. The other broker answers the call before it then. Until that answer a third call waits, but not long: a broker
needs two connections for any number of waits. A call without an answer is sent again, which loses no result. If that
fails as well, all waits fail with its error, as calls of their own do. A wait that runs out of time ends as its owner
ends it: nothing has happened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from magnetar.base.errors import Busy, MagnetarError, NotReady, Unknown
from magnetar.base.limits import (
    CALL_RETRY_S_MIN,
    PEER_WAIT_CALLS_MAX,
    PEER_WAIT_GRACE_S,
    PEER_WAIT_PAUSE_S,
    PEER_WAIT_REPLACE_S,
    PEER_WAITS_MAX,
)
from magnetar.base.names import TopicName
from magnetar.broker.peers.wait_sync import CallerWaits
from magnetar.cluster.calls.wait_calls import AwaitAny, Happened, WaitRequest
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner, Runtime

log = get("peers")


class WaitClient:
    """`call` sends one call to the other broker, and raises the error of a call between brokers."""

    def __init__(
        self, runtime: Runtime, owner: Owner, process: str, call: Callable[[AwaitAny], Awaitable[Happened]]
    ) -> None:
        self._runtime = runtime
        self._owner = owner
        self._call = call
        self._waits = CallerWaits(process)
        self._futures: dict[int, asyncio.Future[msgspec.Raw]] = {}
        self._calls: dict[asyncio.Task[None], None] = {}  # in flight, the oldest first
        self._newest: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._sent_at = float("-inf")
        self._failures = 0  # in a row

    def __len__(self) -> int:
        return len(self._waits)

    @property
    def calls(self) -> int:
        """Calls in flight."""
        return len(self._calls)

    async def ask(self, name: TopicName, request: WaitRequest) -> msgspec.Raw | None:
        """The reply of the other broker; None: the time of the request is over, and the broker has not answered."""
        if len(self._waits) >= PEER_WAITS_MAX:
            raise Busy(f"more than {PEER_WAITS_MAX} calls wait at one broker: the request about {name} is not sent")
        id = self._waits.add(name, request)
        reply: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()
        self._futures[id] = reply
        self._send_soon()
        try:
            async with asyncio.timeout(request.wait_s + PEER_WAIT_GRACE_S):
                return await reply
        except TimeoutError:
            return None
        finally:
            del self._futures[id]
            self._waits.remove(id)
            self._send_soon()

    def _send_soon(self) -> None:
        self._send_at(self._sent_at + PEER_WAIT_PAUSE_S)

    def _send_at(self, time: float) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer_at <= time:
                return
            self._timer.cancel()
        self._timer_at = max(time, loop.time())
        self._timer = loop.call_at(self._timer_at, self._send)

    def _send(self) -> None:
        self._timer = None
        if self._waits.is_idle or (self._newest in self._calls and not self._waits.is_changed):
            return
        if self._owner.closed:
            self._fail(NotReady("the broker stops: the request was not sent"))
            return
        now = asyncio.get_running_loop().time()
        if len(self._calls) >= PEER_WAIT_CALLS_MAX:
            if now < self._sent_at + PEER_WAIT_REPLACE_S:
                self._send_at(self._sent_at + PEER_WAIT_REPLACE_S)
                return
            oldest = next(iter(self._calls))
            del self._calls[oldest]
            oldest.cancel()
        self._sent_at = now
        self._newest = task = self._runtime.spawn(self._owner, self._run(self._waits.call()))
        self._calls[task] = None
        task.add_done_callback(self._done)

    async def _run(self, call: AwaitAny) -> None:
        try:
            answer = await self._call(call)
        except MagnetarError as error:
            if asyncio.current_task() is self._newest:  # a newer call repeats the older one
                self._failed(error)
            return
        self._failures = 0
        for result in self._waits.answered(call, answer):
            future = self._futures.get(result.id)
            if future is not None and not future.done():
                future.set_result(result.reply)
                self._waits.remove(result.id)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._calls.pop(task, None)
        if self._owner.closed:
            self._fail(NotReady("the broker stops: the request was not sent"))
            return
        now = asyncio.get_running_loop().time()
        self._send_at(now + CALL_RETRY_S_MIN if self._failures else now)

    def _failed(self, error: MagnetarError) -> None:
        self._failures += 1
        if isinstance(error, Unknown) and self._failures == 1:
            log.info("wait_call_lost", error=str(error))
            self._waits.lost()
            return
        self._failures = 0
        self._fail(error)

    def _fail(self, error: MagnetarError) -> None:
        """Fails every wait. The calls that are still in flight are not believed any more."""
        calls, self._calls = self._calls, {}
        for task in calls:
            if task is not asyncio.current_task():
                task.cancel()
        self._waits.abandon()
        for future in self._futures.values():
            if not future.done():
                future.set_exception(error)
                future.exception()  # a cancelled caller does not ask for it
