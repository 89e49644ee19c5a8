"""Splits a large command into pieces. ACK and REDELIVER may name as many message ids as fit into a frame, and decoding
all of them together would block a broker's loop for a second.

`cut` iterates over the fields of the command in bounded steps. It does not decode ids, and it accepts only the usual
form, which every protobuf library writes: the type, then the body, and no other field. It rejects any other form of
such a large command.
"""

from __future__ import annotations

from collections.abc import Iterator

from magnetar.base.errors import BadFrame
from magnetar.base.limits import COMMAND_PIECE_IDS_MAX, ID_BYTES_MAX, LARGE_COMMAND_BYTES_MIN
from magnetar.wire.frames import read_varint
from magnetar.wire.proto import pb

_VARINT, _BYTES = 0, 2  # wire types; others do not occur in these commands


class Pieces:
    """Filled by `cut`: `head` has all fields except the ids, and each range of `ranges` has only complete ids."""

    __slots__ = ("count", "head", "ranges")

    def __init__(self) -> None:
        self.count = 0
        self.head = b""
        self.ranges: list[tuple[int, int]] = []


def cut(buffer: bytes, start: int, end: int, field: str, into: Pieces) -> Iterator[None]:
    """`field` is the name of the command in BaseCommand. Yields after every bounded number of ids."""
    number = pb.BaseCommand.DESCRIPTOR.fields_by_name[field]
    body = number.message_type
    assert body is not None
    ids = next(one.number for one in body.fields if one.message_type is pb.MessageIdData.DESCRIPTOR)
    position = _body(buffer, start, end, number.number)
    first, inside, head = position, 0, bytearray()
    while position < end:
        at = position
        tag, position = _varint(buffer, position, end)
        value, position = _varint(buffer, position, end)
        if tag & 7 == _BYTES:
            position += value
        elif tag & 7 != _VARINT:
            raise _unusual(end - start)
        if position > end or (tag >> 3 == ids and tag & 7 != _BYTES):
            raise _unusual(end - start)
        if tag >> 3 != ids:
            if first < at:
                into.ranges.append((first, at))
            head += buffer[at:position]
            first, inside = position, 0
            if len(head) > LARGE_COMMAND_BYTES_MIN:
                raise _unusual(end - start)
            continue
        if value > ID_BYTES_MAX:
            raise BadFrame("a message id exceeds the maximum size", bytes=value, id_bytes_max=ID_BYTES_MAX)
        into.count += 1
        inside += 1
        if inside == COMMAND_PIECE_IDS_MAX or position - first > ID_BYTES_MAX:
            into.ranges.append((first, position))
            first, inside = position, 0
            yield
    if first < end:
        into.ranges.append((first, end))
    into.head = bytes(head)


def _body(buffer: bytes, start: int, end: int, number: int) -> int:
    """The start of the command's fields."""
    tag, position = _varint(buffer, start, end)
    _, position = _varint(buffer, position, end)
    inner, position = _varint(buffer, position, end)
    size, position = _varint(buffer, position, end)
    if tag != 1 << 3 | _VARINT or inner != number << 3 | _BYTES or position + size != end:
        raise _unusual(end - start)
    return position


def _varint(buffer: bytes, position: int, end: int) -> tuple[int, int]:
    value, position = read_varint(buffer, position, end)
    if position < 0:
        raise BadFrame("a number of a command is truncated")
    return value, position


def _unusual(size: int) -> BadFrame:
    return BadFrame(
        "a large command must be the type and then the body, with few fields beside its message ids", bytes=size
    )
