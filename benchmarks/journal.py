"""The durable floor: a uvloop server that appends what it reads to a journal, syncs, and answers a byte for each frame.

No parsing, no checks, no entries: a socket copy and a journal write. A writer thread takes all that is queued, writes
it into preallocated files with one call, syncs once and tells the loop once, so that reading goes on meanwhile; that is
the best shape known for this work and the one the broker is held against. A frame's length comes from the command
line, since it does not look.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sys
import threading
from pathlib import Path

import uvloop

FILE_BYTES = 64 << 20
PENDING_BYTES_MAX = 64 << 20


class Journal:
    """Appends to numbered files, each preallocated and all kept, as a broker keeps what it acknowledged: a file removed
    at once would hand its warm pages to the next one, and the floor would be measured without a disk cache that grows.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 0
        self._file = -1
        self._roll()

    def append(self, buffers: list[bytes]) -> None:
        size = sum(map(len, buffers))
        if self._at + size > FILE_BYTES:
            self._roll()
        for first in range(0, len(buffers), 512):  # the kernel takes at most 1024 buffers in a call
            self._at += os.pwritev(self._file, buffers[first : first + 512], self._at)
        os.fdatasync(self._file)

    def _roll(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._number += 1
        self._file = os.open(self._folder / f"{self._number}.journal", os.O_RDWR | os.O_CREAT)
        os.posix_fallocate(self._file, 0, FILE_BYTES)
        os.fsync(self._file)
        self._at = 0


class Writer(threading.Thread):
    def __init__(self, journal: Journal, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(daemon=True)
        self.queue: queue.SimpleQueue[tuple[Copy, bytes]] = queue.SimpleQueue()
        self._journal = journal
        self._loop = loop

    def run(self) -> None:
        while True:
            batch = [self.queue.get()]
            size = len(batch[0][1])
            while size < FILE_BYTES // 8 and not self.queue.empty():
                batch.append(self.queue.get())
                size += len(batch[-1][1])
            self._journal.append([data for _, data in batch])
            self._loop.call_soon_threadsafe(self._answer, batch)

    def _answer(self, batch: list[tuple[Copy, bytes]]) -> None:
        for copy, data in batch:
            copy.durable(len(data))
        for copy in dict.fromkeys(copy for copy, _ in batch):
            copy.answer()


class Copy(asyncio.Protocol):
    def __init__(self, writer: Writer, frame_bytes: int) -> None:
        self._writer = writer
        self._frame_bytes = frame_bytes
        self._rest = 0
        self._pending = 0
        self._answers = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._pending += len(data)
        self._writer.queue.put((self, data))
        if self._pending > PENDING_BYTES_MAX:
            self._transport.pause_reading()

    def durable(self, size: int) -> None:
        self._pending -= size
        count, self._rest = divmod(self._rest + size, self._frame_bytes)
        self._answers += count

    def answer(self) -> None:
        if self._answers:
            self._transport.write(b"." * self._answers)
            self._answers = 0
        if self._pending <= PENDING_BYTES_MAX and not self._transport.is_reading():
            self._transport.resume_reading()


async def serve(port: int, folder: Path, frame_bytes: int) -> None:
    loop = asyncio.get_running_loop()
    writer = Writer(Journal(folder), loop)
    writer.start()
    server = await loop.create_server(lambda: Copy(writer, frame_bytes), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))
