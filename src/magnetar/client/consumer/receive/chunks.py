"""Assembles chunked messages: chunks in, whole messages out, with bounds on incomplete messages.

Pure decisions. Chunks of one message share a uuid and arrive in order; chunks of different messages may be interleaved.
A redelivered chunk counts once. If a producer resends a message, assembly restarts, and the positions of both copies
belong to it, so that one acknowledgement covers them. A message that begins without room is deferred: its
positions are kept, its bytes are not. When its last chunk arrives, it is requested again, before later messages (H-R2).
A message larger than the whole bound is assembled alone. A message with a gap, or one that is too old, is dropped: its
positions are returned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from magnetar.base.errors import Corrupt
from magnetar.base.limits import CHUNKED_BYTES_MAX, CHUNKED_EXPIRE_S, CHUNKED_PENDING_MAX
from magnetar.wire.proto import pb

Position = tuple[int, int]


@dataclass(slots=True)
class _Half:
    chunks: int
    total: int
    heard: float
    parts: list[bytes] = field(default_factory=list, repr=False)  # stays empty while it is deferred
    positions: list[Position] = field(default_factory=list)
    strays: list[Position] = field(default_factory=list)  # resent chunks: acknowledged with the message, not assembled
    size: int = 0
    published_ms: int = 0  # of its newest chunk

    @property
    def all_positions(self) -> list[Position]:
        return self.positions + self.strays


@dataclass(frozen=True, slots=True)
class AssembledMessage:
    """All chunks of one message, joined and still compressed; the last position identifies it."""

    payload: bytes = field(repr=False)
    positions: list[Position]
    strays: list[Position]


class ChunkAssembler:
    __slots__ = ("_bytes", "_bytes_max", "_deferred", "_expire_s", "_half", "_pending_max", "_reserved", "given_up")

    def __init__(
        self,
        *,
        pending_max: int = CHUNKED_PENDING_MAX,
        bytes_max: int = CHUNKED_BYTES_MAX,
        expire_s: float = CHUNKED_EXPIRE_S,
    ) -> None:
        self._pending_max = pending_max
        self._bytes_max = bytes_max
        self._expire_s = expire_s
        self._half: dict[str, _Half] = {}  # the least recently extended first
        self._deferred: dict[str, _Half] = {}  # in the same order
        self._bytes = 0
        self._reserved = 0  # bytes that the incomplete messages will need
        self.given_up: list[Position] = []  # dropped and not taken by the caller yet

    def __len__(self) -> int:
        """The number of incomplete or deferred messages."""
        return len(self._half) + len(self._deferred)

    @property
    def oldest(self) -> Position | None:
        """The first position of the oldest incomplete or deferred message."""
        return min((half.positions[0] for half in self._known()), default=None)

    def knows(self, uuid: str) -> bool:
        """Whether the message is incomplete here."""
        return uuid in self._half

    def defers(self, uuid: str) -> bool:
        return uuid in self._deferred

    @property
    def deferred_chunks(self) -> int:
        return sum(len(half.positions) for half in self._deferred.values())

    @property
    def bounds(self) -> dict[str, int]:
        """For logs and errors: the bounds and the present use."""
        return {
            "pending": len(self._half),
            "pending_max": self._pending_max,
            "bytes": self._reserved,
            "bytes_max": self._bytes_max,
        }

    @property
    def held_bytes(self) -> int:
        return self._bytes

    def add(
        self, metadata: pb.MessageMetadata, payload: bytes, position: Position, now: float
    ) -> AssembledMessage | None:
        """None: the message is incomplete, deferred or dropped."""
        uuid, place = metadata.uuid, metadata.chunk_id
        half, deferred = self._half.pop(uuid, None), self._deferred.pop(uuid, None)
        self.expire(now, metadata.publish_time)
        if place == 0:
            before = half if half is not None else deferred
            if half is not None:
                self._release(half)
            half, deferred = self._begin(metadata, before, position, now), None
            if not self._fits(half.total, metadata.publish_time):
                half, deferred = None, half
            else:
                self._reserved += half.total
        assembly = half if half is not None else deferred
        if assembly is None or place > len(assembly.positions):
            self._give_up(half, deferred)
            self.given_up.append(position)
            return None
        if place < len(assembly.positions):
            if assembly.positions[place] != position and position not in assembly.strays:
                assembly.strays.append(position)
        else:
            assembly.positions.append(position)
            if half is not None:
                half.parts.append(payload)
                half.size += len(payload)
                self._bytes += len(payload)
        assembly.heard = now
        assembly.published_ms = metadata.publish_time
        if deferred is not None:
            self._deferred[uuid] = deferred
            return None
        assert half is not None
        if half.size > half.total:
            self._give_up(half)
            raise Corrupt(
                "the chunks are larger than the declared size of their message", uuid=uuid, claimed=half.total
            )
        if len(half.parts) == half.chunks:
            return self._finish(half, uuid)
        self._half[uuid] = half
        return None

    def take_given_up(self) -> list[Position]:
        """The positions that were dropped since the last call."""
        dropped, self.given_up = self.given_up, []
        return dropped

    def claim(self, uuid: str) -> list[Position]:
        """The positions of all chunks of a deferred message, if all have arrived: it gets room now. The messages that
        began last give up their room and are deferred: they complete later than this one, so the order stays."""
        half = self._deferred.get(uuid)
        if half is None or len(half.positions) < half.chunks:
            return []
        del self._deferred[uuid]
        begun = sorted(self._half, key=lambda one: self._half[one].positions[0])
        while not self._has_room(half.total):
            last = begun.pop()
            other = self._half.pop(last)
            self._release(other)
            other.parts, other.size = [], 0
            self._deferred[last] = other
        return half.all_positions

    def expire(self, now: float, published_ms: int | None = None) -> None:
        """Drop messages that are old, measured against the publish time of new messages if given: a consumer that
        requested no messages for long has received no chunks either, and must not drop messages for that reason."""
        for waiting in (self._half, self._deferred):
            for uuid, half in list(waiting.items()):
                if now - half.heard < self._expire_s:
                    break
                if published_ms is None or self._is_overdue(half, published_ms):
                    self._give_up(waiting.pop(uuid), release=waiting is self._half)

    def forget(self) -> None:
        """The connection was lost: unacknowledged messages are redelivered from their first chunk."""
        self._half.clear()
        self._deferred.clear()
        self._bytes = self._reserved = 0
        self.given_up.clear()

    def _begin(self, metadata: pb.MessageMetadata, before: _Half | None, position: Position, now: float) -> _Half:
        total, chunks = metadata.total_chunk_msg_size, metadata.num_chunks_from_msg
        half = _Half(chunks, total, now)
        if before is not None:
            half.strays = before.strays
            half.strays += [known for known in before.positions if known != position]
        if not 0 < chunks <= total:
            self.given_up += half.all_positions
            raise Corrupt("a chunked message declares more chunks than bytes", bytes=total, chunks=chunks)
        return half

    def _fits(self, total: int, published_ms: int) -> bool:
        """Whether there is room, after dropping messages whose next chunk is overdue by the age of later messages."""
        if not self._has_room(total):
            for uuid, half in list(self._half.items()):
                if self._is_overdue(half, published_ms):
                    self._give_up(self._half.pop(uuid))
        return self._has_room(total)

    def _has_room(self, total: int) -> bool:
        if not self._half:
            return True
        return len(self._half) < self._pending_max and self._reserved + total <= self._bytes_max

    def _is_overdue(self, half: _Half, published_ms: int) -> bool:
        return published_ms - half.published_ms >= self._expire_s * 1000

    def _finish(self, half: _Half, uuid: str) -> AssembledMessage:
        self._release(half)
        if half.size != half.total:
            self.given_up += half.all_positions
            raise Corrupt(
                "the chunks do not add up to the declared size of their message",
                uuid=uuid,
                claimed=half.total,
                bytes=half.size,
            )
        strays = [known for known in half.strays if known not in half.positions]
        return AssembledMessage(b"".join(half.parts), half.positions, strays)

    def _give_up(self, half: _Half | None, deferred: _Half | None = None, *, release: bool = True) -> None:
        if half is not None:
            if release:
                self._release(half)
            self.given_up += half.all_positions
        if deferred is not None:
            self.given_up += deferred.all_positions

    def _release(self, half: _Half) -> None:
        self._bytes -= half.size
        self._reserved -= half.total

    def _known(self) -> Iterator[_Half]:
        yield from self._half.values()
        yield from self._deferred.values()
