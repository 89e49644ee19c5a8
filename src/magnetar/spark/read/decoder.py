"""Decodes entries of one segment to Arrow record batches, with only the columns and the rows that a task needs.

It opens entries as the client does (checksum, sizes, bounded decompression) and gathers them. When the caller takes a
batch, it locates and extracts all messages together. It skips rows outside the task's range and rows whose keys belong
to another task. Entries that only brokers read contain no rows. An unreadable entry raises `Corrupt`. Chunked and
encrypted messages are rejected (`NotBuilt`) and not skipped. The module never waits and does not fetch entries.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from magnetar.base.errors import Corrupt, LimitExceeded, NotBuilt
from magnetar.base.limits import SPARK_BATCH_BYTES, SPARK_BATCH_ROWS, SPARK_PAYLOAD_BYTES_MAX
from magnetar.client.consumer.receive.decode import inflate, open_metadata
from magnetar.client.message import Delivery, Message
from magnetar.client.schema import BYTES
from magnetar.layout.routing import DEFAULT, Routing, segment_hash
from magnetar.spark.hashing import slots
from magnetar.spark.read.batch_scanner import PADDING, Bools, Ints, MessageColumns, locate, read
from magnetar.spark.read.columns import EntryRows, empty, schema, table, text_of
from magnetar.spark.source.tasks import HASHES, SegmentSlice

_INT64_MAX = (1 << 63) - 1
_MS_MAX = _INT64_MAX // 1000  # latest time that fits in microseconds
_GATHERED_BYTES_MAX = 1 << 30  # Arrow counts the bytes of a column in 31 bits
# The bytes that contain the values, the position of the first row's metadata in them (-1: a single message), their
# position in the whole buffer, the number of rows, the index of the first row, ledger, entry, metadata.
_Entry = tuple[bytes, int, int, int, int, int, int, Any]
_HASHED = "__key_hash"


class Decoder:
    """Gathers entries of one segment in order. `piece` bounds and filters; without it, the decoder takes all rows."""

    def __init__(
        self,
        columns: Sequence[str],
        *,
        topic: str = "",
        segment: int = -1,
        piece: SegmentSlice | None = None,
        routing: Routing = DEFAULT,
        payload_bytes_max: int = SPARK_PAYLOAD_BYTES_MAX,
    ) -> None:
        self.schema = schema(columns)
        self._columns = tuple(columns)
        self._topic = topic
        self._piece = piece
        self._segment = segment if piece is None else piece.segment
        self._routing = routing
        self._payload_bytes_max = payload_bytes_max
        self._begin()

    def _begin(self) -> None:
        self.bytes = 0
        self.rows = 0  # gathered rows, before filtering
        self._bodies: list[Ints] = []  # begin and end of values in their entry, computed by arithmetic
        self._ends: list[Ints] = []
        self._loose_bodies: list[int] = []  # and those located one by one since then
        self._loose_ends: list[int] = []
        self._entries: list[_Entry] = []

    def add(self, ledger: int, entry: int, data: bytes) -> None:
        """Adds one entry as it was stored; a `Corrupt` entry adds no rows."""
        first, last = (0, _INT64_MAX) if self._piece is None else _bounds(self._piece, ledger, entry)
        if first >= last:
            return
        metadata, at = open_metadata(data)
        if metadata.HasField("marker_type"):
            return
        if self._elsewhere(metadata):
            return
        if metadata.encryption_keys:
            raise NotBuilt(
                "the topic contains encrypted messages: the Spark source cannot decrypt them",
                ledger=ledger,
                entry=entry,
            )
        if metadata.num_chunks_from_msg > 1:
            raise NotBuilt("the Spark source does not support chunked messages yet", ledger=ledger, entry=entry)
        if metadata.compression:
            claimed, most = metadata.uncompressed_size, self._payload_bytes_max
            if claimed > most:
                raise Corrupt("a payload exceeds the maximum size", bytes=claimed, bytes_max=most)
            data, at = inflate(metadata, data[at:]), 0
        base = self.bytes
        if base + len(data) > _GATHERED_BYTES_MAX:
            raise LimitExceeded("call take before adding more entries", bytes=base + len(data))
        if metadata.HasField("num_messages_in_batch"):
            located = locate(data, metadata.num_messages_in_batch, at, metadata.size_index)
            head, count = self._batch(located, at + 4, first, last)
        elif first:
            return
        else:
            self._loose_bodies.append(at)
            self._loose_ends.append(len(data))
            head, count = -1, 1
        if not count:
            return
        self._entries.append((data, head, base, count, first, ledger, entry, metadata))
        self.bytes += len(data)
        self.rows += count

    def _batch(
        self, located: tuple[Ints, Ints] | tuple[list[int], list[int]], head: int, first: int, last: int
    ) -> tuple[int, int]:
        """Gathers the rows of a batch that are in the range: the metadata position of the first one, and their
        number.
        """
        bodies, ends = located
        if first or last < len(ends):
            head = int(ends[first - 1]) + 4 if 0 < first < len(ends) else head
            bodies, ends = bodies[first:last], ends[first:last]
        if isinstance(bodies, list) and isinstance(ends, list):
            self._loose_bodies += bodies
            self._loose_ends += ends
        else:
            self._gather_loose()
            self._bodies.append(np.asarray(bodies))
            self._ends.append(np.asarray(ends))
        return head, len(ends)

    def _gather_loose(self) -> None:
        if self._loose_ends:
            self._bodies.append(np.array(self._loose_bodies, np.int64))
            self._ends.append(np.array(self._loose_ends, np.int64))
            self._loose_bodies, self._loose_ends = [], []

    def take(self) -> Any:
        """Returns the gathered rows as one record batch and clears the buffer."""
        if not self._entries:
            return empty(self._columns)
        gathered = self._gathered()
        self._begin()
        return table(self._columns, gathered, np.flatnonzero(~gathered.rows.compacted & self._chosen(gathered)))

    def _gathered(self) -> EntryRows:
        self._gather_loose()
        data, *numbers, metadata = zip(*self._entries, strict=True)
        buffer = b"".join([*data, bytes(PADDING)])
        openings, bases, counts, firsts, ledgers, entries = np.array(numbers, np.int64)
        shift = np.repeat(bases, counts)
        bodies, ends = np.concatenate(self._bodies) + shift, np.concatenate(self._ends) + shift
        heads = np.empty_like(ends)
        # each begins after the previous one, the first of an entry at the entry's own position
        heads[1:] = ends[:-1] + 4
        heads[np.cumsum(counts) - counts] = np.where(openings < 0, -1, openings + bases)
        entry = np.repeat(np.arange(len(counts)), counts)
        place = np.arange(len(entry)) + np.repeat(firsts - np.cumsum(counts) + counts, counts)
        alone = heads < 0
        whole = np.frombuffer(buffer, np.uint8)
        rows = read(whole, np.where(alone, bodies, heads), bodies, ends)

        def message(row: int) -> Any:
            """The metadata of one row, read by protobuf; for rare fields."""
            fields = metadata[int(entry[row])]
            return fields if alone[row] else _parsed(fields, buffer[int(heads[row]) : int(bodies[row])])

        single = np.flatnonzero(alone)
        keys, hashed = _singles(rows, single, [metadata[fields] for fields in entry[single].tolist()])
        for row in np.flatnonzero(rows.strange & ~alone).tolist():
            keys[row], hashed[row] = _strange(rows, row, message(row))
        for row in np.flatnonzero(rows.key_base64 & (rows.key_start >= 0)).tolist():
            keys[row] = _unbase64(buffer[rows.key_start[row] : rows.key_end[row]])
        gathered = EntryRows(
            self._topic,
            self._segment,
            buffer,
            rows,
            entry,
            place,
            ledgers,
            entries,
            np.array([min(fields.publish_time, _MS_MAX) for fields in metadata], np.int64),
            np.array([_signed(fields.sequence_id) for fields in metadata], np.int64),
            list(metadata),
            keys,
            None,
            lambda row: _properties(message(row)),
        )
        if _HASHED in self._columns or self._filtered:
            gathered.slots = self._slots(gathered, whole, hashed, self._routing)
        if self._piece is not None and self._piece.bucket is not None:
            stamps = np.array([_stamp(fields) for fields in metadata], np.int64)[entry]
            gathered.buckets = np.clip(self._slots(gathered, whole, hashed, Routing.LOW16), stamps[:, 0], stamps[:, 1])
        return gathered

    def _elsewhere(self, metadata: Any) -> bool:
        """Whether an entry has no rows for the buckets of this task, by its own metadata: then it need not be
        opened.
        """
        bucket = None if self._piece is None else self._piece.bucket
        if bucket is None:
            return False
        lowest, highest = _stamp(metadata)
        return highest < bucket.start or lowest > bucket.end

    @property
    def _filtered(self) -> bool:
        return self._piece is not None and (self._piece.keys is not None or self._piece.bucket is not None)

    def _slots(self, gathered: EntryRows, buffer: Any, hashed: dict[int, bytes | None], routing: Routing) -> Ints:
        """Hash slots of the routing key: the ordering key, else the key."""
        rows = gathered.rows
        ordered = rows.ordering_start >= 0
        starts = np.where(ordered, rows.ordering_start, rows.key_start)
        ends = np.where(ordered, rows.ordering_end, rows.key_end)
        lying = np.flatnonzero(starts >= 0)
        key_slots = np.full(len(gathered), -1, np.int64)
        key_slots[lying] = slots(buffer, starts[lying], ends[lying], routing)
        elsewhere = {row: key for row, key in gathered.keys.items() if not ordered[row]} | hashed
        for row, key in elsewhere.items():
            key_slots[row] = -1 if key is None else segment_hash(key, routing)
        return key_slots

    def _chosen(self, gathered: EntryRows) -> Bools:
        piece = self._piece
        chosen = np.ones(len(gathered), np.bool_)
        if piece is not None and piece.bucket is not None and gathered.buckets is not None:
            chosen = (gathered.buckets >= piece.bucket.start) & (gathered.buckets <= piece.bucket.end)
        if piece is None or piece.keys is None or gathered.slots is None:
            return chosen
        hash = gathered.slots
        inside = (hash >= piece.range.start) & (hash <= piece.range.end)
        in_range = np.zeros(len(gathered), np.bool_)
        for part in piece.keys:
            in_range |= (hash >= part.start) & (hash <= part.end)
        return chosen & np.where(inside, in_range, piece.strays)


def record_batches(
    decoder: Decoder,
    entries: Iterable[tuple[int, int, bytes]],
    *,
    bytes_max: int = SPARK_BATCH_BYTES,
    rows_max: int = SPARK_BATCH_ROWS,
) -> Iterator[Any]:
    """Converts entries (ledger, entry, data) to record batches of about these sizes; no batch is empty."""
    for ledger, entry, data in entries:
        decoder.add(ledger, entry, data)
        if decoder.bytes >= bytes_max or decoder.rows >= rows_max:
            batch = decoder.take()
            if batch.num_rows:
                yield batch
    batch = decoder.take()
    if batch.num_rows:
        yield batch


def _bounds(piece: SegmentSlice, ledger: int, entry: int) -> tuple[int, int]:
    """The rows of an entry that are in the range."""
    place, start, end = (ledger, entry), piece.start, piece.end
    if place < start[:2] or place > end[:2]:
        return 0, 0
    return start.row if place == start[:2] else 0, end.row if place == end[:2] else _INT64_MAX


def _stamp(metadata: Any) -> tuple[int, int]:
    """The range of hashes that the rows of an entry count as. The producer's value is untrusted: a row with a hash
    outside counts as at the nearer end, so that every row belongs to exactly one task for any claimed range.
    """
    lowest, highest = metadata.entry_hash_min, metadata.entry_hash_max
    if not metadata.HasField("entry_hash_max") or not lowest <= highest < HASHES:
        return 0, HASHES - 1
    return lowest, highest


def _parsed(entry: Any, single: bytes) -> Any:
    """The metadata of a message of a batch, as the client reads it."""
    return Message(b"", Delivery(entry, "", BYTES, ledger=0, entry=0), single, 0)._head


Keys = dict[int, bytes | None]


def _singles(rows: MessageColumns, places: Ints, heads: list[Any]) -> tuple[Keys, Keys]:
    """Fills the rows of single messages; returns their keys and the bytes to hash."""
    if not heads:
        return {}, {}
    rows.null[places] = [one.null_value for one in heads]
    rows.event_ms[places] = np.array([one.event_time for one in heads], np.uint64)
    rows.properties[places] = [len(one.properties) > 0 for one in heads]
    pairs = [_keys(one) for one in heads]
    numbers = places.tolist()
    return (
        dict(zip(numbers, [key for key, _ in pairs], strict=True)),
        dict(zip(numbers, [key for _, key in pairs], strict=True)),
    )


def _strange(rows: MessageColumns, row: int, head: Any) -> tuple[bytes | None, bytes | None]:
    """Fills a row with unusual field order; returns its key and the bytes to hash."""
    if head.payload_size != rows.value_end[row] - rows.value_start[row]:
        raise Corrupt("a message of a batch does not match the size in its index", row=row)
    rows.null[row], rows.compacted[row] = head.null_value, head.compacted_out
    rows.event_ms[row] = head.event_time
    rows.sequenced[row], rows.sequence[row] = head.HasField("sequence_id"), head.sequence_id
    rows.properties[row] = len(head.properties) > 0
    rows.key_start[row] = rows.ordering_start[row] = -1
    return _keys(head)


def _keys(head: Any) -> tuple[bytes | None, bytes | None]:
    key = _raw(head.partition_key) if head.HasField("partition_key") else None
    if key is not None and head.partition_key_b64_encoded:
        key = _unbase64(key)
    return key, head.ordering_key if head.HasField("ordering_key") else key


def _properties(head: Any) -> list[tuple[str, str]]:
    return list({text_of(pair.key): text_of(pair.value) for pair in head.properties}.items())


def _unbase64(key: bytes) -> bytes:
    try:
        return b64decode(key, validate=True)
    except Base64Error:
        return key  # wrongly marked as base64


def _signed(value: int) -> int:
    return value if value <= _INT64_MAX else value - (1 << 64)


def _raw(value: str | bytes) -> bytes:
    """Protobuf returns text as str, or as bytes if it is not UTF-8."""
    return value if isinstance(value, bytes) else value.encode()
