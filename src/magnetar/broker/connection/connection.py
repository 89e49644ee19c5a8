# long: reading, turns, writing and back-pressure of one connection share one state
"""One client connection: reads bytes, splits frames, passes commands to their handlers, writes answers in order.

Each read of the socket is one pass over all complete frames in it; consecutive sends of one producer are processed as
one run. A bounded number of other commands is processed in one turn of the loop; the rest stays unread until later
turns, so that a flood of the smallest frames gets no more processor time than other clients. A command with very many
message ids is processed in pieces, one per turn, and the commands behind it wait.

Reading pauses while too many published bytes wait for the disk or too many requests wait for an answer. Pushing pauses
while the peer does not read. So the memory of a connection is bounded for any behaviour of the peer. An invalid frame
closes the connection, and the log contains the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from magnetar.base.errors import BadFrame, MagnetarError
from magnetar.base.limits import (
    ALIVE_WAIT_S,
    CLIENT_OBJECT_BYTES,
    COMMAND_BYTES_MAX,
    COMMAND_COST,
    COMMAND_PIECE_COST,
    CONNECTION_CLOSED_IDS_MAX,
    CONNECTION_PENDING_BYTES_MAX,
    CONNECTION_REQUESTS_MAX,
    CONNECTION_REQUESTS_MIN,
    CONNECTION_TURN_COMMANDS_MAX,
    CONNECTION_WRITE_BYTES_HIGH,
    FRAME_JOIN_BYTES_MAX,
    HANDSHAKE_FRAME_BYTES_MAX,
    LARGE_COMMAND_BYTES_MIN,
    LISTING_COMMAND_BYTES_MAX,
    QUICK_COMMAND_COST,
    WATCH_OBJECT_BYTES,
)
from magnetar.broker.connection.creation_rate import CreationRate
from magnetar.broker.connection.producer_names import ProducerNames
from magnetar.broker.connection.property_limits import Charged, StoredProperties
from magnetar.broker.connection.recent_ids import RecentIds
from magnetar.broker.connection.refused_requests import RefusedRequests
from magnetar.broker.connection.round_trips import RoundTrips
from magnetar.broker.connection.unread import write_bytes_high
from magnetar.broker.handlers import COMMANDS, LISTING, large_commands, scalable, topic_list
from magnetar.broker.handlers.consume import REDELIVER, take_ack, take_flow, take_redeliver
from magnetar.broker.handlers.list_answers import ListAnswers
from magnetar.broker.handlers.produce import take_sends
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner
from magnetar.wire import commands, frames
from magnetar.wire.proto import pb

if TYPE_CHECKING:
    from magnetar.broker.handlers.namespace_watch import NamespaceWatch
    from magnetar.broker.handlers.scalable import StreamConsumerRegistration
    from magnetar.broker.node import Node
    from magnetar.scalable.watch.watches import WatchSession
    from magnetar.topic.producers.producer import Producer
    from magnetar.topic.subscriptions.consumer import Consumer

log = get("connection")


_BARE_PING_BYTES = 5  # type and an empty message: nothing in it could be wrong
_Rest = tuple[bytes, list[frames.Frame], int, int]  # a read, its frames, where the last one ends, the next one
_NOTHING: _Rest = (b"", [], 0, 0)


class Connection(asyncio.Protocol):
    """Keeps the `ClientChannel` contract of topics. Everything here runs on the loop; only `alive` waits."""

    def __init__(self, node: Node, generation: int) -> None:
        self.node = node
        self.generation = generation
        self.turns = node.runtime.turns
        self.peer = "?"
        self.address = "?"
        self.opened_ms = 0
        self.client_version = ""
        self.protocol_version = 0
        self.features: Any = None
        self.principal: str | None = None
        self.connected = False  # CONNECT was answered
        self.congested = False
        self.closed = False
        self.producers: dict[int, Producer] = Charged(node.kept, CLIENT_OBJECT_BYTES)
        self.consumers: dict[int, Consumer] = Charged(node.kept, CLIENT_OBJECT_BYTES)
        self.making_producers: dict[int, asyncio.Task[None]] = {}  # by id, as for the existing producers
        self.making_consumers: dict[int, asyncio.Task[None]] = {}
        self.watchers: dict[int, Any] = Charged(node.kept, WATCH_OBJECT_BYTES)
        # Watches of scalable topics and of namespaces, by their numbers.
        self.layouts: dict[int, WatchSession] = Charged(node.kept, WATCH_OBJECT_BYTES)
        self.memberships: dict[int, NamespaceWatch] = Charged(node.kept, WATCH_OBJECT_BYTES)
        self.shares: dict[int, StreamConsumerRegistration] = {}  # stream consumers, by their ids
        self.kept = StoredProperties(node.kept)
        self.list_answers = ListAnswers(self)
        self.producer_names = ProducerNames(node.producer_name, node.kept)
        self.closed_producers = RecentIds(CONNECTION_CLOSED_IDS_MAX)
        self.owner = Owner(f"connection {generation}", node.task_failed)
        self._transport: asyncio.Transport | None = None
        self._parts: list[bytes] = []  # of a frame that is not whole yet
        self._have = 0
        self._need = 0
        self._pending_bytes = 0
        self._requests = 0
        self.command_bytes = 0  # of the command that is being handled, where it is large
        self.refused = RefusedRequests(self._pause, self.resume_if_light)
        self.creations = CreationRate(lambda: self.peer)
        self._soon: list[bytes] = []  # receipts that leave with others at the end of this turn
        self._unread = 0  # bytes of answers written while the peer does not read
        self._reading_paused = False
        self._rest: _Rest | None = None  # frames of the last read that wait for their turn
        self._work: Iterator[None] | None = None  # the rest of a command that takes several turns, before `_rest`
        self._late: list[bytes] = []  # read before the transport heard that we pause
        self._heard = 0  # reads since the connection was made: any growth is a sign of life
        self._heard_at_tick = -1
        self._probes: list[asyncio.Future[bool]] = []
        self.round_trips = RoundTrips()
        self.frame_bytes_max = HANDSHAKE_FRAME_BYTES_MAX  # raised with `connected`

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=write_bytes_high(len(self.node.connections)))
        name = transport.get_extra_info("peername")
        self.peer = f"{name[0]}:{name[1]}" if isinstance(name, tuple) and len(name) >= 2 else str(name)
        self.address = self.peer.rsplit(":", 1)[0]
        self.opened_ms = self.node.runtime.wall()
        self.node.connection_opened(self)

    def data_received(self, data: bytes) -> None:
        if self.closed:
            return
        self._heard += 1
        if self._probes:
            self._answer_probes(True)
        if self._rest is not None:
            self._late.append(data)
            return
        if self.turns.left <= 0 and self.connected:
            self._put_off(data)
            return
        try:
            self._read(data)
        except Exception as error:
            self._broke(error)

    def pause_writing(self) -> None:
        self.congested = True
        if self._transport is not None:
            self.node.unread.add(self, self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self.congested = False
        self._unread = 0
        self.node.unread.remove(self)
        self.resume_if_light()
        subscriptions = (consumer.subscription for consumer in self.consumers.values())
        # Each once: every consumer of a subscription would pump for all of them.
        for dispatcher in dict.fromkeys(
            subscription.dispatcher for subscription in subscriptions if subscription is not None
        ):
            dispatcher.pump()
        scalable.resume(self)
        topic_list.resume(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._parts.clear()
        self._late.clear()
        self._soon.clear()
        self._rest = self._work = None
        self._answer_probes(False)
        self.round_trips.closed()
        scalable.lost(self)
        self.node.connection_closed(self)

    # Outlet

    def write(self, data: bytes) -> None:
        if self._soon:
            self._soon.append(data)
            self.flush()
        else:
            self._send(data)

    def write_soon(self, data: bytes) -> None:
        if self.closed:
            return
        if not self._soon:
            self.node.turn.add(self)
        self._soon.append(data)

    def flush(self) -> None:
        soon, self._soon = self._soon, []
        if soon:
            self._send(soon[0] if len(soon) == 1 else b"".join(soon))

    def _send(self, data: bytes) -> None:
        if self.closed or self._transport is None:
            return
        if self.congested:
            # Nothing is pushed now, so this answers a peer that asks and does not read: its questions must wait.
            self._unread += len(data)
            if self._unread > CONNECTION_WRITE_BYTES_HIGH:
                self._pause()
            self.node.unread.add(self, len(data))
            if self.closed:
                return
        self._transport.write(data)

    def released(self, size: int) -> None:
        self._pending_bytes -= size
        self.node.pending_bytes -= size
        if self._reading_paused:
            self._resume_if_light()

    async def alive(self) -> bool:
        if self.closed:
            return False
        if self._deaf:
            return True  # its answer would not be read: it may not be blamed for that
        probe: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._probes.append(probe)
        self._ping()
        try:
            async with asyncio.timeout(ALIVE_WAIT_S):
                return await probe
        except TimeoutError:
            self.abort("no response to PING while another client waits for a producer or consumer of this connection")
            return False

    async def round_trip(self) -> bool:
        self._ping()
        return not self.closed and await self.round_trips.answered(ALIVE_WAIT_S)

    def _ping(self) -> None:
        self.round_trips.pinged()
        self.write(commands.PING)

    # For handlers and the node

    def held(self, size: int) -> None:
        """Counts the bytes of a publish until `released`."""
        self._pending_bytes += size
        self.node.pending_bytes += size
        if self._pending_bytes > CONNECTION_PENDING_BYTES_MAX or self.node.pending_bytes > self.node.pending_bytes_max:
            self._pause()

    def request_started(self, size: int = 0) -> None:
        """`size`: the bytes of a large command. The caller calls `released`."""
        self._requests += 1
        if size:
            self.held(size)
        if self._requests >= self._requests_max():
            self._pause()

    def request_ended(self) -> None:
        self._requests -= 1
        if self._reading_paused:
            self._resume_if_light()

    def _requests_max(self) -> int:
        node = self.node
        return CONNECTION_REQUESTS_MAX if node.requests < node.requests_max else CONNECTION_REQUESTS_MIN

    def remember_closed(self, producer_id: int) -> None:
        self.closed_producers.add(producer_id)

    def forget(self) -> None:
        """Drops everything that the connection holds."""
        self.producers.clear()
        self.consumers.clear()
        self.watchers.clear()
        self.layouts.clear()
        self.memberships.clear()
        self.kept.clear()
        self.producer_names.clear()
        self.node.unread.remove(self)
        self.refused.close()
        self.node.partial_frames.remove(self)
        self.node.handshakes.leave(self)

    def close(self) -> None:
        """Closes after all written data is sent."""
        if not self.closed and self._transport is not None:
            self.flush()
            self._rest = self._work = None  # what waits for its turn could not be answered any more
            self._transport.close()

    def abort(self, reason: str) -> None:
        if not self.closed and self._transport is not None:
            log.warning("connection_closed", peer=self.peer, client=self.client_version, reason=reason)
            self.abort_unsaid()

    def abort_unsaid(self) -> None:
        """Aborts without logging; the caller logs the reason."""
        if self.closed or self._transport is None:
            return
        self.node.metrics.connections_aborted.value += 1
        self.closed = True
        # `close` would wait for unsent data, without limit if the peer is dead, and its consumers would wait too.
        self._transport.abort()

    @property
    def socket(self) -> Any:
        return None if self._transport is None else self._transport.get_extra_info("socket")

    def cut(self) -> None:
        """Closes without sending buffered data, as the end of a process does."""
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    def tick(self) -> None:
        """Runs once per keep-alive interval: aborts a peer that was silent since the last one; otherwise sends PING."""
        if not self.connected:
            return  # `HandshakeLimiter` ends it in time
        if self._heard == self._heard_at_tick and not self._deaf:
            self.abort("no data received since the last keep-alive")
        else:
            self._heard_at_tick = self._heard
            self._ping()

    @property
    def _deaf(self) -> bool:
        """Whether this broker has paused reading, so that silence is not the fault of the peer."""
        return self._rest is not None or (self._reading_paused and self._unread <= CONNECTION_WRITE_BYTES_HIGH)

    def resume_if_light(self) -> None:
        if self._reading_paused:
            self._resume_if_light()

    # Frames

    def _read(self, data: bytes) -> None:
        start = 0
        if self._have:
            if self._have + len(data) < self._need:
                self._gather(data)
                return
            data, start = self._complete(data)
            if self._rest is not None:  # it takes more turns: what came behind it is read after them
                if start < len(data):
                    self._late.insert(0, data[start:])
                return
        self._take(data, start)

    def _broke(self, error: Exception) -> None:
        if isinstance(error, MagnetarError):
            self.abort(str(error))
        else:  # a bug of ours: it ends this connection and no other
            self.node.task_failed(f"connection of {self.peer}", error)
            self.abort("internal error; see the broker log")

    def _complete(self, data: bytes) -> tuple[bytes, int]:
        """Joins the frame that was cut by the last read; returns the remaining data and its offset."""
        missing = self._need - self._have
        large = self._need > FRAME_JOIN_BYTES_MAX
        # A large frame is joined separately and processed first: joining the whole read would copy all data behind it.
        self._parts.append(data[:missing] if large else data)
        whole = b"".join(self._parts)
        self._parts.clear()
        self._have = 0
        if not large:
            return whole, 0
        self.node.partial_frames.remove(self)
        self._take(whole, 0)
        return data, missing

    def _take(self, data: bytes, start_at: int) -> None:
        complete, consumed = frames.split(data, start_at, self.frame_bytes_max)
        self._handle(data, complete, consumed, 0)

    def _handle(self, data: bytes, complete: list[frames.Frame], consumed: int, index: int) -> None:
        count = len(complete)
        turns = self.turns
        left = CONNECTION_TURN_COMMANDS_MAX
        while index < count and not self.closed:
            start, end, _ = complete[index]
            if data.startswith(frames.SEND_OPENING, start) and data[start + 3] == end - start - 4 < 128:
                kind = frames.SEND  # of the usual form: as `command_type` says, a call less
            else:
                kind = frames.command_type(data, start, end)
            if kind == frames.SEND and self.connected:
                index = take_sends(self, data, complete, index)
                if turns.left <= 0 and index < count:
                    self._wait_for_turn((data, complete, consumed, index))
                    return
                continue
            if left <= 0:
                self._wait_for_turn((data, complete, consumed, index))
                return
            left -= 1 + ((end - start) >> 10)
            turns.left -= QUICK_COMMAND_COST
            index += 1
            work: Iterator[None] | None = None
            if end - start > LARGE_COMMAND_BYTES_MIN and self.connected:
                work = self._large(kind, data, start, end)
            elif kind == frames.ACK and self.connected:
                work = take_ack(self, frames.read_ack(data, start, end))
            elif kind == REDELIVER and self.connected:
                work = take_redeliver(self, data, start, end)
            elif kind == frames.FLOW and self.connected:
                take_flow(self, *frames.read_flow(data, start, end))
            elif kind == frames.PING and self.connected and end - start == _BARE_PING_BYTES:
                self.write(commands.PONG)
            else:
                self._command(data, start, end)
            if work is not None and not self._worked(work):
                self._wait_for_turn((data, complete, consumed, index))
                return
        if consumed < len(data) and not self.closed:
            self._need = frames.frame_size(data, consumed)
            self._gather(data[consumed:])

    def _gather(self, part: bytes) -> None:
        self._parts.append(part)
        self._have += len(part)
        if self._need > FRAME_JOIN_BYTES_MAX:
            self.node.partial_frames.add(self, len(part))
            if self.node.pending_bytes > self.node.pending_bytes_max:
                self._pause()  # its rest would be one more that waits for the disk

    def _large(self, kind: int, data: bytes, start: int, end: int) -> Iterator[None] | None:
        if kind in large_commands.KINDS:
            return self._charged(large_commands.take_large(self, kind, data, start, end), end - start)
        bytes_max = LISTING_COMMAND_BYTES_MAX if kind in LISTING else COMMAND_BYTES_MAX
        if end - start > bytes_max:
            raise BadFrame("a command is too large", bytes=end - start, command_bytes_max=bytes_max)
        self.command_bytes = end - start
        try:
            self._command(data, start, end)
        finally:
            self.command_bytes = 0
        return None

    def _charged(self, work: Iterator[None], size: int) -> Iterator[None]:
        """Counts the bytes of the command until it is processed, or the connection is closed."""
        self.held(size)
        try:
            yield from work
        finally:
            self.released(size)

    def _worked(self, work: Iterator[None]) -> bool:
        """Runs one step of a command that takes several turns; returns whether it was the last."""
        self._work = None
        for _ in work:
            self.turns.left -= COMMAND_PIECE_COST
            self._work = work
            return False
        return True

    def _wait_for_turn(self, rest: _Rest) -> None:
        self._rest = rest
        if self._transport is not None:
            self._transport.pause_reading()
        self.turns.later(self._next_turn)

    def _put_off(self, data: bytes) -> None:
        """Other connections have used this turn of the loop: the read waits for the next one."""
        self._rest = _NOTHING
        self._late.append(data)
        if self._transport is not None:
            self._transport.pause_reading()
        self.turns.soon(self._next_turn)

    def _next_turn(self) -> None:
        rest, self._rest = self._rest, None
        if rest is None or self.closed:
            return
        try:
            if self._work is not None and not self._worked(self._work):
                self._rest = rest
                self.turns.later(self._next_turn)
                return
            self._handle(*rest)
            while self._late and self._rest is None and not self.closed:
                self._read(self._late.pop(0))
        except Exception as error:
            self._broke(error)
        if self._rest is None and not self._reading_paused and not self.closed and self._transport is not None:
            self._transport.resume_reading()

    def _command(self, data: bytes, start: int, end: int) -> None:
        self.turns.left -= COMMAND_COST
        command = frames.decode_command(data, start, end)
        if command is None:
            self.node.unknown_command(self)
            return
        if not self.connected and command.type != pb.BaseCommand.CONNECT:
            raise BadFrame(f"{pb.BaseCommand.Type.Name(command.type)} before CONNECT")
        handler = COMMANDS.get(command.type)
        if handler is None:
            raise BadFrame(
                f"{pb.BaseCommand.Type.Name(command.type)} is a response of the broker; a client must not send it"
            )
        handler(self, command)

    # Back-pressure

    def _pause(self) -> None:
        if not self._reading_paused and not self.closed and self._transport is not None:
            self._reading_paused = True
            self.node.paused[self] = None
            self._transport.pause_reading()

    def _resume_if_light(self) -> None:
        if (
            self._pending_bytes <= CONNECTION_PENDING_BYTES_MAX // 2
            and self.node.pending_bytes <= self.node.pending_bytes_max
            and self._requests < self._requests_max()
            and self._unread <= CONNECTION_WRITE_BYTES_HIGH
            and not self.refused.pausing
        ):
            self._reading_paused = False
            self.node.paused.pop(self, None)
            if self._rest is None and not self.closed and self._transport is not None:
                self._transport.resume_reading()

    def _answer_probes(self, alive: bool) -> None:
        probes, self._probes = self._probes, []
        for probe in probes:
            if not probe.done():
                probe.set_result(alive)
