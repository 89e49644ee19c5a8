"""A TCP proxy that can cut: what lies between a stock client and its broker when a cable is pulled.

It forwards bytes both ways and rewrites one thing: the broker's own port in lookup answers, so that clients come back
through it (the two ports have the same number of digits, no length changes). With `edit` it also hands every frame of
the client to a function, which may say what the client has no option for. Threads, because the stock client's own
threads are on the other side.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

BLOCK_BYTES = 65536
ATTEMPTS_MAX = 200


class Proxy:
    def __init__(self, target_port: int, edit: Callable[[bytes], bytes] | None = None) -> None:
        """`edit` gets each whole frame of the client, its size in front, and returns what goes on."""
        self._target = target_port
        self._edit = edit
        self._lock = threading.Lock()
        self._links: list[tuple[socket.socket, socket.socket]] = []
        self._closed = False
        self._refusing = False
        self._listener = _listen(target_port)
        self.port: int = self._listener.getsockname()[1]
        self._told = f"localhost:{target_port}".encode()
        self._tell = f"localhost:{self.port}".encode()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"pulsar://localhost:{self.port}"

    def cut(self) -> int:
        """Reset every connection at once, both sides; how many there were."""
        with self._lock:
            links, self._links = self._links, []
        for link in links:
            for end in link:
                _reset(end)
        return len(links)

    def refuse(self, refusing: bool) -> None:
        """While refusing, new connections are reset as soon as they come."""
        self._refusing = refusing

    def close(self) -> None:
        self._closed = True
        self._listener.close()
        self.cut()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing or self._closed:
                _reset(near)
                continue
            try:
                far = socket.create_connection(("localhost", self._target))
            except OSError:
                _reset(near)
                continue
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._links.append((near, far))
            threading.Thread(target=self._forward, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self._forward, args=(far, near, True), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, rewrite: bool) -> None:
        held = b""
        try:
            while block := source.recv(BLOCK_BYTES):
                if rewrite:
                    block = block.replace(self._told, self._tell)
                elif self._edit is not None:
                    frames, held = _whole(held + block)
                    block = b"".join(map(self._edit, frames))
                sink.sendall(block)
        except OSError:
            pass
        _reset(sink)


def _whole(data: bytes) -> tuple[list[bytes], bytes]:
    """The frames that are complete, and the rest."""
    frames = []
    while len(data) >= 4 and len(data) >= (size := 4 + int.from_bytes(data[:4], "big")):
        frames.append(data[:size])
        data = data[size:]
    return frames, data


def _listen(like: int) -> socket.socket:
    """A free port with as many digits as the broker's."""
    for _ in range(ATTEMPTS_MAX):
        listener = socket.create_server(("localhost", 0))
        if len(str(listener.getsockname()[1])) == len(str(like)):
            return listener
        listener.close()
    raise AssertionError(f"no free port with as many digits as {like}")


def _reset(end: socket.socket) -> None:
    try:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    end.close()
