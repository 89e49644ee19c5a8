"""`broker()`, and what it gives: a `Broker` whose methods block, or in `async with` an `AsyncBroker` whose methods are
awaited.

Both are thin faces of a `BrokerHost`. The broker runs in a thread of its own, so a test may block or run a loop as it
likes; several may run at once and share nothing.
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
    """A broker for the length of a `with` or `async with` block.

    Parameters
    ----------
    settings, more
        Settings by their names in Pulsar's standalone.conf, as a mapping or as keywords:
        `broker(brokerDeduplicationEnabled=True)`. Without ports it takes free ones.
    data
        A directory to keep its data in, which is left there. Default: a temporary one, removed with the block.
    fast
        Keep the temporary directory in memory where the machine can (/dev/shm), so that a sync costs nothing: worth it
        on a slow disk. What was acknowledged survives `kill` and `restart`, as always.
    clock
        Give the broker a clock that the test moves: `b.clock.advance(3600)`.
    """
    return Opening({**(settings or {}), **more}, data=data, fast=fast, clock=clock)


class _Seen:
    """What is there to see without waiting, of both kinds."""

    def __init__(self, host: BrokerHost, namespace: str = "public/default") -> None:
        self._host = host
        self.namespace = namespace

    def __repr__(self) -> str:
        where = self.url if self.running else "not running"
        return f"<magnetar.testing.{type(self).__name__} {where}, namespace {self.namespace}>"

    @property
    def url(self) -> str:
        """Where clients connect: pulsar://127.0.0.1:PORT, the same over all its lives."""
        return self._host.url

    @property
    def admin_url(self) -> str:
        """Where the REST interface and the metrics are: http://127.0.0.1:PORT."""
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
        """The broker stands still, as a process after SIGSTOP: connections stay open, nothing is answered. In the block
        no other method of it may be called.
        """
        self._host.pause()
        try:
            yield
        finally:
            self._host.resume()

    @contextmanager
    def slow(self, delay_s: float) -> Iterator[None]:
        """Everything that clients send reaches the broker so much later, in its order. REST is not slowed."""
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
        """The disk takes nothing more: publishes are not acknowledged, and the broker may stop, as on a real full disk.
        If `running` is False after the block, `restart` starts it again with everything it acknowledged.
        """
        faults = self._host.faults
        faults.disk_full = True
        try:
            yield
        finally:
            faults.disk_full = False

    def lose_next(self, what: Lost) -> None:
        """Cut the connection of the next client that sends. "message": before the broker stores the message, so that
        the client sends it again. "receipt": after it was stored and before the client hears of it, so that the client
        sends again what is there already; only deduplication removes the second one.
        """
        if what not in ("message", "receipt"):
            raise Misuse("lose_next takes 'message' or 'receipt'", given=what)
        self._host.faults.lose = what


class Clock:
    """The time of a broker made with `clock=True`: the machine's, plus what it was moved forward."""

    def __init__(self, host: BrokerHost) -> None:
        self._host = host

    def advance(self, seconds: float) -> None:
        """Move the broker's time forward: what is due by then happens now, such as delayed messages, retention and
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
    """A running broker. `namespace` is one that nobody else uses; `topic("orders")` is a full name in it."""

    @property
    def clock(self) -> Clock:
        return Clock(self._host)

    # Topics and what is in them

    def scalable(self, name: str, *, segments: int = 1) -> str:
        """Make a scalable topic in the namespace, and return its full name."""
        topic = f"topic://{self.namespace}/{name}"
        from magnetar.testing import inspection

        self._ask(inspection.create_scalable, self.admin_url, topic, segments)
        return topic

    def split(self, topic: str, segment: int = 0) -> list[int]:
        """Split a segment of a scalable topic. Returns the ids of the new segments when it is done."""
        from magnetar.testing import inspection

        return self._ask(inspection.split, self.admin_url, topic, segment)

    def merge(self, topic: str, *segments: int) -> int:
        """Merge neighbouring segments of a scalable topic. Returns the id of the new one when it is done."""
        from magnetar.testing import inspection

        return self._ask(inspection.merge, self.admin_url, topic, segments)

    def backlog(self, topic: str, subscription: str) -> int:
        """Messages that the subscription has not acknowledged."""
        from magnetar.testing import inspection

        return self._ask(inspection.backlog, self.admin_url, topic, subscription)

    def messages(self, topic: str) -> list[Message[bytes]]:
        """Everything stored in a topic, from the oldest on, whoever has read it. Nothing is acknowledged by it. Of a
        scalable or a partitioned topic: segment by segment, partition by partition.
        """
        from magnetar.testing import inspection

        return self._ask(inspection.messages, self.url, self.admin_url, topic)

    def wait_until_consumed(self, topic: str, subscription: str, *, timeout_s: float = 10.0) -> None:
        """Until the subscription has acknowledged everything. AssertionError: something is left after that time."""
        deadline = wall_s() + timeout_s
        while left := self.backlog(topic, subscription):
            if wall_s() >= deadline:
                raise AssertionError(left_words(left, topic, subscription, timeout_s))
            pause(TESTING_POLL_S)

    def cut_connections(self) -> None:
        """Cut every connection of a client, without a word. Clients come back by themselves."""
        self._host.cut().result(TESTING_WAIT_S)

    def new_namespace(self, hint: str = "") -> str:
        """Make a namespace that nobody else uses, named after the hint: "public/orders-3"."""
        return self._host.new_namespace(hint).result(TESTING_WAIT_S)

    def isolated(self, hint: str = "") -> Broker:
        """The same broker, seen from a namespace of its own."""
        return Broker(self._host, self.new_namespace(hint))

    def stop(self) -> None:
        """In order, as on SIGTERM: clients are sent away, everything is on disk."""
        self._host.stop().result(TESTING_WAIT_S)

    def kill(self) -> None:
        """At once, as on `kill -9`: clients lose their connections without a word, nothing more is written."""
        self._host.kill().result(TESTING_WAIT_S)

    def start(self) -> None:
        """Again, after `stop` or `kill`: on the same ports and the same data."""
        self._host.start().result(TESTING_WAIT_S)

    def restart(self) -> None:
        """`stop`, unless it is down already, and `start`."""
        if self._host.held:
            self.stop()
        self.start()

    def _ask(self, call: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._host.run(lambda: call(*args, **kwargs)).result(TESTING_WAIT_S)


class AsyncBroker(_Seen):
    """A `Broker` for `async with`: what waits is awaited."""

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
    """What `broker()` returns: enter it once, with `with` or with `async with`."""

    def __init__(
        self, settings: Mapping[str, object], *, data: str | PathLike[str] | None, fast: bool, clock: bool = False
    ) -> None:
        self._clock = clock
        self._settings = {key: _text(value) for key, value in settings.items()}
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
    return f"{subscription} has {left} messages of {topic} left after {waited_s:g} s"


def _text(value: object) -> str:
    """As standalone.conf writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(map(_text, value))
    return str(value)
