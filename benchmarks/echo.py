"""The ceilings: a bare uvloop server that writes back what it reads, as bytes or frame by frame.

As bytes it shows what the loop and the kernel can carry when nobody looks at a frame. Frame by frame it finds where
each frame ends, takes each one out and writes a read's worth back at once: the least that anything can do, in Python,
which answers every publish on its own.
"""

from __future__ import annotations

import asyncio
import struct
import sys

import uvloop

_size = struct.Struct(">I")


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)

    def pause_writing(self) -> None:
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        self.transport.resume_reading()


class FrameEcho(Echo):
    rest = b""

    def data_received(self, data: bytes) -> None:
        if self.rest:
            data = self.rest + data
        at, end = 0, len(data)
        size = _size.unpack_from
        whole: list[bytes] = []
        while end - at >= 4:
            after = at + 4 + size(data, at)[0]
            if after > end:
                break
            whole.append(data[at:after])
            at = after
        self.transport.write(b"".join(whole))
        self.rest = data[at:]


async def serve(port: int, kind: type[Echo]) -> None:
    server = await asyncio.get_running_loop().create_server(kind, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), {"bytes": Echo, "frames": FrameEcho}[sys.argv[2]]))
