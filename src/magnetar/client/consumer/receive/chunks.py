"""Chunked messages put together again: chunks in, whole messages out, with bounds on what is half there.

Decides only. Chunks of one message share a uuid and arrive in order; chunks of different messages may be mixed. A chunk
delivered again is not counted twice; a message whose producer sent its chunks again starts anew, and the positions of
both belong to it, so that one acknowledgement ends them all. A message that begins while there is no room is deferred:
its positions are kept, its bytes are not, and when its last chunk comes it is asked for again, before what is behind it
(H-R2). A message larger than all room is put together alone. What has a gap or is too old is given up: its positions
are handed back.
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
    parts: list[bytes] = field(default_factory=list)  # stays empty while it is deferred
    positions: list[Position] = field(default_factory=list)
    strays: list[Position] = field(default_factory=list)  # chunks sent twice: part of the message, not of its bytes
    size: int = 0
    published_ms: int = 0  # the newest of them

    @property
    def all_positions(self) -> list[Position]:
        return self.positions + self.strays


@dataclass(frozen=True, slots=True)
class AssembledMessage:
    """All chunks of one message, joined and still compressed; the last position is the one it is known by."""

    payload: bytes
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
        self._half: dict[str, _Half] = {}  # the one heard of longest ago comes first
        self._deferred: dict[str, _Half] = {}  # the same
        self._bytes = 0
        self._reserved = 0  # what those that are half there will need
        self.given_up: list[Position] = []  # and not taken away yet

    def __len__(self) -> int:
        """How many are half there or deferred."""
        return len(self._half) + len(self._deferred)

    @property
    def oldest(self) -> Position | None:
        """Where the first of those that are half there or deferred begins."""
        return min((half.positions[0] for half in self._known()), default=None)

    def knows(self, uuid: str) -> bool:
        """Is it half there?"""
        return uuid in self._half

    def defers(self, uuid: str) -> bool:
        return uuid in self._deferred

    @property
    def deferred_chunks(self) -> int:
        return sum(len(half.positions) for half in self._deferred.values())

    @property
    def bounds(self) -> dict[str, int]:
        """For logs and errors: the bounds, and what there is."""
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
        """None: its message is not complete, or deferred, or given up."""
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
        known = half if half is not None else deferred
        if known is None or place > len(known.positions):
            self._give_up(half, deferred)
            self.given_up.append(position)
            return None
        if place < len(known.positions):
            if known.positions[place] != position and position not in known.strays:
                known.strays.append(position)
        else:
            known.positions.append(position)
            if half is not None:
                half.parts.append(payload)
                half.size += len(payload)
                self._bytes += len(payload)
        known.heard = now
        known.published_ms = metadata.publish_time
        if deferred is not None:
            self._deferred[uuid] = deferred
            return None
        assert half is not None
        if half.size > half.total:
            self._give_up(half)
            raise Corrupt("chunks hold more than their message claims", uuid=uuid, claimed=half.total)
        if len(half.parts) == half.chunks:
            return self._finish(half, uuid)
        self._half[uuid] = half
        return None

    def take_given_up(self) -> list[Position]:
        """Positions given up since the last time."""
        found, self.given_up = self.given_up, []
        return found

    def claim(self, uuid: str) -> list[Position]:
        """Where all chunks of a deferred message are, if all have come: now there is room for it. Those that began last
        give theirs, and are deferred: they are complete later than this one, so the order stays."""
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
        """Give up what is old, and where something came that was published then, old by that time too: a consumer that
        asked for nothing for long has heard of nothing, and loses nothing by it."""
        for waiting in (self._half, self._deferred):
            for uuid, half in list(waiting.items()):
                if now - half.heard < self._expire_s:
                    break
                if published_ms is None or self._is_overdue(half, published_ms):
                    self._give_up(waiting.pop(uuid), release=waiting is self._half)

    def forget(self) -> None:
        """The connection is gone: whatever is unacknowledged comes again, from its first chunk."""
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
            raise Corrupt("a chunked message claims more chunks than it has bytes", bytes=total, chunks=chunks)
        return half

    def _fits(self, total: int, published_ms: int) -> bool:
        """Those that wait too long for their next chunk give way: messages behind it are older than they may be."""
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
            raise Corrupt("chunks do not make up their message", uuid=uuid, claimed=half.total, bytes=half.size)
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
