"""A wire-level load generator: raw non-blocking sockets, one epoll, ready-made frames, answers counted by walking them.

It does as little as Python can for a message so that the peer is what is measured: a whole window of frames leaves in
one `send`, a whole read of receipts is walked in one loop. It speaks to a broker, or to a peer that answers a known
number of bytes per frame (`answer_bytes`): the echo and the journal copy. Every run reports its own processor time,
since a generator that is busy all of the time has measured itself.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from dataclasses import dataclass, field

from benchmarks import frames
from benchmarks.frames import Block
from magnetar.wire.proto import pb

READ_BYTES = 1 << 20
WARM_UP_S = 0.5
PERMITS = 20_000
ACKNOWLEDGE_EVERY = 5_000

_size = struct.Struct(">I")


class Refused(Exception):
    """The peer answered a publish with an error, or closed the connection."""


@dataclass(slots=True)
class Counted:
    """What a run saw. `messages` were answered within `seconds`; warm-up is not in it."""

    messages: int
    seconds: float
    own_cpu_s: float
    consumed: int = 0
    latencies_s: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.messages / self.seconds


class Link:
    """One connection. Handshakes block; load does not."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.rest = b""  # the beginning of a frame whose end has not arrived
        self.requests = 0

    def close(self) -> None:
        self.socket.close()

    def ask(self, frame: bytes, until: pb.BaseCommand.Type) -> pb.BaseCommand:
        """Send, and wait for the first command of that kind."""
        self.socket.sendall(frame)
        while True:
            answer = self.command()
            if answer.type == until:
                return answer
            if answer.type == frames.ERROR:
                raise Refused(f"{answer.error.error}: {answer.error.message}")

    def command(self) -> pb.BaseCommand:
        head = self._exactly(8)
        total, size = _size.unpack_from(head)[0], _size.unpack_from(head, 4)[0]
        body = self._exactly(total - 4)
        return pb.BaseCommand.FromString(body[:size])

    def connect(self) -> None:
        self.ask(frames.connect(), pb.BaseCommand.CONNECTED)

    def produce(self, topic: str, producer_id: int = 1) -> None:
        self.requests += 1
        self.ask(frames.producer(topic, producer_id, self.requests), pb.BaseCommand.PRODUCER_SUCCESS)

    def stop_producing(self, producer_id: int = 1) -> None:
        self.requests += 1
        self.ask(frames.close_producer(producer_id, self.requests), pb.BaseCommand.SUCCESS)

    def consume(self, topic: str, consumer_id: int = 1) -> None:
        self.requests += 1
        self.ask(frames.subscribe(topic, consumer_id, self.requests), pb.BaseCommand.SUCCESS)
        self.socket.sendall(frames.flow(consumer_id, PERMITS))

    def _exactly(self, size: int) -> bytes:
        while len(self.rest) < size:
            more = self.socket.recv(READ_BYTES)
            if not more:
                raise Refused("the peer closed the connection")
            self.rest += more
        taken, self.rest = self.rest[:size], self.rest[size:]
        return taken


