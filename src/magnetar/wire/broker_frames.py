"""Encodes SEND_RECEIPT and MESSAGE frames from templates: the equal parts of a run are encoded once, and the rest is
filled in.

Byte for byte the output of protobuf for the same command. It trusts its caller: ids are unsigned 64-bit numbers,
offsets match the body. Hot: one call per run, plain functions, so that mypyc compiles the file as it is.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct

from magnetar.base.limits import RECEIPT_LEADS_CACHED_MAX
from magnetar.wire.tags import (
    OPEN_MESSAGE,
)

DUPLICATE = (1 << 64) - 1  # ledger and entry in the receipt of a duplicate message

_HEADER = Struct(">II")
_RECEIPT_HEADER = Struct(">III")
_RECEIPT = 0x08073A00  # type SEND_RECEIPT, then submessage 7 with its length
# By the size of what follows: the numbers of a receipt are varints, so that it is never longer.
_RECEIPT_OPENINGS: list[bytes] = [_RECEIPT_HEADER.pack(size + 8, size + 4, _RECEIPT | size) for size in range(128)]
_ID_OPENINGS: list[bytes] = [bytes((0x1A, size)) for size in range(128)]
_LOW_BITS = 14
_LOW_MASK = (1 << _LOW_BITS) - 1
# Numbers below 2^14 as varints, and the same fourteen bits as the first two bytes of a longer varint: the ids of a run
# share all other bytes.
_LAST: list[bytes] = [bytes((bits,)) for bits in range(128)]
_MORE: list[bytes] = [bytes((bits | 128,)) for bits in range(128)]
_WHOLE: list[bytes] = _LAST + [low + high for high in _LAST[1:] for low in _MORE]
_LOW: list[bytes] = [low + high for high in _MORE for low in _MORE]


def varint(value: int) -> bytes:
    """Protobuf's encoding of an unsigned number. A negative number takes ten bytes, as in int32 and int64."""
    if value < 0:
        value += 1 << 64
    if value <= _LOW_MASK:
        return _WHOLE[value]
    return _LOW[value & _LOW_MASK] + varint(value >> _LOW_BITS)


def receipts(
    producer_id: int, sequence_ids: list[int], highest_ids: list[int] | None, ledger: int, first_entry: int
) -> bytes:
    """One SEND_RECEIPT for each sequence id, entries counting up from `first_entry`, as one buffer."""
    if len(sequence_ids) == 1:
        highest = -1 if highest_ids is None else highest_ids[0]
        return receipt(producer_id, sequence_ids[0], highest, ledger, first_entry)
    if highest_ids is not None:
        return _receipts_with_highest(producer_id, sequence_ids, highest_ids, ledger, first_entry)
    lead = b"\x08" + varint(producer_id) + b"\x10"
    id_lead = b"\x08" + varint(ledger) + b"\x10"
    parts: list[bytes] = []
    append = parts.append
    head = middle = high_bytes = b""
    sizes = -1
    high = -1
    entry = first_entry
    for sequence in sequence_ids:
        # Inlined `varint`, twice: the call costs more than the work.
        if sequence <= _LOW_MASK:
            sequence_bytes = _WHOLE[sequence]
        else:
            if sequence >> _LOW_BITS != high:
                high = sequence >> _LOW_BITS
                high_bytes = varint(high)
            sequence_bytes = _LOW[sequence & _LOW_MASK] + high_bytes
        entry_bytes = _WHOLE[entry] if entry <= _LOW_MASK else varint(entry)
        if len(sequence_bytes) << 8 | len(entry_bytes) != sizes:
            sizes = len(sequence_bytes) << 8 | len(entry_bytes)
            id_size = len(id_lead) + len(entry_bytes)
            middle = bytes((0x1A, id_size)) + id_lead
            size = len(lead) + len(sequence_bytes) + 2 + id_size
            head = _HEADER.pack(size + 8, size + 4) + bytes((0x08, 7, 0x3A, size)) + lead
        append(head)
        append(sequence_bytes)
        append(middle)
        append(entry_bytes)
        entry += 1
    return b"".join(parts)


def receipt(producer_id: int, sequence_id: int, highest_id: int, ledger: int, entry: int) -> bytes:
    """One SEND_RECEIPT; `highest_id` -1 leaves it out. A duplicate's ledger and entry are DUPLICATE."""
    lead, id_lead, id_lead_size, lead_sizes = _receipt_leads(producer_id, ledger)
    # Inlined `varint`: the call costs more than the work.
    if sequence_id <= _LOW_MASK:
        sequence_bytes = _WHOLE[sequence_id]
    else:
        sequence_bytes = _LOW[sequence_id & _LOW_MASK] + varint(sequence_id >> _LOW_BITS)
    entry_bytes = _WHOLE[entry] if entry <= _LOW_MASK else varint(entry)
    if highest_id < 0:
        highest_bytes = b""
    elif highest_id <= _LOW_MASK:
        highest_bytes = b"\x20" + _WHOLE[highest_id]
    else:
        highest_bytes = b"\x20" + _LOW[highest_id & _LOW_MASK] + varint(highest_id >> _LOW_BITS)
    entry_size = len(entry_bytes)
    size = lead_sizes + len(sequence_bytes) + entry_size + len(highest_bytes)
    return b"".join(
        (
            _RECEIPT_OPENINGS[size],
            lead,
            sequence_bytes,
            _ID_OPENINGS[id_lead_size + entry_size],
            id_lead,
            entry_bytes,
            highest_bytes,
        )
    )


