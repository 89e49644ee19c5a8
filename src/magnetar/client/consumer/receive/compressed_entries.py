"""Compressed entries of one topic that wait, as they came, until the inbox has room for what they become.

Permits are out before the sizes of messages are known, and a few kilobytes can become hundreds of megabytes. So an
entry counts with the size that its metadata claims before it is opened, and waits if that does not fit; entries behind
it wait too, which keeps their order. While one waits no lane asks for more, so that the inbox becomes empty, where any
entry fits. Decides only: `delivery` opens entries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from magnetar.client.consumer.receive.receive_queue import TopicQueue
from magnetar.wire.client_readers import MessageParts
from magnetar.wire.proto import pb


class Unopened:
    """`take` opens an entry, or gives it back with `wait`."""

    __slots__ = ("_claimed", "_entries", "_lane", "_take", "opening")

    def __init__(self, lane: TopicQueue, take: Callable[[MessageParts, bytes], None]) -> None:
        self._lane = lane
        self._take = take
        self._entries: deque[tuple[MessageParts, bytes]] = deque()
        self._claimed = 0  # bytes that the first of them claims
        self.opening = False  # what comes now is one of them
        lane.reopen = self.reopen

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, parts: MessageParts, entry: bytes) -> None:
        """Behind others that wait."""
        self._entries.append((parts, entry))

    def must_wait(self, metadata: pb.MessageMetadata) -> bool:
        """Is there no room for a compressed entry? Of a message in chunks only the last one is opened."""
        if 0 <= metadata.chunk_id < metadata.num_chunks_from_msg - 1:
            return False
        return not self._lane.has_room(metadata.uncompressed_size)

    def wait(self, parts: MessageParts, entry: bytes, claimed: int) -> None:
        self._claimed = claimed
        self._entries.appendleft((parts, entry))
        self._lane.wait()

    def reopen(self) -> bool:
        """Open what there is room for. Is nothing left?"""
        self.opening = True
        try:
            while self._entries and self._lane.attached and self._lane.has_room(self._claimed):
                self._claimed = 0
                self._take(*self._entries.popleft())
        finally:
            self.opening = False
        return not self._entries

    def take_all(self) -> list[tuple[MessageParts, bytes]]:
        """Nothing waits any more; these are not opened."""
        taken = list(self._entries)
        self._entries.clear()
        if taken:
            self._lane.waits_no_more()
        return taken
