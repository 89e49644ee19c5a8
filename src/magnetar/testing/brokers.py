"""`broker()`, and what it gives: a `Broker` whose methods block, or in `async with` an `AsyncBroker` whose methods are
awaited.

Both are thin faces of a `Host`. The broker runs in a thread of its own, so a test may block or run a loop as it likes;
several may run at once and share nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from types import TracebackType

from magnetar.base.limits import TESTING_WAIT_S
from magnetar.testing.host import Host


def broker(
    settings: Mapping[str, object] | None = None,
    *,
    data: str | PathLike[str] | None = None,
    fast: bool = False,
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
    """
    return Opening({**(settings or {}), **more}, data=data, fast=fast)


class _Seen:
    """What is there to see without waiting, of both kinds."""

    def __init__(self, host: Host, namespace: str = "public/default") -> None:
        self._host = host
        self.namespace = namespace

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


class Broker(_Seen):
    """A running broker. `namespace` is one that nobody else uses; `topic("orders")` is a full name in it."""

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


class AsyncBroker(_Seen):
    """A `Broker` for `async with`: what waits is awaited."""

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

    def __init__(self, settings: Mapping[str, object], *, data: str | PathLike[str] | None, fast: bool) -> None:
        self._settings = {key: _text(value) for key, value in settings.items()}
        self._data = None if data is None else Path(data)
        self._fast = fast
        self._host: Host | None = None

    def __enter__(self) -> Broker:
        host = self._host = Host(self._settings, data=self._data, fast=self._fast)
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
        host = self._host = Host(self._settings, data=self._data, fast=self._fast)
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


def _text(value: object) -> str:
    """As standalone.conf writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(map(_text, value))
    return str(value)
