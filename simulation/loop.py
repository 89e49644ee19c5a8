"""An event loop on a virtual clock with a network in memory: a world of one thread that never waits for real.

When nothing is ready the clock jumps to the next timer; when there is no timer either, nothing can ever happen again
and that is an error (`Stuck`). `create_server` and `create_connection` connect protocols inside the loop, with the
transport surface the product may use and nothing more. `cut` is the end of a machine: what was written and not read
is gone, nobody is told, and nothing more is delivered. It trusts its callers to reach for no real socket.
"""

from __future__ import annotations

import asyncio
import selectors
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

PORT_FIRST = 20_000
LIFE_S_MAX = 3_600.0  # of virtual time: timers that repeat would let a world that hangs live for ever


class Stuck(AssertionError):
    """Nothing is ready and no timer is set: whoever waits, waits for ever."""


class Idle(selectors.SelectSelector):
    """No descriptor is ever ready; waiting moves the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.until = LIFE_S_MAX

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Stuck("nothing is ready and no timer is set")
        if self.now > self.until:
            raise Stuck("only timers ring: whoever waits, waits for ever")
        if timeout > 0:
            self.now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, start_s: float = 0.0) -> None:
        self._idle = Idle()
        self._idle.now = start_s
        self._idle.until = start_s + LIFE_S_MAX
        self._listening: dict[int, Callable[[], asyncio.BaseProtocol]] = {}
        self._ports = PORT_FIRST
        self.dead = False
        super().__init__(self._idle)

    def time(self) -> float:
        return self._idle.now

    def cut(self) -> None:
        """The machine is gone: no byte arrives any more, on either side."""
        self.dead = True

    async def create_server(  # type: ignore[override]
        self, factory: Any, host: Any = None, port: Any = None, *, start_serving: bool = True, **_: Any
    ) -> Any:
        self._ports += 1
        number = port or self._ports
        if number in self._listening:
            raise OSError(98, "address in use")
        server = MemoryServer(self, number, factory)
        if start_serving:
            await server.start_serving()
        return server

    async def create_connection(  # type: ignore[override]
        self, factory: Any, host: Any = None, port: Any = None, **_: Any
    ) -> Any:
        accept = self._listening.get(port)
        if accept is None:
            raise ConnectionRefusedError(111, f"nobody listens on {port}")
        near, far = MemoryTransport(self, "client"), MemoryTransport(self, "server")
        near.peer, far.peer = far, near
        near.protocol, far.protocol = factory(), accept()
        far.protocol.connection_made(far)
        near.protocol.connection_made(near)
        return near, near.protocol

    def listen(self, port: int, factory: Callable[[], asyncio.BaseProtocol] | None) -> None:
        """None: nobody does any more."""
        if factory is None:
            self._listening.pop(port, None)
        else:
            self._listening[port] = factory


class MemoryServer:
    def __init__(self, loop: VirtualLoop, port: int, factory: Callable[[], asyncio.BaseProtocol]) -> None:
        self._loop = loop
        self._factory = factory
        self.port = port
        self.sockets = (self,)

    def getsockname(self) -> tuple[str, int]:
        return ("memory", self.port)

    async def start_serving(self) -> None:
        self._loop.listen(self.port, self._factory)

    def close(self) -> None:
        self._loop.listen(self.port, None)

    async def wait_closed(self) -> None:
        pass


class MemoryTransport(asyncio.Transport):
    """One end. What is written waits at the other end until its protocol reads."""

    def __init__(self, loop: VirtualLoop, name: str) -> None:
        super().__init__()
        self._loop = loop
        self._name = name
        self.peer: MemoryTransport = self
        self.protocol: Any = None
        self._inbox: deque[bytes | None] = deque()  # None: the other end closed
        self._inbox_bytes = 0
        self._delivering = False
        self._reading = True
        self._closing = False
        self._lost = False
        self._high = 64 * 1024
        self._paused = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self._name, 1) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 64 * 1024 if high is None else high

    def is_closing(self) -> bool:
        return self._closing

    def write(self, data: Any) -> None:
        if self._closing or self._loop.dead or not data:
            return
        self.peer._arrive(bytes(data))
        if not self._paused and self.peer._inbox_bytes > self._high:
            self._paused = True
            self.protocol.pause_writing()

    def writelines(self, parts: Iterable[Any]) -> None:
        self.write(b"".join(parts))

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._schedule()

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self.peer._arrive(None)
            self._loop.call_soon(self._lose)

    abort = close

    def _arrive(self, data: bytes | None) -> None:
        self._inbox.append(data)
        self._inbox_bytes += len(data or b"")
        self._schedule()

    def _schedule(self) -> None:
        if not self._delivering and self._inbox and self._reading:
            self._delivering = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        """One turn, all that is there: as a read of a socket does."""
        self._delivering = False
        if self._loop.dead or self._lost or not self._reading:
            return
        parts: list[bytes] = []
        while self._inbox and self._inbox[0] is not None:
            parts.append(self._inbox.popleft() or b"")
        data = b"".join(parts)
        self._inbox_bytes -= len(data)
        if self.peer._paused and self._inbox_bytes <= self.peer._high // 4:
            self.peer._paused = False
            self.peer.protocol.resume_writing()
        if data and not self._closing:
            self.protocol.data_received(data)
        if self._inbox and self._inbox[0] is None and not self._closing:
            self._closing = True
            self._loop.call_soon(self._lose)

    def _lose(self) -> None:
        if not self._lost and not self._loop.dead:
            self._lost = True
            self.protocol.connection_lost(None)
