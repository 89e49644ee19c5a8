"""The entries of one topic that wait, undecoded, until the receive queue has room for their messages.

Permits are granted before message sizes are known, and a few kilobytes can expand to hundreds of megabytes. So an entry
counts with the size that its metadata declares before it is decompressed, and waits if that does not fit. Later entries
wait behind it, which keeps their order. While one waits, no topic requests more messages, so that the queue empties;
any entry fits an empty queue. An entry of a writer with an unknown schema waits too, until `unblock`; that needs no
room, so other topics go on. Pure decisions: `delivery` decodes entries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from magnetar.client.consumer.receive.receive_queue import TopicQueue
from magnetar.wire.client_readers import MessageParts
from magnetar.wire.proto import pb


class CompressedEntries:
    """`take` decodes an entry, or returns it with `wait`."""

    __slots__ = ("_blocked", "_claimed", "_entries", "_queue", "_take", "opening")

    def __init__(self, queue: TopicQueue, take: Callable[[MessageParts, bytes], None]) -> None:
        self._queue = queue
        self._take = take
        self._entries: deque[tuple[MessageParts, bytes]] = deque()
        self._claimed = 0  # declared size of the first one
        self._blocked = False  # the first one waits for its writer's schema
        self.opening = False  # whether the entry being decoded is one of them
        queue.reopen = self.reopen

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, parts: MessageParts, entry: bytes) -> None:
        """Queue an entry behind the waiting ones."""
        self._entries.append((parts, entry))

    def must_wait(self, metadata: pb.MessageMetadata) -> bool:
        """Whether a compressed entry has no room. Of a chunked message only the last chunk is decompressed."""
        if 0 <= metadata.chunk_id < metadata.num_chunks_from_msg - 1:
            return False
        return not self._queue.has_room(metadata.uncompressed_size)

    def wait(self, parts: MessageParts, entry: bytes, claimed: int) -> None:
        self._claimed = claimed
        self._entries.appendleft((parts, entry))
        self._queue.wait()

    def block(self, parts: MessageParts, entry: bytes) -> None:
        """Queue an entry before all others until `unblock`."""
        self._blocked = True
        self._entries.appendleft((parts, entry))

    def unblock(self) -> None:
        if self._blocked:
            self._blocked = False
            if self.reopen():
                self._queue.waits_no_more()

    def reopen(self) -> bool:
        """Decode the entries that have room. Returns whether none is left."""
        self.opening = True
        try:
            while self._may_open():
                self._claimed = 0
                self._take(*self._entries.popleft())
        finally:
            self.opening = False
        return not self._entries

    def _may_open(self) -> bool:
        queue = self._queue
        return bool(self._entries) and not self._blocked and queue.attached and queue.has_room(self._claimed)

    def take_all(self) -> list[tuple[MessageParts, bytes]]:
        """Remove and return all waiting entries without decoding them."""
        self._blocked = False
        taken = list(self._entries)
        self._entries.clear()
        if taken:
            self._queue.waits_no_more()
        return taken
