"""One end of a simulated connection: a transport whose bytes travel, wait, and are read in pieces.

Each end holds its written bytes in flight (`pipe`) and the arrived bytes that its protocol has not read (`inbox`).
Unread bytes beyond the kernel's buffer stay in the writer's own buffer, which back-pressure counts, `close` waits for
and `abort` discards. Closing follows asyncio: `close` sends everything and then ends, an end of file closes unless the
protocol keeps the connection, and bytes for a closed end are answered by a reset. A dead or stopped machine receives
nothing, because every callback of a protocol belongs to its incarnation.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
from collections import deque
from collections.abc import Iterable
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from simulation.environment.incarnation import INCARNATION

if TYPE_CHECKING:
    from simulation.environment.network import ListeningServer, Network

HIGH_BYTES = 64 * 1024  # asyncio's own
READ_BYTES_MAX = 256 * 1024  # asyncio's own


class Signal(Enum):
    ACCEPT = auto()
    END = auto()
    RESET = auto()


class WriteOutcome(Enum):
    """The fate of the bytes of this end, once the other end is gone."""

    NONE = auto()  # connected
    SILENT = auto()  # nothing is ever heard
    ON_WRITE = auto()  # a write is answered by a reset
    TOLD = auto()  # a reset is in flight


class SimulatedTransport(asyncio.Transport):
    def __init__(
        self,
        network: Network,
        number: int,
        kernel_bytes: int,
        here: str,
        peername: tuple[str, int],
        context: contextvars.Context,
    ) -> None:
        super().__init__()
        self.network = network
        self.number = number
        self.here = here
        self.there = peername[0]
        self.context = context
        self.incarnation = context.get(INCARNATION)
        self.peer: SimulatedTransport = self
        self.protocol: Any = None
        self.server: ListeningServer | None = None
        self.fate = WriteOutcome.NONE
        self.lost = False
        self.unread = 0  # bytes written here that the other side has not read
        self.under_way = 0  # of these, those that have not arrived
        self._peername = peername
        self._kernel_bytes = kernel_bytes
        self._pipe: deque[tuple[float, bytes | Signal]] = deque()
        self._armed = False
        self._inbox: deque[bytes | Signal] = deque()
        self._reset = False
        self._scheduled = False
        self._reading = True
        self._closing = False
        self._high = HIGH_BYTES
        self._low = HIGH_BYTES // 4
        self._paused = False

    # The transport

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._peername if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = HIGH_BYTES if low is None else 4 * low
        self._high, self._low = high, high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return max(0, self.unread - self._kernel_bytes)

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def write(self, data: Any) -> None:
        if self._closing or not data or (self.incarnation is not None and self.incarnation.dead):
            return
        if self._reset:
            self._fail()
            return
        data = bytes(data)
        self.unread += len(data)
        if self.fate is WriteOutcome.NONE:
            self.push(data)
        elif self.fate is WriteOutcome.ON_WRITE:
            self.fate = WriteOutcome.TOLD
            self.network.reset(self)
        if not self._paused and self.get_write_buffer_size() > self._high:
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
        """Sends the written bytes. Unread incoming bytes turn the close into a reset, as in every kernel."""
        if self._closing:
            return
        self._closing = True
        self._farewell(Signal.RESET if self._unread_here() else Signal.END)
        if not self.get_write_buffer_size() or self.fate is not WriteOutcome.NONE:
            self._end(None)

    def abort(self) -> None:
        """Discards the bytes in the writer's own buffer."""
        if self.lost:
            return
        self.keep_head(self.under_way - self.get_write_buffer_size())
        if not self._closing:
            self._closing = True
            self._farewell(Signal.RESET if self._unread_here() or self.network.toss() else Signal.END)
        self._end(None)

    # For the network: nothing here calls a protocol

    def open(self, protocol: asyncio.BaseProtocol) -> None:
        """In the life of this end."""
        self.protocol = protocol
        protocol.connection_made(self)

    def push(self, item: bytes | Signal) -> None:
        """Puts bytes behind all others in flight."""
        if self.network.calm and not self._pipe and not self.network.blocked(self.here, self.there):
            self.peer.take(item)
            return
        arrival = self.network.loop.time() + self.network.delay(self.here, self.there)
        self._pipe.append((arrival, item))  # not before what is ahead of it, however short its own way
        if isinstance(item, bytes):
            self.under_way += len(item)
        self._arm()

    def kick(self) -> None:
        """Continues after a block."""
        self._arm()
        if self._paused or self._closing:
            self._drained(0)

    def sever(self, fate: WriteOutcome) -> None:
        """Drops bytes in flight and arrived bytes that are not read."""
        self.drop_pipe()
        self._inbox.clear()
        self.fate = fate

    def drop_pipe(self) -> None:
        self._pipe.clear()
        self.under_way = 0

    def keep_head(self, size: int) -> None:
        """Of what is under way only the first bytes arrive."""
        kept: deque[tuple[float, bytes | Signal]] = deque()
        left = size
        for arrival, item in self._pipe:
            if isinstance(item, Signal):
                kept.append((arrival, item))
            elif left > 0:
                kept.append((arrival, item[:left]))
                left -= len(item)
        self._pipe = kept
        self.under_way = sum(len(item) for _, item in kept if isinstance(item, bytes))

    def take(self, item: bytes | Signal) -> None:
        """Something arrives here."""
        if self.network.stopped or (self.lost and isinstance(item, Signal)):
            return
        if item is Signal.RESET:
            self._take_reset()
        elif self._gone() or (item is Signal.ACCEPT and not self._welcome()):
            if item is Signal.ACCEPT:
                self._closing = self.lost = True  # not connected: later bytes are refused as well
            if item is not Signal.END and self.peer.fate is WriteOutcome.NONE:
                self.peer.fate = WriteOutcome.TOLD
                self.network.reset(self.peer)
        elif item is Signal.ACCEPT:
            self.network.loop.call_soon(self._accept, context=self.context)
        else:
            self._inbox.append(item)
            self._schedule()

    # Inside

    def _arm(self) -> None:
        if self._pipe and not self._armed:
            self._armed = True
            loop = self.network.loop
            loop.call_at(self._pipe[0][0], self._arrive, context=loop.outside)

    def _arrive(self) -> None:
        self._armed = False
        if self.network.stopped or self.network.blocked(self.here, self.there):
            return
        now = self.network.loop.time()
        while self._pipe and self._pipe[0][0] <= now:
            item = self._pipe.popleft()[1]
            if isinstance(item, bytes):
                self.under_way -= len(item)
            self.peer.take(item)
        self._arm()

    def _take_reset(self) -> None:
        """Noticed at the next read or write, as a socket that is not watched notices nothing."""
        self._reset = True
        self.fate = WriteOutcome.SILENT
        self.drop_pipe()
        if self.network.toss():
            self._inbox.clear()
        if self._closing:
            self._end(_reset_error())  # it waited for its last bytes to leave
        self._schedule()

    def _gone(self) -> bool:
        return self._closing or (self.incarnation is not None and self.incarnation.dead)

    def _welcome(self) -> bool:
        return self.server is not None and self.network.serves(self.server)

    def _accept(self) -> None:
        assert self.server is not None
        self.open(self.server.factory())

    def _schedule(self) -> None:
        if not self._scheduled and self._reading and not self._closing and (self._inbox or self._reset):
            self._scheduled = True
            self.network.loop.call_soon(self._read, context=self.context)

    def _read(self) -> None:
        """Reads as from a socket: all available bytes, or some of them."""
        self._scheduled = False
        if self._closing or not self._reading or self.network.stopped:
            return
        if not self._inbox:
            if self._reset:
                self._fail()
            return
        try:
            if self._inbox[0] is Signal.END:
                self._inbox.popleft()
                if not self.protocol.eof_received():
                    self.close()
            else:
                self._hand_over(self._some())
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # as asyncio does: report it, and end the connection
            self.network.loop.call_exception_handler(
                {"message": f"in the protocol on {self.here or 'memory'}", "exception": error, "handle": self}
            )
            self._farewell(Signal.RESET)
            self._closing = True
            self._end(error)
            return
        self._schedule()

    def _some(self) -> bytes:
        parts: list[bytes] = []
        while self._inbox and isinstance(head := self._inbox[0], bytes):
            parts.append(head)
            self._inbox.popleft()
        data = b"".join(parts)
        size = self.network.cut_short(min(len(data), READ_BYTES_MAX))
        if size < len(data):
            self._inbox.appendleft(data[size:])
            data = data[:size]
        return data

    def _hand_over(self, data: bytes) -> None:
        self.network.loop.note(f"{self.there}>{self.here} {self.number} {len(data)}")
        self.peer._drained(len(data))
        self.protocol.data_received(data)

    def _drained(self, size: int) -> None:
        """The other side has read: the writer is notified after the travel time."""
        self.unread -= size
        if self._paused or (self._closing and not self.lost):
            network = self.network
            delay = network.delay(self.there, self.here)
            network.loop.call_later(delay, self._writable, context=self.context)

    def _writable(self) -> None:
        if self.network.stopped or self.lost or self.network.blocked(self.there, self.here):
            return
        size = self.get_write_buffer_size()
        if self._closing:
            if not size:
                self._end(None)
        elif self._paused and size <= self._low:
            self._paused = False
            self.protocol.resume_writing()

    def _unread_here(self) -> bool:
        return any(isinstance(item, bytes) for item in self._inbox)

    def _farewell(self, signal: Signal) -> None:
        self._inbox.clear()
        if self.fate is WriteOutcome.NONE:
            self.push(signal)

    def _fail(self) -> None:
        self._closing = True
        self.drop_pipe()
        self._inbox.clear()
        self._end(_reset_error())

    def _end(self, error: BaseException | None) -> None:
        self.network.loop.call_soon(self._tell_lost, error, context=self.context)

    def _tell_lost(self, error: BaseException | None) -> None:
        if self.lost or self.network.stopped:
            return
        self.lost = True
        if self.peer.lost or (self.peer.incarnation is not None and self.peer.incarnation.dead):
            self.network.forget(self.number)
        if self.protocol is not None:
            self.protocol.connection_lost(error)


def _reset_error() -> ConnectionResetError:
    return ConnectionResetError(errno.ECONNRESET, "connection reset by peer")
