"""The byte form of checkpoints, which readers store for years and pass back.

It begins in the form of Pulsar's V5 clients: a type, and for a checkpoint with positions the id of the last read
message of each segment. The id "latest" of a sealed segment means DONE, which those clients understand. They ignore all
further bytes. Our part follows there: topic, incarnation, epoch, the start of incomplete chunked messages around a
position (version 2, written only if any exist), and a checksum of all bytes. A checkpoint of such a client has no such
part and is valid too. Other bytes raise `Corrupt`. At the start of a reader, `whole` rejects any other trailing bytes,
because they indicate a damaged file. A checkpoint of ours that was truncated exactly before our part is
indistinguishable from one of theirs.
"""

from __future__ import annotations

from dataclasses import replace
from struct import Struct
from typing import ClassVar

from google_crc32c import value as crc32c

from magnetar.base import validation
from magnetar.base.errors import Corrupt, Misuse
from magnetar.base.ids import Epoch, SegmentId
from magnetar.base.public import public
from magnetar.layout import checkpoint as layout
from magnetar.layout.checkpoint import DONE, START, Kind, SegmentPosition
from magnetar.wire import ids
from magnetar.wire.ids import MessageId

_PLACES, _EARLIEST, _LATEST = 0, 1, 2
_LONG, _INT = Struct(">q"), Struct(">i")
_MAGIC = b"MgCp"
_VERSION = 2
_TAIL = Struct(">4sBqqi")  # magic, version, incarnation, epoch, length of the topic's name
_AROUND = Struct(">qqq")  # segment, ledger, entry
_SUM = Struct(">I")


@public("magnetar")
class Checkpoint(layout.Checkpoint):
    """The position of a reader in all segments of a scalable topic at one moment. Usually opaque; `places` has the
    positions.
    """

    __slots__ = ()

    EARLIEST: ClassVar[Checkpoint]
    LATEST: ClassVar[Checkpoint]

    @staticmethod
    def of(value: layout.Checkpoint) -> Checkpoint:
        return Checkpoint(value.places, value.epoch, value.topic, value.incarnation, value.kind)

    def to_bytes(self) -> bytes:
        return to_bytes(self)

    @staticmethod
    def from_bytes(data: bytes) -> Checkpoint:
        """Reads bytes like Pulsar's clients: unknown trailing bytes are ignored. A reader that starts at bytes checks
        them with `whole`.
        """
        return from_bytes(data)

    def __str__(self) -> str:
        if self.kind is not Kind.PLACES:
            return str(self.kind.value)
        return " ".join(f"{id}/{self.places[id]}" for id in sorted(self.places)) or "no segments"


Checkpoint.EARLIEST = Checkpoint(kind=Kind.EARLIEST)
Checkpoint.LATEST = Checkpoint(kind=Kind.LATEST)


def to_bytes(checkpoint: layout.Checkpoint) -> bytes:
    match checkpoint.kind:
        case Kind.EARLIEST:
            return bytes([_EARLIEST])
        case Kind.LATEST:
            return bytes([_LATEST])
    parts = [bytes([_PLACES]), _INT.pack(len(checkpoint.places))]
    for segment in sorted(checkpoint.places):
        encoded = ids.to_bytes(message_id(checkpoint.places[segment]))
        parts += [_LONG.pack(segment), _INT.pack(len(encoded)), encoded]
    topic = checkpoint.topic.encode()
    around = [_AROUND.pack(id, *place.around) for id, place in sorted(checkpoint.places.items()) if place.around]
    version = 2 if around else 1
    parts += [_TAIL.pack(_MAGIC, version, checkpoint.incarnation, checkpoint.epoch, len(topic)), topic, *around]
    body = b"".join(parts)
    data = body + _SUM.pack(crc32c(body))
    if validation.enabled:
        decoded = from_bytes(data)
        assert decoded.places == checkpoint.places, "positions read back as they were written"
        assert (decoded.topic, decoded.incarnation) == (checkpoint.topic, checkpoint.incarnation)
    return data


