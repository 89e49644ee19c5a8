"""A whole broker inside another process: its engines, its node and its REST server on the running loop.

It installs no signal handlers, configures no log and does not write to standard output: its host decides about those.
It ends in two ways. `stop` ends in order, with all data on disk. `kill` ends like a process after `kill -9`: peers
receive nothing, pending work is never written, and acknowledged messages are on disk. `kill` cancels every other task
of the loop, so all tasks of the loop must belong to the broker.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from magnetar.base.errors import Conflict, MagnetarError, Misuse
from magnetar.base.limits import KILL_ROUNDS_MAX
from magnetar.base.names import namespace_name
from magnetar.broker.node import Addresses, Node
from magnetar.broker.standalone import open_node
from magnetar.metadata.embedded import EmbeddedStore
from magnetar.metadata.memory.store import MemoryMetadataStore
from magnetar.metadata.zookeeper.store import ZooKeeperStore
from magnetar.policy.settings import Settings
from magnetar.policy.table import KEYS
from magnetar.runtime.disk import RealFile, RealFiles, RealLock
from magnetar.runtime.files import Files, Lock
from magnetar.runtime.system_runtime import RealRuntime

OpenEngines = Callable[[Settings, RealRuntime], Awaitable[tuple[Node, Lock]]]


def in_directory(data: str) -> OpenEngines:
    """The engines of a standalone broker."""
    return lambda settings, runtime: open_node(data, settings, runtime)


class WebServerProtocol(Protocol):
    """The REST server, which can also end without completing requests."""

    async def start(self, host: str, port: int) -> int: ...

    async def stop(self) -> None: ...

    def sockets(self) -> list[Any]: ...

    def cut(self) -> None: ...


class EmbeddedBroker:
    """`start` returns a broker that serves; then exactly one of `stop` and `kill`."""

    def __init__(
        self, runtime: RealRuntime, files: TrackedFiles, node: Node, lock: Lock, skin: WebServerProtocol
    ) -> None:
        self._runtime = runtime
        self._files = files
        self._node = node
        self._lock = lock
        self._skin = skin

    @classmethod
    async def start(
        cls,
        open_engines: OpenEngines,
        configuration: Mapping[str, str],
        skin: Callable[[Node], WebServerProtocol],
        *,
        make_runtime: Callable[[Files], RealRuntime] = RealRuntime,
    ) -> EmbeddedBroker:
        """Starts a broker on these engines with these settings. Conflict: the directory or a port is in use. Misuse: a
        setting is unknown or of the wrong form. `make_runtime`: for a host with another clock or another disk."""
        settings = Settings(None, configuration)
        if settings.unknown:
            raise Misuse(f"unknown settings: {', '.join(sorted(settings.unknown))}")
        files = TrackedFiles()
        runtime = make_runtime(files)
        try:
            node, lock = await open_engines(settings, runtime)
        except BaseException:
            runtime.close()
            raise
        hosted = cls(runtime, files, node, lock, skin(node))
        try:
            await hosted._serve(settings)
        except BaseException:
            await hosted.stop()
            raise
        return hosted

    @property
    def node(self) -> Node:
        return self._node

    @property
    def addresses(self) -> Addresses:
        return self._node.addresses

    @property
    def failure(self) -> MagnetarError | None:
        """The storage failure that ended the broker."""
        return self._node.failure

    async def create_namespace(self, name: str) -> None:
        await self._node.namespaces.create(namespace_name(name))

    async def stop(self) -> None:
        """Stops in order: requests in flight are answered, and everything is durable."""
        copies = self._sockets()
        try:
            await self._skin.stop()
            await self._node.stop()
        finally:
            self._lock.release()
            self._runtime.close()
            _hang_up(copies)

    async def kill(self) -> None:
        """Ends immediately: nothing more is written or answered."""
        self._runtime.abandon()
        _hang_up(self._sockets())
        self._skin.cut()
        self._node.cut()
        await _end_tasks()
        metadata = self._node.metadata
        assert isinstance(metadata, EmbeddedStore | MemoryMetadataStore | ZooKeeperStore)
        metadata.abandon()
        self._files.let_go()

    def _sockets(self) -> list[socket.socket]:
        return [one.dup() for one in (*self._skin.sockets(), *self._node.sockets())]

    async def _serve(self, settings: Settings) -> None:
        host = settings.text("bindAddress")
        node = self._node
        await node.start(host, settings.number("brokerServicePort"), host_shown=settings.text("advertisedAddress"))
        await node.serve(await self._skin.start(host, settings.number("webServicePort")))


class TrackedFiles(RealFiles):
    """Tracks open files, so that all of them can be closed immediately, as the kernel does for a process that ends."""

    __slots__ = ("_files", "_locks")

    def __init__(self) -> None:
        self._files: list[RealFile] = []
        self._locks: list[RealLock] = []

    def open(self, path: str, *, create: bool = False) -> RealFile:
        file = super().open(path, create=create)
        self._files.append(file)
        return file

    def lock(self, path: str, holder: str) -> RealLock:
        lock = super().lock(path, holder)
        self._locks.append(lock)
        return lock

    def let_go(self) -> None:
        for file in self._files:
            file.close()
        for lock in self._locks:
            lock.release()


def known_settings() -> list[str]:
    return list(KEYS)


def _hang_up(sockets: list[socket.socket]) -> None:
    """Shuts the sockets down: closing alone does not reach the peer while a forked child has a copy of the
    descriptor."""
    for listening in sockets:
        try:
            listening.shutdown(socket.SHUT_RDWR)
        except OSError:  # hung up already
            pass
        listening.close()


async def _end_tasks() -> None:
    """Cancels until no task runs: a task that starts to wait for the disk is cancelled again."""
    current = asyncio.current_task()
    for _ in range(KILL_ROUNDS_MAX):
        left = [task for task in asyncio.all_tasks() if task is not current]
        if not left:
            await asyncio.sleep(0)  # aborted transports notify their protocols in the next turn
            left = [task for task in asyncio.all_tasks() if task is not current]
            if not left:
                return
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=0.01)
    raise Conflict("tasks of the broker did not end", tasks=len(asyncio.all_tasks()) - 1)
