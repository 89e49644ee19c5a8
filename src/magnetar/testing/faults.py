"""Faults of a broker in a test's process: what a network or a disk does to a real one, at the moment a test chooses.

They sit at two seams of the broker, so that nothing of it is patched: its loop's `create_server`, where bytes of
clients come and go, and its `Files`. Only connections of Pulsar's binary protocol are concerned; REST goes on.
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

_TYPE_AT = 8  # of a command in its frame, behind two sizes
_TYPE_BYTES = 3  # its tag and its value


class Faults:
    """What is switched on, of one broker over all its lives. Set in any thread, read in the broker's."""

    def __init__(self) -> None:
        self.lose: Lost | None = None  # of the next send
        self.delay_s = 0.0
        self.disk_full = False
        self.links: dict[Link, None] = {}

    def cut(self) -> None:
        """In the broker's thread."""
        for link in list(self.links):
            link.abort()

    def between(self, inner: asyncio.BaseProtocol) -> asyncio.BaseProtocol:
        """What a server's socket talks to instead of `inner`."""
        return Link(self, inner) if isinstance(inner, Connection) else inner


class Link(asyncio.Protocol):
    """Between a client's socket and the broker's connection."""

    def __init__(self, faults: Faults, inner: Connection) -> None:
        self._faults = faults
        self._inner = inner
        self._transport: asyncio.Transport | None = None
        self._over = False
        self._late: deque[bytes] = deque()  # read, and kept from the broker for a while
        self._left = 0  # bytes of the frame that has begun
        self._size = b""  # the first bytes of a frame, fewer than its size takes

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
        """Is this the receipt that is to be lost? Then the connection is cut instead."""
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
        self._late.append(data)  # nothing overtakes what is late
        asyncio.get_running_loop().call_later(delay_s, self._hand_over_late)

    def _hand_over_late(self) -> None:
        if self._late:
            self._inner.data_received(self._late.popleft())

    def _starts(self, data: bytes) -> list[int]:
        """Where frames begin in what was read."""
        found: list[int] = []
        at = 0
        if self._size:
            missing = 4 - len(self._size)
            self._size += data[:missing]
            if len(self._size) < 4:
                return found
            at, self._left, self._size = missing, int.from_bytes(self._size, "big"), b""
        while True:
            step = min(self._left, len(data) - at)
            self._left -= step
            at += step
            if self._left or at == len(data):
                return found
            found.append(at)
            if len(data) - at < 4:
                self._size = data[at:]
                return found
            self._left = int.from_bytes(data[at : at + 4], "big")
            at += 4


class Outgoing:
    """The transport, as the broker's connection sees it."""

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
    """For a loop: its servers talk to clients through `faults`."""

    faults: Faults

    async def create_server(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], *args: Any, **kwargs: Any
    ) -> Any:
        made = super().create_server  # type: ignore[misc]
        return await made(lambda: self.faults.between(protocol_factory()), *args, **kwargs)


class FaultFiles:
    """A disk that is full while a test says so. Keeps the `Files` contract."""

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
    """A file on it."""

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
            raise StorageFull("no space left on the disk, because a test says so", path=self.path)


def _has_receipt(data: bytes) -> bool:
    try:
        found, _ = frames.split(data, 0, CLIENT_FRAME_BYTES_MAX)
    except BadFrame:
        return False
    return any(frames.command_type(data, start, middle) == SEND_RECEIPT for start, middle, _ in found)
