"""Chunked messages put together again: chunks in, whole messages out, with bounds on what is half there.

Decides only. Chunks of one message share a uuid and arrive in order; chunks of different messages may be mixed. A chunk
delivered again is not counted twice; a message whose producer sent its chunks again starts anew, and the positions of
both belong to it, so that one acknowledgement ends them all. What has a gap, is too large, too old or one too many is
given up: its positions are handed back, its bytes are gone.
"""

from __future__ import annotations

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
    parts: list[bytes] = field(default_factory=list)
    positions: list[Position] = field(default_factory=list)
    strays: list[Position] = field(default_factory=list)  # chunks sent twice: part of the message, not of its bytes
    size: int = 0
    published_ms: int = 0  # the newest of them


@dataclass(frozen=True, slots=True)
class Whole:
    """All chunks of one message, joined and still compressed; the last position is the one it is known by."""

    payload: bytes
    positions: list[Position]
    strays: list[Position]


class Chunks:
    __slots__ = ("_bytes", "_bytes_max", "_expire_s", "_half", "_pending_max", "given_up")

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
        self._bytes = 0
        self.given_up: list[Position] = []  # and not taken away yet

    def __len__(self) -> int:
        return len(self._half)

    @property
    def oldest(self) -> Position | None:
        """Where the first of those that are half there begins."""
        return min((half.positions[0] for half in self._half.values()), default=None)

    def knows(self, uuid: str) -> bool:
        """Is it half there?"""
        return uuid in self._half

    @property
    def held_bytes(self) -> int:
        return self._bytes

    def add(self, metadata: pb.MessageMetadata, payload: bytes, position: Position, now: float) -> Whole | None:
        uuid, place = metadata.uuid, metadata.chunk_id
        half = self._half.pop(uuid, None)
        self.expire(now, metadata.publish_time)
        if place == 0:
            half = self._begin(metadata, half, position, now)
        if half is None or place > len(half.parts):
            self._give_up(half)
            self.given_up.append(position)
            return None
        if place < len(half.parts):
            if half.positions[place] != position and position not in half.strays:
                half.strays.append(position)
        else:
            half.parts.append(payload)
            half.positions.append(position)
            half.size += len(payload)
            self._bytes += len(payload)
        half.heard = now
        half.published_ms = metadata.publish_time
        if half.size > half.total:
            self._give_up(half)
            raise Corrupt("chunks hold more than their message claims", uuid=uuid, claimed=half.total)
        if len(half.parts) == half.chunks:
            return self._finish(half, uuid)
        self._half[uuid] = half
        self._make_room()
        return None

    def take_given_up(self) -> list[Position]:
        """Positions given up since the last time."""
        found, self.given_up = self.given_up, []
        return found

    def expire(self, now: float, published_ms: int | None = None) -> None:
        """Give up what is old, and where something came that was published then, old by that time too: a consumer that
        asked for nothing for long has heard of nothing, and loses nothing by it."""
        for uuid, half in list(self._half.items()):
            if now - half.heard < self._expire_s:
                return
            if published_ms is None or published_ms - half.published_ms >= self._expire_s * 1000:
                self._give_up(self._half.pop(uuid))

    def forget(self) -> None:
        """The connection is gone: whatever is unacknowledged comes again, from its first chunk."""
        self._half.clear()
        self._bytes = 0
        self.given_up.clear()

    def _begin(self, metadata: pb.MessageMetadata, before: _Half | None, position: Position, now: float) -> _Half:
        total, chunks = metadata.total_chunk_msg_size, metadata.num_chunks_from_msg
        half = _Half(chunks, total, now)
        if before is not None:
            self._bytes -= before.size
            half.strays = before.strays
            half.strays += [known for known in before.positions if known != position]
        if not 0 < chunks <= total or total > self._bytes_max:
            self._give_up(half)
            raise Corrupt(
                "a chunked message claims to be too large", bytes=total, bytes_max=self._bytes_max, chunks=chunks
            )
        return half

    def _finish(self, half: _Half, uuid: str) -> Whole:
        self._bytes -= half.size
        if half.size != half.total:
            self.given_up += half.positions + half.strays
            raise Corrupt("chunks do not make up their message", uuid=uuid, claimed=half.total, bytes=half.size)
        strays = [known for known in half.strays if known not in half.positions]
        return Whole(b"".join(half.parts), half.positions, strays)

    def _make_room(self) -> None:
        while len(self._half) > self._pending_max or (self._bytes > self._bytes_max and len(self._half) > 1):
            self._give_up(self._half.pop(next(iter(self._half))))

    def _give_up(self, half: _Half | None) -> None:
        if half is not None:
            self._bytes -= half.size
            self.given_up += half.positions + half.strays