class Publisher:
    """Keeps a window of frames in flight on one link."""

    def __init__(self, link: Link, block: Block, window: int, answer_bytes: int | None) -> None:
        self.link = link
        self.window = window
        self.in_flight = 0
        self.answered = 0
        self._block = block
        self._view = memoryview(block.body)
        self._at = 0  # where in the block the next byte comes from
        self._end = 0  # up to where the block may be sent
        self._answer_bytes = answer_bytes
        self._answer_rest = 0

    def fill(self) -> None:
        """Send until the window or the socket is full."""
        block = self._block
        while True:
            if self._at == self._end:
                room = self.window - self.in_flight
                if room <= 0:
                    return
                if self._at == len(block.body):
                    self._at = 0
                count = min(room, block.frames - self._at // block.frame_bytes)
                self._end = self._at + count * block.frame_bytes
                self.in_flight += count
            try:
                self._at += self.link.socket.send(self._view[self._at : self._end])
            except BlockingIOError:
                return

    @property
    def blocked(self) -> bool:
        """The socket took less than it was given."""
        return self._at != self._end

    def heard(self, data: bytes) -> None:
        if self._answer_bytes is not None:
            count, self._answer_rest = divmod(self._answer_rest + len(data), self._answer_bytes)
        else:
            count = self._walk(data)
        self.answered += count
        self.in_flight -= count

    def _walk(self, data: bytes) -> int:
        if self.link.rest:
            data = self.link.rest + data
        at, end, count = 0, len(data), 0
        unpack = _size.unpack_from
        while end - at >= 10:
            after = at + 4 + unpack(data, at)[0]
            if after > end:
                break
            kind = data[at + 9]  # a command begins with field 1, its type: 08, then the number
            if kind == frames.SEND_RECEIPT:
                count += 1
            elif kind == frames.PING:
                self.link.socket.send(frames.pong())
            elif kind in (frames.SEND_ERROR, frames.ERROR):
                raise Refused(str(pb.BaseCommand.FromString(data[at + 8 : at + 8 + unpack(data, at + 4)[0]])))
            at = after
        self.link.rest = data[at:]
        return count


class Tail:
    """Consumes at the tail: counts MESSAGE frames, keeps permits up, acknowledges cumulatively now and then."""

    def __init__(self, link: Link, consumer_id: int = 1) -> None:
        self.link = link
        self.consumed = 0
        self._id = consumer_id
        self._owed = 0
        self._unacknowledged = 0

    def heard(self, data: bytes) -> None:
        if self.link.rest:
            data = self.link.rest + data
        at, end, last = 0, len(data), -1
        unpack = _size.unpack_from
        while end - at >= 10:
            after = at + 4 + unpack(data, at)[0]
            if after > end:
                break
            kind = data[at + 9]
            if kind == frames.MESSAGE:
                self.consumed += 1
                self._owed += 1
                last = at
            elif kind == frames.PING:
                self.link.socket.send(frames.pong())
            at = after
        if last >= 0 and self._owed >= ACKNOWLEDGE_EVERY:
            message = pb.BaseCommand.FromString(data[last + 8 : last + 8 + unpack(data, last + 4)[0]]).message
            answer = frames.flow(self._id, self._owed) + frames.acknowledge_up_to(self._id, message.message_id)
            self.link.socket.send(answer)  # small: a full buffer here would mean the broker reads nothing
            self._owed = 0
        self.link.rest = data[at:]


def blast(
    links: list[Link],
    block: Block,
    *,
    window: int,
    seconds: float,
    answer_bytes: int | None = None,
    tails: list[Link] | None = None,
) -> Counted:
    """Publish as fast as the window allows, on all links at once, for so long."""
    poll = select.epoll()
    publishers = {link.socket.fileno(): Publisher(link, block, window, answer_bytes) for link in links}
    readers = {link.socket.fileno(): Tail(link) for link in tails or []}
    hearers: dict[int, Publisher | Tail] = {**publishers, **readers}
    for number, hearer in hearers.items():
        hearer.link.socket.setblocking(False)
        poll.register(number, select.EPOLLIN)
    waiting: set[int] = set()
    begun = time.perf_counter()
    measured_from, deadline = begun + WARM_UP_S, begun + WARM_UP_S + seconds
    answered_before = consumed_before = 0
    cpu_before = -1.0
    for publisher in publishers.values():
        publisher.fill()
    while True:
        for number, event in poll.poll(1.0):
            hearer = hearers[number]
            if event & select.EPOLLIN:
                data = hearer.link.socket.recv(READ_BYTES)
                if not data:
                    raise Refused("the peer closed the connection")
                hearer.heard(data)
            elif event & (select.EPOLLHUP | select.EPOLLERR):
                raise Refused("the connection broke")
            if isinstance(hearer, Publisher):
                hearer.fill()
                if hearer.blocked and number not in waiting:
                    waiting.add(number)
                    poll.modify(number, select.EPOLLIN | select.EPOLLOUT)
                elif not hearer.blocked and number in waiting:
                    waiting.remove(number)
                    poll.modify(number, select.EPOLLIN)
        now = time.perf_counter()
        if now < measured_from:
            continue
        answered = sum(publisher.answered for publisher in publishers.values())
        consumed = sum(tail.consumed for tail in readers.values())
        if cpu_before < 0:
            answered_before, consumed_before, cpu_before, measured_from = answered, consumed, time.process_time(), now
            deadline = now + seconds
        elif now >= deadline:
            break
    poll.close()
    return Counted(
        messages=(answered - answered_before) * block.messages_per_frame,
        seconds=now - measured_from,
        own_cpu_s=time.process_time() - cpu_before,
        consumed=(consumed - consumed_before) * block.messages_per_frame,
    )


def one_at_a_time(link: Link, block: Block, *, count: int, answer_bytes: int | None = None) -> Counted:
    """Synchronous publish: the next frame leaves when the last was answered. `latencies_s` has one figure a message."""
    link.socket.setblocking(True)
    latencies: list[float] = []
    view = memoryview(block.body)
    clock = time.perf_counter
    cpu_before, begun = time.process_time(), clock()
    for number in range(count):
        at = number % block.frames * block.frame_bytes
        sent = clock()
        link.socket.sendall(view[at : at + block.frame_bytes])
        if answer_bytes is not None:
            left = answer_bytes
            while left:
                left -= len(link.socket.recv(left))
        elif link.command().type != frames.SEND_RECEIPT:
            raise Refused("a publish was not answered with a receipt")
        latencies.append(clock() - sent)
    return Counted(count, clock() - begun, time.process_time() - cpu_before, latencies_s=latencies)
