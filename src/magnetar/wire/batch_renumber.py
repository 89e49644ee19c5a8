"""Gives the messages of a batch other sequence ids: locates them in its bytes and copies them otherwise unchanged.

Each message keeps its bytes except its sequence id. It reads messages with their fields in ascending order, as all
known clients write them. A batch with another order, with ordering keys, with missing numbers or with inconsistent
sizes is rejected without a guess: the result is None, and the caller can use protobuf. Hot: plain functions over bytes,
so that mypyc compiles the file as it is.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError

from magnetar.wire.broker_frames import _LOW, _LOW_BITS, _LOW_MASK, _WHOLE, varint
from magnetar.wire.tags import (
    SINGLE_EVENT_TIME,
    SINGLE_PARTITION_KEY,
    SINGLE_PARTITION_KEY_B64_ENCODED,
    SINGLE_PAYLOAD_SIZE,
    SINGLE_PROPERTIES,
    SINGLE_SEQUENCE_ID,
)

# Start of the message, position of its number, position after the number, end; size of its value; its key in wire form,
# and whether the key is in base64.
Row = tuple[int, int, int, int, int, bytes | None, bool]

_LENGTH = Struct(">I")
_pack = _LENGTH.pack
_NUMBER_BYTES_MAX = 10
_SIZE_BYTES_MAX = 4
_BEFORE_SIZE = (SINGLE_PROPERTIES, SINGLE_PARTITION_KEY)
_ENDINGS = (b"\x48\x01", b"\x48\x00")  # null value, or not


def rows(payload: bytes, count: int, position: int = 0) -> list[Row] | None:
    """All messages of a batch's payload from `position` on; None if one of them has another form."""
    messages: list[Row] = []
    append = messages.append
    unpack = _LENGTH.unpack_from
    try:
        for _ in range(count):
            first = position
            at = first + 4
            middle: int = at + unpack(payload, first)[0]
            key: bytes | None = None
            tag = payload[at]
            while tag in _BEFORE_SIZE:
                start = at + 2
                length = payload[at + 1]
                if length >= 128:
                    high = payload[start]
                    if high >= 128:
                        return None
                    length += (high << 7) - 128
                    start += 1
                at = start + length
                if tag == SINGLE_PARTITION_KEY:
                    if key is not None:
                        return None
                    key = payload[start:at]
                elif not _is_pair(payload[start:at]):
                    return None
                tag = payload[at]
            if tag != SINGLE_PAYLOAD_SIZE:
                return None
            size = payload[at + 1]
            at += 2
            if size >= 128:
                size, start = size - 128, at
                while payload[at] >= 128:
                    size += (payload[at] - 128) << 7 * (at - start + 1)
                    at += 1
                size += payload[at] << 7 * (at - start + 1)
                at += 1
                if at - start >= _SIZE_BYTES_MAX:
                    return None
            tag = payload[at]
            if tag == SINGLE_EVENT_TIME:
                start = at = at + 1
                while payload[at] >= 128:
                    at += 1
                at += 1
                if at - start > _NUMBER_BYTES_MAX:
                    return None
                tag = payload[at]
            base64 = False
            if tag == SINGLE_PARTITION_KEY_B64_ENCODED:
                if payload[at + 1] > 1:
                    return None
                base64 = payload[at + 1] == 1
                at += 2
                tag = payload[at]
            if tag != SINGLE_SEQUENCE_ID:
                return None
            start = at = at + 1
            while payload[at] >= 128:
                at += 1
            at += 1
            if at != middle and payload[at:middle] not in _ENDINGS:
                return None
            position = middle + size
            append((first, start, at, position, size, key, base64))
    except (IndexError, StructError):
        return None
    return messages if position == len(payload) else None


def _is_pair(data: bytes) -> bool:
    """A name and a text in the usual field order."""
    try:
        if data[0] != SINGLE_PROPERTIES or data[1] >= 128:
            return False
        middle = 2 + data[1]
        end = middle + 2 + data[middle + 1]
        if data[middle] != SINGLE_PARTITION_KEY or data[middle + 1] >= 128 or end != len(data):
            return False
        data[2:middle].decode()
        data[middle + 2 :].decode()
    except (IndexError, UnicodeDecodeError):
        return False
    return True


def renumbered(payload: bytes, messages: list[Row], number: int) -> list[bytes]:
    """The encoding of each message in a batch, with numbers from `number` on."""
    pieces: list[bytes] = []
    append = pieces.append
    high_bytes = b""
    high = -1
    for first, start, behind, end, size, _, _ in messages:
        # Inlined `varint`: the call costs more than the work.
        if number <= _LOW_MASK:
            number_bytes = _WHOLE[number]
        else:
            if number >> _LOW_BITS != high:
                high = number >> _LOW_BITS
                high_bytes = varint(high)
            number_bytes = _LOW[number & _LOW_MASK] + high_bytes
        grown = len(number_bytes) - behind + start
        if grown:
            append(
                _pack(end - size - first - 4 + grown) + payload[first + 4 : start] + number_bytes + payload[behind:end]
            )
        else:
            append(payload[first:start] + number_bytes + payload[behind:end])
        number += 1
    return pieces
