"""Faults of a broker in a test's process: failures of network or disk at a moment that the test chooses.

They use two interfaces of the broker, so nothing is patched: the `create_server` of its loop, which carries the bytes
of clients, and its `Files`. They affect only connections of Pulsar's binary protocol; REST continues.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

from magnetar.base.errors import BadFrame, StorageFull
from magnetar.base.limits import CLIENT_FRAME_BYTES_MAX
from magnetar.broker.connection.connection import Connection
from magnetar.runtime.files import Buffer, File, Files, Lock
from magnetar.wire import frames
from magnetar.wire.client_readers import SEND_RECEIPT

Lost = Literal["message", "receipt"]

_TYPE_AT = 8  # position of a command's type in its frame, after two sizes
_TYPE_BYTES = 3  # tag and value of the type


class Faults:
    """The active faults of one broker, kept across restarts. Set in any thread, read in the broker's."""

    def __init__(self) -> None:
        self.lose: Lost | None = None  # applies to the next send
        self.delay_s = 0.0
        self.disk_full = False
        self.links: dict[Link, None] = {}

    def cut(self) -> None:
        """In the broker's thread."""
        for link in list(self.links):
            link.abort()

    def between(self, inner: asyncio.BaseProtocol) -> asyncio.BaseProtocol:
        """The protocol that a server's socket uses instead of `inner`."""
        return Link(self, inner) if isinstance(inner, Connection) else inner


class Link(asyncio.Protocol):
    """Sits between a client's socket and the broker's connection."""

    def __init__(self, faults: Faults, inner: Connection) -> None:
        self._faults = faults
        self._inner = inner
        self._transport: asyncio.Transport | None = None
        self._over = False
        self._late: deque[bytes] = deque()  # received bytes that the broker gets later
        self._left = 0  # remaining bytes of the current frame
        self._size = b""  # incomplete size field of a frame

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._faults.links[self] = None
        self._inner.connection_made(cast(asyncio.BaseTransport, Outgoing(self, self._transport)))

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        for start in self._starts(data):
            kind = data[start + _TYPE_AT : start + _TYPE_AT + _TYPE_BYTES]
            if self._faults.lose == "message" and kind[:2] == bytes((0x08, frames.SEND)):
                self._faults.lose = None
                data = data[:start]
                self._hand_over(data)
                self.abort()
                return
        self._hand_over(data)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._over = True
        self._late.clear()
        self._faults.links.pop(self, None)
        self._inner.connection_lost(exc)

    def abort(self) -> None:
        self._over = True
        if self._transport is not None:
            self._transport.abort()

    def loses(self, data: Buffer) -> bool:
        """Whether this is the receipt to lose. If so, the connection is cut."""
        if self._faults.lose != "receipt" or not _has_receipt(bytes(data)):
            return False
        self._faults.lose = None
        self.abort()
        return True

    def _hand_over(self, data: bytes) -> None:
        if not data:
            return
        delay_s = self._faults.delay_s
        if not delay_s and not self._late:
            self._inner.data_received(data)
            return
        self._late.append(data)  # keeps the order behind delayed data
        asyncio.get_running_loop().call_later(delay_s, self._hand_over_late)

    def _hand_over_late(self) -> None:
        if self._late:
            self._inner.data_received(self._late.popleft())

    def _starts(self, data: bytes) -> list[int]:
        """The start of each frame in the received data."""
        starts: list[int] = []
        at = 0
        if self._size:
            missing = 4 - len(self._size)
            self._size += data[:missing]
            if len(self._size) < 4:
                return starts
            at, self._left, self._size = missing, int.from_bytes(self._size, "big"), b""
        while True:
            step = min(self._left, len(data) - at)
            self._left -= step
            at += step
            if self._left or at == len(data):
                return starts
            starts.append(at)
            if len(data) - at < 4:
                self._size = data[at:]
                return starts
            self._left = int.from_bytes(data[at : at + 4], "big")
            at += 4


class Outgoing:
    """The transport that the broker's connection sees."""

    def __init__(self, link: Link, transport: asyncio.Transport) -> None:
        self._link = link
        self._transport = transport

    def write(self, data: Buffer) -> None:
        if not self._link.loses(data):
            self._transport.write(data)

    def writelines(self, parts: Sequence[Buffer]) -> None:
        self.write(b"".join(parts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class FaultServers:
    """A loop mix-in: its servers communicate with clients through `faults`."""

    faults: Faults

    async def create_server(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], *args: Any, **kwargs: Any
    ) -> Any:
        create_server = super().create_server  # type: ignore[misc]
        return await create_server(lambda: self.faults.between(protocol_factory()), *args, **kwargs)


class FaultFiles:
    """A disk that is full when a test says so. Implements the `Files` contract."""

    def __init__(self, files: Files, faults: Faults) -> None:
        self._files = files
        self._faults = faults

    def open(self, path: str, *, create: bool = False) -> File:
        return FaultFile(self._files.open(path, create=create), self._faults)

    def exists(self, path: str) -> bool:
        return self._files.exists(path)

    def rename(self, old: str, new: str) -> None:
        self._files.rename(old, new)

    def remove(self, path: str) -> None:
        self._files.remove(path)

    def mkdir(self, directory: str) -> None:
        self._files.mkdir(directory)

    def sync_dir(self, directory: str) -> None:
        self._files.sync_dir(directory)

    def free(self, directory: str) -> int:
        return 0 if self._faults.disk_full else self._files.free(directory)

    def capacity(self, directory: str) -> int:
        return self._files.capacity(directory)

    def lock(self, path: str, holder: str) -> Lock:
        return self._files.lock(path, holder)

    def list(self, directory: str) -> list[str]:
        return self._files.list(directory)


class FaultFile:
    """A file on that disk."""

    def __init__(self, file: File, faults: Faults) -> None:
        self.path = file.path
        self._file = file
        self._faults = faults
        self.size, self.pread, self.datasync = file.size, file.pread, file.datasync
        self.truncate, self.close = file.truncate, file.close

    def pwritev(self, buffers: Sequence[Buffer], offset: int) -> int:
        self._check()
        return self._file.pwritev(buffers, offset)

    def allocate(self, size: int, *, written: bool = True) -> None:
        self._check()
        self._file.allocate(size, written=written)

    def _check(self) -> None:
        if self._faults.disk_full:
            raise StorageFull("no space left on the disk: simulated by a test", path=self.path)


def _has_receipt(data: bytes) -> bool:
    try:
        complete, _ = frames.split(data, 0, CLIENT_FRAME_BYTES_MAX)
    except BadFrame:
        return False
    return any(frames.command_type(data, start, middle) == SEND_RECEIPT for start, middle, _ in complete)
