"""`broker()` and its results: a `Broker` with blocking methods, or in `async with` an `AsyncBroker` with awaited
methods.

Both are thin wrappers of a `BrokerHost`. The broker runs in its own thread, so a test may block or run a loop. Several
brokers can run at the same time without shared state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from magnetar.base.errors import Misuse
from magnetar.base.limits import TESTING_POLL_S, TESTING_WAIT_S
from magnetar.runtime.bounded_call import wall_s
from magnetar.runtime.pause import pause
from magnetar.testing.host import BrokerHost

if TYPE_CHECKING:
    from magnetar.client.message import Message

P = ParamSpec("P")
T = TypeVar("T")
Lost = Literal["message", "receipt"]


def broker(
    settings: Mapping[str, object] | None = None,
    *,
    data: str | PathLike[str] | None = None,
    fast: bool = False,
    clock: bool = False,
    **more: object,
) -> Opening:
    """A broker for the duration of a `with` or `async with` block.

    Parameters ---------- settings, more
        Settings by their names in Pulsar's standalone.conf, as a mapping or as keywords:
        `broker(brokerDeduplicationEnabled=True)`. Default for ports: free ones. data
        Directory for its data, which is kept afterwards. Default: a temporary one, removed with the block. fast
        Keep the temporary directory in memory if possible (/dev/shm), so that a sync costs nothing: useful on a slow
        disk. Acknowledged messages survive `kill` and `restart`, as always. clock
        Give the broker a clock that the test moves: `b.clock.advance(3600)`.
    """
    return Opening({**(settings or {}), **more}, data=data, fast=fast, clock=clock)


class _Seen:
    """Properties of both kinds that need no waiting."""

    def __init__(self, host: BrokerHost, namespace: str = "public/default") -> None:
        self._host = host
        self.namespace = namespace

    def __repr__(self) -> str:
        where = self.url if self.running else "not running"
        return f"<magnetar.testing.{type(self).__name__} {where}, namespace {self.namespace}>"

    @property
    def url(self) -> str:
        """URL for clients: pulsar://127.0.0.1:PORT, unchanged by restarts."""
        return self._host.url

    @property
    def admin_url(self) -> str:
        """URL of the REST interface and the metrics: http://127.0.0.1:PORT."""
        return self._host.admin_url

    @property
    def data(self) -> Path:
        return self._host.data

    @property
    def running(self) -> bool:
        return self._host.running

    def topic(self, name: str, *, persistent: bool = True) -> str:
        return f"{'persistent' if persistent else 'non-persistent'}://{self.namespace}/{name}"

    # Faults

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pauses the broker, as SIGSTOP does: connections stay open, and the broker sends no answer. No other method
        may be called in the block.
        """
        self._host.pause()
        try:
            yield
        finally:
            self._host.resume()

    @contextmanager
    def slow(self, delay_s: float) -> Iterator[None]:
        """Delays all data from clients by this time, in order. REST is not delayed."""
        if not delay_s > 0:
            raise Misuse("delay_s must be more than 0", delay_s=delay_s)
        faults = self._host.faults
        faults.delay_s = delay_s
        try:
            yield
        finally:
            faults.delay_s = 0.0

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """Fills the disk: publishes are not acknowledged, and the broker may stop, as on a real full disk. If `running`
        is False after the block, `restart` starts it again with all acknowledged messages.
        """
        faults = self._host.faults
        faults.disk_full = True
        try:
            yield
        finally:
            faults.disk_full = False

    def lose_next(self, what: Lost) -> None:
        """Cuts the connection of the next client that sends. "message": before the broker stores the message, so that
        the client sends it again. "receipt": after it was stored and before the client gets the receipt. The client
        then sends a stored message again, and only deduplication removes the duplicate.
        """
        if what not in ("message", "receipt"):
            raise Misuse("lose_next expects 'message' or 'receipt'", given=what)
        self._host.faults.lose = what


class Clock:
    """The time of a broker made with `clock=True`: the machine's time plus an offset."""

    def __init__(self, host: BrokerHost) -> None:
        self._host = host

    def advance(self, seconds: float) -> None:
        """Moves the broker's time forward. Everything due by then happens now, such as delayed messages, retention and
        the expiry of holds. Clients keep the machine's time.
        """
        self._host.advance(seconds).result(TESTING_WAIT_S)


