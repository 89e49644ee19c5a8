"""The network between simulated machines: what TCP may do to bytes, and nothing else.

Inside a connection, order is kept and no byte is lost while the connection lives. Each write has a travel time of its
own, and reads are cut anywhere. The transport has only the methods that the product may use. The incarnation of a
caller (`incarnation`) determines its machine; without one, everything is on one machine without a name.

Faults are methods: `cut` and `heal` (one direction; waiting bytes arrive, or the connection is reset), `hold` and
`release` (waiting bytes arrive), `lose` (both sides are notified), `half_open` (one side is notified), `down` and `up`
(a machine, called by its host). Without random streams the network is perfect: no delay, whole reads, no random faults.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import random
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simulation.environment.incarnation import INCARNATION, Incarnation
from simulation.environment.transport import Signal, SimulatedTransport, WriteOutcome

if TYPE_CHECKING:
    from simulation.environment.loop import VirtualLoop
    from simulation.environment.random_streams import RandomStreams

PORT_FIRST = 20_000
LOOPBACK = (None, "", "localhost", "127.0.0.1", "0.0.0.0")
KERNEL_BYTES = 64 * 1024  # written and not read, but no longer in the writer's own hands

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


@dataclass(frozen=True, slots=True)
class NetworkConditions:
    """The behaviour of a network without faults. `Network.conditions` may change at any time."""

    delay_s_min: float = 0.0002
    delay_s_max: float = 0.003
    late_chance: float = 0.01  # of a write that takes up to late_s_max
    late_s_max: float = 0.1
    split_chance: float = 0.1  # of a read that is cut short, anywhere
    kernel_bytes_min: int = 2 * 1024  # drawn for each connection
    kernel_bytes_max: int = KERNEL_BYTES


class DirectedLink:
    """One direction between two machines."""

    __slots__ = ("cut", "held", "slow", "waiters")

    def __init__(self) -> None:
        self.cut = False
        self.held = False
        self.slow = 1.0
        self.waiters: list[asyncio.Future[None]] = []

    @property
    def blocked(self) -> bool:
        return self.cut or self.held


class Network:
    def __init__(
        self, loop: VirtualLoop, streams: RandomStreams | None = None, conditions: NetworkConditions | None = None
    ) -> None:
        self.loop = loop
        self.conditions = conditions or NetworkConditions()
        self.calm = streams is None
        self.stopped = False
        self.ends: dict[
            int, tuple[SimulatedTransport, SimulatedTransport]
        ] = {}  # connections that may still be notified, in order of creation
        self._schedule = random.Random(0) if streams is None else streams.fork("schedule", "network")
        self._faults = random.Random(0) if streams is None else streams.fork("faults", "network")
        self._links: dict[tuple[str, str], DirectedLink] = {}
        self._listening: dict[tuple[str, int], ListeningServer] = {}
        self._hosts: dict[str, bool] = {}  # by name, whether it is up
        self._dark: dict[str, bool] = {}  # by name, whether it has no power: not even a kernel answers
        self._returns: dict[str, list[asyncio.Future[None]]] = {}
        self._ports = PORT_FIRST
        self._made = 0
        loop.network = self

    # For the loop

    async def create_server(
        self, factory: ProtocolFactory, host: Any, port: int | None, *, start_serving: bool
    ) -> ListeningServer:
        here = _here()
        number = port or self._port()
        server = ListeningServer(self, here, number, factory)
        if (here, number) in self._listening:
            raise OSError(errno.EADDRINUSE, f"address in use: {host}:{number}")
        if start_serving:
            await server.start_serving()
        return server

    async def create_connection(
        self, factory: ProtocolFactory, host: str, port: int
    ) -> tuple[SimulatedTransport, asyncio.BaseProtocol]:
        here = _here()
        there = self._resolve(host, here)
        await self._packet(here, there)
        while not self._hosts.get(there, True):
            if not self._dark[there] or self._faults.random() < 0.5:
                await self._packet(there, here)
                raise ConnectionRefusedError(errno.ECONNREFUSED, f"{host}:{port} is down")
            await self._return_of(there)
        server = self._listening.get((there, port))
        await self._packet(there, here)
        if server is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens on {host}:{port}")
        near = self._connect(here, server)
        near.open(factory())
        return near, near.protocol

    # Faults, between machines by name

    def cut(self, a: str, b: str) -> None:
        """Nothing travels from a to b any more."""
        self._link(a, b).cut = True

    def hold(self, a: str, b: str) -> None:
        self._link(a, b).held = True

    def slow(self, a: str, b: str, factor: float) -> None:
        self._link(a, b).slow = factor

    def heal(self, a: str, b: str) -> None:
        """Bytes that waited in the cut arrive, or their connection is reset: TCP may have given up."""
        link = self._link(a, b)
        if not link.cut:
            return
        link.cut = False
        for end, other in self._between(a, b):
            sender = end if end.here == a else other
            if sender.under_way and self._faults.random() < 0.5:
                self._sever(end, other)
        self._flow(a, b)

    def release(self, a: str, b: str) -> None:
        self._link(a, b).held = False
        self._flow(a, b)

    def heal_all(self) -> None:
        for (a, b), link in list(self._links.items()):
            link.slow = 1.0
            self.heal(a, b)
            self.release(a, b)

    def lose(self, a: str, b: str) -> None:
        """Resets their connections: both sides are notified, and bytes in flight are lost."""
        for end, other in self._between(a, b):
            self._sever(end, other)

    def half_open(self, deaf: str, other: str) -> None:
        """Notifies one side; the other one notices when it writes, or by its own keep-alive."""
        for end, peer in self._between(deaf, other):
            near, far = (end, peer) if end.here == deaf else (peer, end)
            near.sever(WriteOutcome.SILENT)
            far.sever(WriteOutcome.ON_WRITE)
            self.reset(near)

    def down(self, name: str, *, power: bool, remains: list[object]) -> None:
        """A machine died; only its process, if not by `power`. Its written bytes arrive up to a random one."""
        self._hosts[name] = False
        self._dark[name] = power
        for key in [key for key in self._listening if key[0] == name]:
            remains += [self._listening.pop(key)]
        for number, (end, other) in list(self.ends.items()):
            if name not in (end.here, other.here):
                continue
            mine, theirs = (end, other) if end.here == name else (other, end)
            remains.append(mine)
            if theirs.here == name:
                del self.ends[number]
            else:
                self._orphan(mine, theirs, power)

    def up(self, name: str) -> None:
        """A machine starts: it does not know older connections, and resets those that still send."""
        self._hosts[name] = True
        for near, other in list(self.ends.values()):
            for end in (near, other):
                if end.there == name and end.fate is WriteOutcome.SILENT and not end.lost:
                    end.fate = WriteOutcome.ON_WRITE
                    if end.unread:
                        self.reset(end)
        for waiter in self._returns.pop(name, []):
            _wake(waiter)

    def join(self, name: str) -> None:
        """A machine exists; it is down until `up`."""
        self._hosts[name] = self._dark[name] = False

    def stop(self) -> None:
        """The end of a world of one machine: no byte arrives any more on either side, and no side is notified."""
        self.stopped = True

    # For the ends

    def delay(self, a: str, b: str) -> float:
        if self.calm:
            return 0.0
        conditions, chance = self.conditions, self._schedule
        high = conditions.late_s_max if chance.random() < conditions.late_chance else conditions.delay_s_max
        return (conditions.delay_s_min + (high - conditions.delay_s_min) * chance.random()) * self._link(a, b).slow

    def blocked(self, a: str, b: str) -> bool:
        link = self._links.get((a, b))
        return link is not None and link.blocked

    def cut_short(self, size: int) -> int:
        """How many of these bytes one read gets."""
        if self.calm or size < 2 or self._schedule.random() >= self.conditions.split_chance:
            return size
        return self._schedule.randrange(1, size)

    def toss(self) -> bool:
        """A random choice where TCP may do either. A perfect network never takes the harmful one."""
        return not self.calm and self._faults.random() < 0.5

    def reset(self, end: SimulatedTransport) -> None:
        """A reset arrives there after a while, in any state of the link."""
        self.loop.call_later(self.delay(end.there, end.here), end.take, Signal.RESET, context=self.loop.outside)

    def serves(self, server: ListeningServer) -> bool:
        return self._listening.get((server.host, server.port)) is server

    def listen(self, server: ListeningServer) -> None:
        if self._listening.setdefault((server.host, server.port), server) is not server:
            raise OSError(errno.EADDRINUSE, f"address in use: {server.port}")

    def unlisten(self, server: ListeningServer) -> None:
        if self.serves(server):
            del self._listening[(server.host, server.port)]

    def forget(self, number: int) -> None:
        self.ends.pop(number, None)

    # Inside

    def _resolve(self, host: str, here: str) -> str:
        if host in LOOPBACK or host == here or (here == "" and not self._hosts):
            return here
        if host not in self._hosts:
            raise socket.gaierror(socket.EAI_NONAME, f"no such host: {host}")
        return host

    async def _packet(self, a: str, b: str) -> None:
        """Waits until a packet has travelled from a to b; through a cut it never does."""
        delay = self.delay(a, b)
        if delay:
            await asyncio.sleep(delay)
        link = self._link(a, b)
        while link.blocked:
            waiter: asyncio.Future[None] = self.loop.create_future()
            link.waiters.append(waiter)
            await waiter

    async def _return_of(self, name: str) -> None:
        waiter: asyncio.Future[None] = self.loop.create_future()
        self._returns.setdefault(name, []).append(waiter)
        await waiter

    def _connect(self, here: str, server: ListeningServer) -> SimulatedTransport:
        self._made += 1
        window = self._schedule.randint(self.conditions.kernel_bytes_min, self.conditions.kernel_bytes_max)
        shared = (self, self._made, KERNEL_BYTES if self.calm else window)
        near = SimulatedTransport(*shared, here, (server.host, server.port), contextvars.copy_context())
        far = SimulatedTransport(*shared, server.host, (here, self._port()), server.context)
        near.peer, far.peer = far, near
        far.server = server
        self.ends[self._made] = (near, far)
        near.push(Signal.ACCEPT)
        return near

    def _port(self) -> int:
        self._ports += 1
        return self._ports

    def _link(self, a: str, b: str) -> DirectedLink:
        link = self._links.get((a, b))
        if link is None:
            link = self._links[(a, b)] = DirectedLink()
        return link

    def _between(self, a: str, b: str) -> list[tuple[SimulatedTransport, SimulatedTransport]]:
        return [pair for pair in self.ends.values() if {pair[0].here, pair[1].here} == {a, b}]

    def _flow(self, a: str, b: str) -> None:
        link = self._link(a, b)
        if link.blocked:
            return
        for end, other in self._between(a, b):
            end.kick()
            other.kick()
        waiters, link.waiters = link.waiters, []
        for waiter in waiters:
            _wake(waiter)

    def _sever(self, near: SimulatedTransport, other: SimulatedTransport) -> None:
        for end in (near, other):
            end.sever(WriteOutcome.SILENT)
            self.reset(end)

    def _orphan(self, mine: SimulatedTransport, theirs: SimulatedTransport, power: bool) -> None:
        """What the other side of a dead machine's connection sees."""
        if theirs.lost:
            return
        chance = self._faults
        mine.keep_head(chance.randint(0, mine.under_way))
        if not power:
            if not mine.is_closing():
                mine.push(chance.choice((Signal.END, Signal.RESET)))  # its kernel closes for it, and answers what comes
            return
        theirs.drop_pipe()
        theirs.fate = chance.choice((WriteOutcome.TOLD, WriteOutcome.ON_WRITE, WriteOutcome.SILENT))
        if theirs.fate is WriteOutcome.TOLD:
            theirs.fate = WriteOutcome.SILENT
            mine.push(Signal.RESET)


class ListeningServer:
    def __init__(self, network: Network, host: str, port: int, factory: ProtocolFactory) -> None:
        self.network = network
        self.host = host
        self.port = port
        self.factory = factory
        self.context = contextvars.copy_context()
        self.sockets: tuple[Any, ...] = (self,)

    def getsockname(self) -> tuple[str, int]:
        return (self.host or "memory", self.port)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self.network.loop

    def is_serving(self) -> bool:
        return self.network.serves(self)

    async def start_serving(self) -> None:
        self.network.listen(self)

    def close(self) -> None:
        self.network.unlisten(self)
        self.sockets = ()

    async def wait_closed(self) -> None:
        pass


def _here() -> str:
    incarnation: Incarnation | None = INCARNATION.get()
    return "" if incarnation is None else incarnation.host


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