def from_bytes(data: bytes) -> Checkpoint:
    return _read(data)[0]


def whole(data: bytes) -> Checkpoint:
    """Exactly one checkpoint. Writers never append bytes, so trailing bytes mean damage, and the positions cannot be
    trusted.
    """
    checkpoint, end = _read(data)
    if end != len(data):
        raise Corrupt(
            "the checkpoint is invalid or damaged: other bytes follow it. Start at an earlier checkpoint, or "
            "at the earliest or latest message",
            bytes=len(data),
            read=end,
        )
    return checkpoint


def _read(data: bytes) -> tuple[Checkpoint, int]:
    """The checkpoint and its end."""
    if not data:
        raise Corrupt("a checkpoint must not be empty")
    if data[0] in (_EARLIEST, _LATEST):
        return Checkpoint.EARLIEST if data[0] == _EARLIEST else Checkpoint.LATEST, 1
    if data[0] != _PLACES:
        raise Corrupt("not a checkpoint: its first byte is an unknown type", type=data[0])
    try:
        return _places(data)
    except IndexError:
        raise Corrupt("a checkpoint is truncated", bytes=len(data)) from None


def message_id(place: SegmentPosition) -> MessageId:
    if place.is_done:
        return MessageId.LATEST
    return MessageId(place.ledger, place.entry, -1, place.index, place.size)


def place_of(id: MessageId) -> SegmentPosition:
    if id == MessageId.EARLIEST:
        return START
    if id.ledger == MessageId.LATEST.ledger:
        return DONE
    return SegmentPosition(id.ledger, id.entry, id.batch_index, id.batch_size)


def _places(data: bytes) -> tuple[Checkpoint, int]:
    count, at = _number(data, 1, _INT), 5
    places: dict[SegmentId, SegmentPosition] = {}
    for _ in range(count):  # a negative count means zero, as in Java
        segment, length = _number(data, at, _LONG), _number(data, at + 8, _INT)
        at += 12
        if length < 0 or at + length > len(data):
            raise IndexError
        if segment < 0:
            raise Corrupt("a checkpoint has an invalid segment", segment=segment)
        places[SegmentId(segment)] = place_of(ids.from_bytes(data[at : at + length]))
        at += length
    positions = {id: places[id] for id in sorted(places)}
    if data[at : at + len(_MAGIC)] != _MAGIC:
        return Checkpoint(positions), at
    return _ours(data, at, positions), len(data)


def _ours(data: bytes, at: int, places: dict[SegmentId, SegmentPosition]) -> Checkpoint:
    if len(data) < at + _TAIL.size + _SUM.size:
        raise IndexError
    _, version, incarnation, epoch, length = _TAIL.unpack_from(data, at)
    if version > _VERSION:
        raise Misuse("a newer version of magnetar wrote the checkpoint: use that version", checkpoint=version)
    body = data[: -_SUM.size]
    end = at + _TAIL.size + length
    rest = len(body) - end
    if (
        _SUM.unpack_from(data, len(body))[0] != crc32c(body)
        or rest < 0
        or rest % _AROUND.size
        or (rest and version < 2)
    ):
        raise Corrupt("the checksum of a checkpoint does not match: its bytes were changed")
    try:
        topic = body[at + _TAIL.size : end].decode()
    except UnicodeDecodeError:
        raise Corrupt("the topic of a checkpoint must be text") from None
    for segment, ledger, entry in _AROUND.iter_unpack(body[end:]):
        if segment not in places or min(ledger, entry) < 0:
            raise Corrupt("a checkpoint has chunk data for a position that it does not contain", segment=segment)
        places[SegmentId(segment)] = replace(places[SegmentId(segment)], around=(ledger, entry))
    return Checkpoint(places, Epoch(epoch), topic, incarnation)


def _number(data: bytes, at: int, form: Struct) -> int:
    if at + form.size > len(data):
        raise IndexError
    value: int = form.unpack_from(data, at)[0]
    return value