class AsyncClock:
    """A `Clock` for `async with`."""

    def __init__(self, host: BrokerHost) -> None:
        self._host = host

    async def advance(self, seconds: float) -> None:
        await asyncio.wrap_future(self._host.advance(seconds))


class Broker(_Seen):
    """A running broker. `namespace` belongs to this test alone; `topic("orders")` is a complete name in it."""

    @property
    def clock(self) -> Clock:
        return Clock(self._host)

    # Topics and what is in them

    def scalable(self, name: str, *, segments: int = 1) -> str:
        """Creates a scalable topic in the namespace and returns its complete name."""
        topic = f"topic://{self.namespace}/{name}"
        from magnetar.testing import inspection

        self._ask(inspection.create_scalable, self.admin_url, topic, segments)
        return topic

    def split(self, topic: str, segment: int = 0) -> list[int]:
        """Splits a segment of a scalable topic. Waits for the end and returns the ids of the new segments."""
        from magnetar.testing import inspection

        return self._ask(inspection.split, self.admin_url, topic, segment)

    def merge(self, topic: str, *segments: int) -> int:
        """Merges neighbouring segments of a scalable topic. Waits for the end and returns the id of the new segment."""
        from magnetar.testing import inspection

        return self._ask(inspection.merge, self.admin_url, topic, segments)

    def backlog(self, topic: str, subscription: str) -> int:
        """The number of unacknowledged messages of the subscription."""
        from magnetar.testing import inspection

        return self._ask(inspection.backlog, self.admin_url, topic, subscription)

    def messages(self, topic: str) -> list[Message[bytes]]:
        """All stored messages of a topic, the oldest first, whether consumed or not. It acknowledges none. A scalable
        or partitioned topic is read segment by segment, or partition by partition.
        """
        from magnetar.testing import inspection

        return self._ask(inspection.messages, self.url, self.admin_url, topic)

    def wait_until_consumed(self, topic: str, subscription: str, *, timeout_s: float = 10.0) -> None:
        """Waits until the subscription has acknowledged all messages. Raises AssertionError if messages remain after
        the timeout.
        """
        deadline = wall_s() + timeout_s
        while left := self.backlog(topic, subscription):
            if wall_s() >= deadline:
                raise AssertionError(left_words(left, topic, subscription, timeout_s))
            pause(TESTING_POLL_S)

    def cut_connections(self) -> None:
        """Cuts every client connection without notice. Clients reconnect automatically."""
        self._host.cut().result(TESTING_WAIT_S)

    def new_namespace(self, hint: str = "") -> str:
        """Creates a new namespace for the caller alone, named after the hint: "public/orders-3"."""
        return self._host.new_namespace(hint).result(TESTING_WAIT_S)

    def isolated(self, hint: str = "") -> Broker:
        """The same broker with a new namespace."""
        return Broker(self._host, self.new_namespace(hint))

    def stop(self) -> None:
        """Stops in order, as on SIGTERM: clients are disconnected, and all data is on disk."""
        self._host.stop().result(TESTING_WAIT_S)

    def kill(self) -> None:
        """Stops as `kill -9` does: clients lose their connections without notice, and no more data is written."""
        self._host.kill().result(TESTING_WAIT_S)

    def start(self) -> None:
        """Starts again after `stop` or `kill`, with the same ports and data."""
        self._host.start().result(TESTING_WAIT_S)

    def restart(self) -> None:
        """Calls `stop`, unless the broker is already stopped, and `start`."""
        if self._host.held:
            self.stop()
        self.start()

    def _ask(self, call: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._host.run(lambda: call(*args, **kwargs)).result(TESTING_WAIT_S)


class AsyncBroker(_Seen):
    """A `Broker` for `async with`; methods that wait are awaited."""

    @property
    def clock(self) -> AsyncClock:
        return AsyncClock(self._host)

    async def scalable(self, name: str, *, segments: int = 1) -> str:
        topic = f"topic://{self.namespace}/{name}"
        from magnetar.testing import inspection

        await self._ask(inspection.create_scalable, self.admin_url, topic, segments)
        return topic

    async def split(self, topic: str, segment: int = 0) -> list[int]:
        from magnetar.testing import inspection

        return await self._ask(inspection.split, self.admin_url, topic, segment)

    async def merge(self, topic: str, *segments: int) -> int:
        from magnetar.testing import inspection

        return await self._ask(inspection.merge, self.admin_url, topic, segments)

    async def backlog(self, topic: str, subscription: str) -> int:
        from magnetar.testing import inspection

        return await self._ask(inspection.backlog, self.admin_url, topic, subscription)

    async def messages(self, topic: str) -> list[Message[bytes]]:
        from magnetar.testing import inspection

        return await self._ask(inspection.messages, self.url, self.admin_url, topic)

    async def wait_until_consumed(self, topic: str, subscription: str, *, timeout_s: float = 10.0) -> None:
        deadline = wall_s() + timeout_s
        while left := await self.backlog(topic, subscription):
            if wall_s() >= deadline:
                raise AssertionError(left_words(left, topic, subscription, timeout_s))
            await asyncio.sleep(TESTING_POLL_S)

    async def cut_connections(self) -> None:
        await asyncio.wrap_future(self._host.cut())

    async def _ask(self, call: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.wrap_future(self._host.run(lambda: call(*args, **kwargs)))

    async def new_namespace(self, hint: str = "") -> str:
        return await asyncio.wrap_future(self._host.new_namespace(hint))

    async def isolated(self, hint: str = "") -> AsyncBroker:
        return AsyncBroker(self._host, await self.new_namespace(hint))

    async def stop(self) -> None:
        await asyncio.wrap_future(self._host.stop())

    async def kill(self) -> None:
        await asyncio.wrap_future(self._host.kill())

    async def start(self) -> None:
        await asyncio.wrap_future(self._host.start())

    async def restart(self) -> None:
        if self._host.held:
            await self.stop()
        await self.start()


class Opening:
    """The result of `broker()`: enter it once, with `with` or with `async with`."""

    def __init__(
        self, settings: Mapping[str, object], *, data: str | PathLike[str] | None, fast: bool, clock: bool = False
    ) -> None:
        self._clock = clock
        self._settings = {key: setting_text(value) for key, value in settings.items()}
        self._data = None if data is None else Path(data)
        self._fast = fast
        self._host: BrokerHost | None = None

    def __enter__(self) -> Broker:
        host = self._host = BrokerHost(self._settings, data=self._data, fast=self._fast, clock=self._clock)
        try:
            host.start().result(TESTING_WAIT_S)
        except BaseException:
            host.close()
            raise
        return Broker(host)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._host is not None:
            self._host.close()

    async def __aenter__(self) -> AsyncBroker:
        host = self._host = BrokerHost(self._settings, data=self._data, fast=self._fast, clock=self._clock)
        try:
            await asyncio.wrap_future(host.start())
        except BaseException:
            host.close()
            raise
        return AsyncBroker(host)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        host = self._host
        assert host is not None
        try:
            if host.held:
                await asyncio.wrap_future(host.stop())
        finally:
            host.close()


def left_words(left: int, topic: str, subscription: str, waited_s: float) -> str:
    return f"{subscription} has {left} unacknowledged messages of {topic} after {waited_s:g} s"


def setting_text(value: object) -> str:
    """The text form in standalone.conf."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(map(setting_text, value))
    return str(value)