@lru_cache(maxsize=RECEIPT_LEADS_CACHED_MAX)
def _receipt_leads(producer_id: int, ledger: int) -> tuple[bytes, bytes, int, int]:
    """The common parts of all receipts for one producer and one ledger, and their sizes."""
    lead = b"\x08" + varint(producer_id) + b"\x10"
    id_lead = b"\x08" + varint(ledger) + b"\x10"
    return lead, id_lead, len(id_lead), len(lead) + len(id_lead) + 2


def messages(
    consumer_id: int,
    body: bytes,
    offsets: list[int],
    start: int,
    stop: int,
    *,
    ledger: int,
    first_entry: int,
    partition: int = -1,
    epoch: int = -1,
) -> bytes:
    """MESSAGE frames of entries [start, stop) of a body, delivered for the first time, as one buffer.

    `first_entry` is the entry id of place 0 of the offsets, not of `start`.
    """
    lead = b"\x08" + varint(consumer_id) + b"\x12"
    id_lead = b"\x08" + varint(ledger) + b"\x10"
    id_tail = b"\x18" + varint(partition)
    tail = id_tail if epoch < 0 else id_tail + b"\x28" + varint(epoch)
    parts: list[bytes] = []
    append = parts.append
    pack = _HEADER.pack
    opening = head = b""
    size = entry_size = body_size = -1
    entry = first_entry + start
    begin = offsets[start]
    for index in range(start + 1, stop + 1):
        end = offsets[index]
        entry_bytes = _WHOLE[entry] if entry <= _LOW_MASK else varint(entry)
        if len(entry_bytes) != entry_size:
            entry_size = len(entry_bytes)
            body_size = -1
            id_size = len(id_lead) + entry_size + len(id_tail)
            size = len(lead) + 1 + len(id_lead) + entry_size + len(tail)
            opening = bytes((0x08, 9, 0x4A, size)) + lead + bytes((id_size,)) + id_lead
        if end - begin != body_size:
            body_size = end - begin
            head = pack(size + 8 + body_size, size + 4) + opening
        append(head)
        append(entry_bytes)
        append(tail)
        append(body[begin:end])
        entry += 1
        begin = end
    return b"".join(parts)


def message(
    consumer_id: int,
    ledger: int,
    entry: int,
    body: bytes | memoryview,
    *,
    partition: int = -1,
    redelivery_count: int = 0,
    ack_set: list[int] | None = None,
    epoch: int = -1,
) -> bytes:
    """One MESSAGE frame with all optional fields."""
    head = message_head(
        consumer_id,
        ledger,
        entry,
        len(body),
        partition=partition,
        redelivery_count=redelivery_count,
        ack_set=ack_set,
        epoch=epoch,
    )
    return b"".join((head, body))


def message_head(
    consumer_id: int,
    ledger: int,
    entry: int,
    body_bytes: int,
    *,
    partition: int = -1,
    redelivery_count: int = 0,
    ack_set: list[int] | None = None,
    epoch: int = -1,
) -> bytes:
    """A MESSAGE frame without its entry: for entries too large to copy."""
    message_id = b"\x08" + varint(ledger) + b"\x10" + varint(entry) + b"\x18" + varint(partition)
    parts = b"\x08" + varint(consumer_id) + bytes((0x12, len(message_id))) + message_id
    if redelivery_count > 0:
        parts += b"\x18" + varint(redelivery_count)
    if ack_set:
        parts += b"".join([b"\x20" + varint(word) for word in ack_set])
    if epoch >= 0:
        parts += b"\x28" + varint(epoch)
    command = OPEN_MESSAGE + varint(len(parts)) + parts
    return _HEADER.pack(len(command) + 4 + body_bytes, len(command)) + command


def _receipts_with_highest(
    producer_id: int, sequence_ids: list[int], highest_ids: list[int], ledger: int, first_entry: int
) -> bytes:
    lead = b"\x08" + varint(producer_id) + b"\x10"
    id_lead = b"\x08" + varint(ledger) + b"\x10"
    parts: list[bytes] = []
    append = parts.append
    entry = first_entry
    for index in range(len(sequence_ids)):
        sequence_bytes = varint(sequence_ids[index])
        entry_bytes = varint(entry)
        highest_bytes = varint(highest_ids[index])
        id_size = len(id_lead) + len(entry_bytes)
        size = len(lead) + len(sequence_bytes) + 3 + id_size + len(highest_bytes)
        append(_HEADER.pack(size + 8, size + 4) + bytes((0x08, 7, 0x3A, size)) + lead)
        append(sequence_bytes)
        append(bytes((0x1A, id_size)) + id_lead)
        append(entry_bytes)
        append(b"\x20" + highest_bytes)
        entry += 1
    return b"".join(parts)
