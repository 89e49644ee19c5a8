"""Small worlds for tests: one machine, or two with a connection between them whose ends remember all they were told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from simulation.environment.host import Host
from simulation.environment.loop import VirtualLoop, pass_time
from simulation.environment.network import Network, NetworkConditions
from simulation.environment.random_streams import RandomStreams
from simulation.environment.runtime import SimulatedRuntime

PORT = 6650
MANY = range(30)  # seeds, where something is drawn


class Talker(asyncio.Protocol):
    """Remembers all that it was told. `half`: wants to go on after the other side's end of file."""

    def __init__(self, *, half: bool = False) -> None:
        self.reads: list[bytes] = []
        self.told: list[str] = []
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.half = half
        self.transport: asyncio.Transport

    @property
    def got(self) -> bytes:
        return b"".join(self.reads)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.told.append("made")

    def data_received(self, data: bytes) -> None:
        self.reads.append(data)

    def eof_received(self) -> bool:
        self.told.append("eof")
        return self.half

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.told.append("lost" if exc is None else type(exc).__name__)
        self.lost.set_result(exc)


class Pair:
    """Two machines, `a` connected to `b`."""

    def __init__(self, seed: int = 0, conditions: NetworkConditions | None = None) -> None:
        self.loop = VirtualLoop(seed=seed)
        self.streams = RandomStreams(seed)
        self.network = Network(self.loop, self.streams, conditions)
        self.a = Host("a", self.loop, self.network, self.streams)
        self.b = Host("b", self.loop, self.network, self.streams)
        self.accepted: list[Talker] = []
        self.half = False

    def serve(self) -> None:
        async def main(runtime: SimulatedRuntime) -> None:
            await asyncio.get_running_loop().create_server(self._accept, "0.0.0.0", PORT)
            await forever()

        self.b.run(main)

    def _accept(self) -> Talker:
        self.accepted.append(Talker(half=self.half))
        return self.accepted[-1]

    def on_a(self, body: Callable[[], Awaitable[Any]]) -> asyncio.Task[Any]:
        async def main(runtime: SimulatedRuntime) -> Any:
            return await body()

        return self.a.run(main)

    async def connected(self) -> tuple[Talker, Talker]:
        """From outside: both ends of a connection of a to b."""
        made: asyncio.Future[Talker] = self.loop.create_future()

        async def body() -> None:
            made.set_result((await self.loop.create_connection(Talker, "b", PORT))[1])
            await forever()

        if not self.b.alive:
            self.serve()
            await pass_time(0.1)
        self.on_a(body)
        near = await made
        await pass_time(1)
        return near, self.accepted[-1]

    def play(self, body: Callable[[Pair], Awaitable[Any]]) -> Any:
        async def whole() -> Any:
            return await body(self)

        try:
            result = self.loop.run_until_complete(whole())
        finally:
            self.loop.close()
        assert self.loop.errors == []
        return result


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


class Lab:
    """A world with one machine."""

    def __init__(self, seed: int = 0, **more: Any) -> None:
        self.loop = VirtualLoop(seed=seed)
        self.streams = RandomStreams(seed)
        self.network = Network(self.loop, self.streams)
        self.host = Host("m", self.loop, self.network, self.streams, **more)
        self.seen: list[Any] = []

    def play(self, body: Callable[[], Awaitable[Any]]) -> Any:
        async def whole() -> Any:
            return await body()

        try:
            return self.loop.run_until_complete(whole())
        finally:
            self.loop.close()
