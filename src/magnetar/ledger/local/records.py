"""The bytes of a journal record: one run of one ledger, checked by CRC32C on the way out and on the way in.

    magic u32, crc u32, stamp u64, ledger u64, first u64, messages u64, epoch u32, kind u32, entries u32, body u32,
    synced u32, head u32 | where each entry ends u32 * entries | messages of each entry u32 * entries | body

Little endian. `crc` covers everything after itself, `head` only the fixed fields, so that a record with a damaged body
still names its ledger. `stamp` is the segment's own (see `segment`): bytes of an earlier use of a recycled file, or a
record that a client published as a payload, never carry it. `synced` is the offset below which the segment was durable
when this record was written: it distinguishes a torn tail from damage. A hot file: plain functions and slots.
"""

from __future__ import annotations

import struct
import sys
from array import array

from google_crc32c import extend

from magnetar.ledger.run import Run

MAGIC = 0x52474D01
MAGIC_BYTES = MAGIC.to_bytes(4, "little")
KIND_RUN = 1
KIND_END = 2  # nothing of this segment follows

FRONT = struct.Struct("<II")
FIELDS = struct.Struct("<QQQQIIIII")
FOOT = struct.Struct("<I")
FOOT_OF_ONE = struct.Struct("<III")  # with both tables of a record of one entry
HEADER_BYTES = FRONT.size + FIELDS.size + FOOT.size
ENTRY_BYTES = 8  # of the tables, for one entry
NATIVE = sys.byteorder == "little"


class Record:
    """The fixed fields of one record, read back."""

    __slots__ = ("body", "entries", "epoch", "first", "kind", "ledger", "messages", "synced")

    def __init__(
        self,
        ledger: int,
        first: int,
        messages: int,
        epoch: int,
        kind: int,
        entries: int,
        body: int,
        synced: int,
    ) -> None:
        self.ledger = ledger
        self.first = first
        self.messages = messages
        self.epoch = epoch
        self.kind = kind
        self.entries = entries
        self.body = body  # bytes of the entries
        self.synced = synced

    @property
    def size(self) -> int:
        return HEADER_BYTES + ENTRY_BYTES * self.entries + self.body


def size_of(entries: int, body: int) -> int:
    """Bytes in the journal of a run with that many entries and body bytes."""
    return HEADER_BYTES + ENTRY_BYTES * entries + body


def encode(stamp: int, ledger: int, first: int, epoch: int, synced: int, run: Run) -> tuple[bytes, bytes]:
    """Header with tables, and body: two buffers for one write, the body as it came wherever it can be."""
    offsets = run.offsets
    counts = run.counts
    base = offsets[0]
    end = offsets[-1]
    if len(counts) == 1 and base == 0 and end == len(run.body):
        fields = FIELDS.pack(stamp, ledger, first, run.messages, epoch, KIND_RUN, 1, end, synced)
        rest = fields + FOOT_OF_ONE.pack(extend(0, fields), end, counts[0])
        return FRONT.pack(MAGIC, extend(extend(0, rest), run.body)) + rest, run.body
    if base == 0:
        ends = array("I", offsets[1:])
    else:
        ends = array("I", [offset - base for offset in offsets[1:]])
    messages = array("I", counts)
    if not NATIVE:
        ends.byteswap()
        messages.byteswap()
    body = run.body
    if base != 0 or end != len(body):
        body = body[base:end]
    fields = FIELDS.pack(stamp, ledger, first, run.messages, epoch, KIND_RUN, len(counts), end - base, synced)
    rest = b"".join((fields, FOOT.pack(extend(0, fields)), ends.tobytes(), messages.tobytes()))
    crc = extend(extend(0, rest), body)
    return FRONT.pack(MAGIC, crc) + rest, body


def encode_end(stamp: int, synced: int) -> bytes:
    """The record that ends a segment."""
    fields = FIELDS.pack(stamp, 0, 0, 0, 0, KIND_END, 0, 0, synced)
    rest = fields + FOOT.pack(extend(0, fields))
    return FRONT.pack(MAGIC, extend(0, rest)) + rest


def decode(buffer: bytes, at: int, stamp: int) -> Record | None:
    """The header at that place, or None where there is none of this segment. Says nothing about the body."""
    if len(buffer) - at < HEADER_BYTES or buffer[at : at + 4] != MAGIC_BYTES:
        return None
    fields = buffer[at + FRONT.size : at + FRONT.size + FIELDS.size]
    if FOOT.unpack_from(buffer, at + FRONT.size + FIELDS.size)[0] != extend(0, fields):
        return None
    own, ledger, first, messages, epoch, kind, entries, body, synced = FIELDS.unpack(fields)
    if own != stamp:
        return None
    return Record(ledger, first, messages, epoch, kind, entries, body, synced)


def sound(buffer: bytes, at: int, record: Record) -> bool:
    """Whether all of the record is in the buffer as it was written."""
    end = at + record.size
    if end > len(buffer):
        return False
    crc: int = FRONT.unpack_from(buffer, at)[1]
    return bool(crc == extend(0, buffer[at + FRONT.size : end]))


def tables(buffer: bytes, at: int, record: Record) -> tuple[list[int], list[int]]:
    """Where each entry ends, counted from the start of the body, and the messages of each. Of a sound record only."""
    start = at + HEADER_BYTES
    middle = start + 4 * record.entries
    ends = array("I", buffer[start:middle])
    counts = array("I", buffer[middle : middle + 4 * record.entries])
    if not NATIVE:
        ends.byteswap()
        counts.byteswap()
    return ends.tolist(), counts.tolist()
