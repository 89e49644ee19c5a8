"""Ten thousand watches of one layout over a hundred connections, by raw sockets: when was the last of them told?

Bytes are only kept with the time they came at while the split is under way, and read afterwards, so that the reader is
not what is measured. A watch counts as told when it was shown the children.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from dataclasses import dataclass

from benchmarks import frames
from benchmarks.load import READ_BYTES, Link
from benchmarks.peer import Peer
from magnetar.wire.proto import pb

CONNECTIONS, SESSIONS = 100, 100  # watches on each
SILENCE_S = 1.0  # nothing more comes

_size = struct.Struct(">I")
_UPDATE = pb.BaseCommand.SCALABLE_TOPIC_UPDATE


@dataclass(frozen=True, slots=True)
class Told:
    """Seconds, from the moment the split was asked for: its answer, the first watch that was told, the last."""

    answered_s: float
    first_s: float
    last_s: float
    watches: int


def watched_split(peer: Peer, topic: str) -> Told:
    links = [_watching(peer, topic, number * SESSIONS) for number in range(CONNECTIONS)]
    read: dict[int, list[tuple[float, bytes]]] = {link.socket.fileno(): [] for link in links}
    sockets = {link.socket.fileno(): link.socket for link in links}
    poll = select.epoll()
    for number, one in sockets.items():
        one.setblocking(False)
        poll.register(number, select.EPOLLIN)
    asking = _asked(peer, topic)
    begun = time.perf_counter()
    answered = begun
    poll.register(asking.fileno(), select.EPOLLIN)
    while events := poll.poll(SILENCE_S):
        now = time.perf_counter()
        for number, _ in events:
            if number == asking.fileno():
                answered = now
                poll.unregister(number)
            else:
                read[number].append((now, sockets[number].recv(READ_BYTES)))
    asking.close()
    poll.close()
    told: dict[tuple[int, int], float] = {}
    for link in links:
        _times(link.socket.fileno(), link.rest, read[link.socket.fileno()], told)
        link.close()
    times = sorted(at - begun for at in told.values())
    return Told(answered - begun, times[0], times[-1], len(times))


def _watching(peer: Peer, topic: str, first: int) -> Link:
    link = peer.connect()
    link.connect()
    ask = b"".join(_watch(first + number, topic) for number in range(SESSIONS))
    link.socket.sendall(ask)
    for _ in range(SESSIONS):
        if link.command().type != _UPDATE:
            raise SystemExit("a watch was not answered with a layout")
    return link


def _watch(session: int, topic: str) -> bytes:
    fields = {"session_id": session, "topic": topic}
    return frames.framed(pb.BaseCommand(type=pb.BaseCommand.SCALABLE_TOPIC_LOOKUP, scalableTopicLookup=fields))


def _asked(peer: Peer, topic: str) -> socket.socket:
    path = topic.removeprefix("topic://")
    link = socket.create_connection(("127.0.0.1", peer.http_port))
    head = f"POST /admin/v2/scalable/{path}/split/0 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0"
    link.sendall(f"{head}\r\n\r\n".encode())
    return link


def _times(link: int, rest: bytes, read: list[tuple[float, bytes]], told: dict[tuple[int, int], float]) -> None:
    """When each watch of a connection was first shown the children."""
    data = rest
    for at, more in read:
        data += more
        while len(data) >= 8 and len(data) >= 4 + _size.unpack_from(data)[0]:
            total, size = _size.unpack_from(data)[0], _size.unpack_from(data, 4)[0]
            command = pb.BaseCommand.FromString(data[8 : 8 + size])
            data = data[4 + total :]
            update = command.scalableTopicUpdate
            if command.type == _UPDATE and len(update.dag.segments) > 1:  # the parent and its children
                told.setdefault((link, update.session_id), at)
