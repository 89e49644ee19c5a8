"""The buffer size for one read of a socket: small while answers are small, large while large batches arrive.

asyncio's own transport allocates a new buffer of one fixed size for every read. From 128 KiB on the allocator maps new
pages each time, which costs more than a small answer; below that, a large batch arrives in many pieces that must be
joined. Transports of other event loops manage their own buffers and are not changed.
"""

from __future__ import annotations

from typing import Any

from magnetar.base.limits import CLIENT_READ_BYTES_LARGE, CLIENT_READ_BYTES_SMALL


class ReadBufferSizer:
    __slots__ = ("_transport", "size")

    def __init__(self, transport: Any = None) -> None:
        self._transport = transport
        self.size = 0  # 0: the transport manages its own buffer
        if hasattr(transport, "max_size"):
            self._make(CLIENT_READ_BYTES_SMALL)

    def took(self, size: int) -> None:
        """A read returned this many bytes."""
        if not self.size:
            return
        if size == self.size:
            self._make(CLIENT_READ_BYTES_LARGE)
        elif self.size == CLIENT_READ_BYTES_LARGE and size < CLIENT_READ_BYTES_SMALL:
            self._make(CLIENT_READ_BYTES_SMALL)

    def _make(self, size: int) -> None:
        self._transport.max_size = self.size = size
