"""How much room is made for one read of a socket: little while answers are small, much while large batches come.

asyncio's own transport makes a new buffer of one size for every read. Of 128 KiB or more the allocator maps new pages
each time, which costs more than a small answer; of less, a large batch comes in many pieces that must be joined. Other
transports have their own ways and are left alone.
"""

from __future__ import annotations

from typing import Any

from magnetar.base.limits import CLIENT_READ_BYTES_LARGE, CLIENT_READ_BYTES_SMALL


class ReadBufferSizer:
    __slots__ = ("_transport", "size")

    def __init__(self, transport: Any = None) -> None:
        self._transport = transport
        self.size = 0  # 0: not ours to say
        if hasattr(transport, "max_size"):
            self._make(CLIENT_READ_BYTES_SMALL)

    def took(self, size: int) -> None:
        """A read came back with so much."""
        if not self.size:
            return
        if size == self.size:
            self._make(CLIENT_READ_BYTES_LARGE)
        elif self.size == CLIENT_READ_BYTES_LARGE and size < CLIENT_READ_BYTES_SMALL:
            self._make(CLIENT_READ_BYTES_SMALL)

    def _make(self, size: int) -> None:
        self._transport.max_size = self.size = size
