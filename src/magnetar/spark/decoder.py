"""Entries of one segment turned into Arrow record batches: only the columns and the rows that a task wants.

Entries are opened as the client opens them (checksum, sizes, bounded decompression) and gathered; their messages are
found and cut out together when a batch is taken. Rows outside the piece a task reads, and rows of keys that another
task reads, are left out; entries that only brokers read have none. What cannot be opened is `Corrupt`. Chunked and
encrypted messages are refused (`NotBuilt`) rather than left out. Nothing waits here; who brings entries is not asked.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from magnetar.base.errors import Corrupt, LimitExceeded, NotBuilt
from magnetar.base.limits import SPARK_BATCH_BYTES, SPARK_BATCH_ROWS, SPARK_PAYLOAD_BYTES_MAX
from magnetar.client.message import Delivery, Message
from magnetar.client.opening import inflate, open_metadata
from magnetar.client.schemas import BYTES
from magnetar.layout.routing import DEFAULT, Routing, segment_hash
from magnetar.spark.columns import Gathered, empty, schema, table
from magnetar.spark.frontier import DONE, START, RowPosition
from magnetar.spark.hashing import slots
from magnetar.spark.rows import PADDING, Bools, Ints, Rows, locate, read
from magnetar.spark.tasks import Piece

_INT64_MAX = (1 << 63) - 1
_GATHERED_BYTES_MAX = 1 << 30  # Arrow counts the bytes of a column in 31 bits
_HASHED = "__key_hash"


class Decoder:
    """Gathers entries of one segment in their order. `piece` bounds and filters; without one everything is taken."""

    def __init__(
        self,
        columns: Sequence[str],
        *,
        topic: str = "",
        segment: int = -1,
        piece: Piece | None = None,
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
        self.rows = 0  # gathered, before they are filtered
        self._payloads: list[bytes] = []
        self._heads: list[Any] = []
        self._bodies: list[Any] = []
        self._ends: list[Any] = []
        self._counts: list[int] = []
        self._firsts: list[int] = []  # index of the first row that is kept
        self._deliveries: list[Delivery] = []

    def add(self, ledger: int, entry: int, data: bytes) -> None:
        """One entry as it was stored; nothing is gathered of one that is `Corrupt`."""
        first, last = self._bounds(ledger, entry)
        if first >= last:
            return
        metadata, at = open_metadata(data)
        if metadata.HasField("marker_type"):
            return
        if metadata.encryption_keys:
            raise NotBuilt("a message is encrypted: Spark has no key for it", ledger=ledger, entry=entry)
        if metadata.num_chunks_from_msg > 1:
            raise NotBuilt("a message in chunks cannot be read from Spark yet", ledger=ledger, entry=entry)
        if metadata.compression and metadata.uncompressed_size > self._payload_bytes_max:
            raise Corrupt(
                "a payload claims to be too large", bytes=metadata.uncompressed_size, bytes_max=self._payload_bytes_max
            )
        payload = inflate(metadata, data[at:])
        delivery = Delivery(metadata, self._topic, BYTES, ledger=ledger, entry=entry)
        base = self.bytes
        if metadata.HasField("num_messages_in_batch"):
            bodies, ends = locate(payload, metadata.num_messages_in_batch)
            heads = np.empty_like(ends)
            heads[0], heads[1:] = 4, ends[:-1] + 4
            kept = slice(first, min(last, len(ends)))
            bodies, ends, heads = bodies[kept], ends[kept], heads[kept]
            delivery.size = metadata.num_messages_in_batch
        elif first == 0:
            heads, bodies, ends = np.array([-1]), np.array([0]), np.array([len(payload)])
        else:
            return
        if not len(ends):
            return
        if base + len(payload) > _GATHERED_BYTES_MAX:
            raise LimitExceeded("take what was gathered before more is added", bytes=base + len(payload))
        self._payloads.append(payload)
        self._heads.append(np.where(heads < 0, heads, heads + base))
        self._bodies.append(bodies + base)
        self._ends.append(ends + base)
        self._counts.append(len(ends))
        self._firsts.append(first)
        self._deliveries.append(delivery)
        self.bytes += len(payload)
        self.rows += len(ends)

    def take(self) -> Any:
        """What was gathered, as one record batch, and begin again."""
        if not self._counts:
            return empty(self._columns)
        found = self._gathered()
        self._begin()
        return table(self._columns, found, np.flatnonzero(~found.rows.compacted & self._chosen(found)))

    def _bounds(self, ledger: int, entry: int) -> tuple[int, int]:
        """Which rows of an entry are in the piece."""
        start, end = (START, DONE) if self._piece is None else (self._piece.start, self._piece.end)
        if RowPosition(ledger, entry, _INT64_MAX) < start:
            return 0, 0
        first = start.row if (ledger, entry) == start[:2] else 0
        if (ledger, entry) > end[:2]:
            return 0, 0
        return first, end.row if (ledger, entry) == end[:2] else _INT64_MAX

    def _gathered(self) -> Gathered:
        buffer = b"".join([*self._payloads, bytes(PADDING)])
        heads, bodies, ends = (np.concatenate(part) for part in (self._heads, self._bodies, self._ends))
        counts = np.array(self._counts, np.int64)
        entry = np.repeat(np.arange(len(counts)), counts)
        begun = np.repeat(np.cumsum(counts) - counts, counts)
        place = np.arange(len(entry)) - begun + np.repeat(np.array(self._firsts, np.int64), counts)
        alone = heads < 0
        bytes_ = np.frombuffer(buffer, np.uint8)
        rows = read(bytes_, np.where(alone, bodies, heads), bodies, ends)
        rows.strange |= alone  # a message that is an entry has its fields in the entry's metadata
        keys: dict[int, bytes | None] = {}
        hashed: dict[int, bytes | None] = {}
        deliveries = self._deliveries
        found = Gathered(
            self._topic,
            self._segment,
            buffer,
            rows,
            entry,
            place,
            np.array([one.ledger for one in deliveries], np.int64),
            np.array([one.entry for one in deliveries], np.int64),
            np.array([min(one.metadata.publish_time, _INT64_MAX // 1000) for one in deliveries], np.int64),
            np.array([_signed(one.metadata.sequence_id) for one in deliveries], np.int64),
            [_text(one.metadata.producer_name) for one in deliveries],
            keys,
            None,
            lambda row: _properties(_message(row, heads, bodies, alone, buffer, deliveries[int(entry[row])])),
        )
        for row in np.flatnonzero(rows.strange).tolist():
            message = _message(row, heads, bodies, alone, buffer, deliveries[int(entry[row])])
            keys[row], hashed[row] = _by_protobuf(rows, row, message, alone=bool(alone[row]))
        for row in np.flatnonzero(rows.key_base64 & (rows.key_start >= 0)).tolist():
            keys[row] = _unbase64(buffer[rows.key_start[row] : rows.key_end[row]])
        if _HASHED in self._columns or self._filtered:
            found.slots = self._slots(found, bytes_, hashed)
        return found

    @property
    def _filtered(self) -> bool:
        return self._piece is not None and self._piece.keys is not None

    def _slots(self, found: Gathered, buffer: Any, hashed: dict[int, bytes | None]) -> Ints:
        """Of what decides where a message goes: its ordering key, else its key."""
        rows = found.rows
        ordered = rows.ordering_start >= 0
        starts = np.where(ordered, rows.ordering_start, rows.key_start)
        ends = np.where(ordered, rows.ordering_end, rows.key_end)
        lying = np.flatnonzero(starts >= 0)
        made = np.full(len(found), -1, np.int64)
        made[lying] = slots(buffer, starts[lying], ends[lying], self._routing)
        elsewhere = {row: key for row, key in found.keys.items() if not ordered[row]} | hashed
        for row, key in elsewhere.items():
            made[row] = -1 if key is None else segment_hash(key, self._routing)
        return made

    def _chosen(self, found: Gathered) -> Bools:
        piece = self._piece
        chosen = np.ones(len(found), np.bool_)
        if piece is None or piece.keys is None or found.slots is None:
            return chosen
        hash = found.slots
        inside = (hash >= piece.range.start) & (hash <= piece.range.end)
        wanted = np.zeros(len(found), np.bool_)
        for part in piece.keys:
            wanted |= (hash >= part.start) & (hash <= part.end)
        return np.where(inside, wanted, piece.strays)


def record_batches(
    decoder: Decoder,
    entries: Iterable[tuple[int, int, bytes]],
    *,
    bytes_max: int = SPARK_BATCH_BYTES,
    rows_max: int = SPARK_BATCH_ROWS,
) -> Iterator[Any]:
    """Entries (ledger, entry, data) as record batches of about these sizes; none is empty."""
    for ledger, entry, data in entries:
        decoder.add(ledger, entry, data)
        if decoder.bytes >= bytes_max or decoder.rows >= rows_max:
            made = decoder.take()
            if made.num_rows:
                yield made
    made = decoder.take()
    if made.num_rows:
        yield made


def _message(row: int, heads: Ints, bodies: Ints, alone: Bools, buffer: bytes, delivery: Delivery) -> Message[Any]:
    """One row as the client sees it, for what is rare."""
    if alone[row]:
        return Message(b"", delivery)
    return Message(b"", delivery, buffer[int(heads[row]) : int(bodies[row])], 0)


def _by_protobuf(rows: Rows, row: int, message: Message[Any], *, alone: bool) -> tuple[bytes | None, bytes | None]:
    """Fill a row that was not read with the rest; its key, and what is hashed."""
    head: Any = message._head
    if not alone and not head.IsInitialized():
        raise Corrupt("the metadata of a message of a batch lacks required fields")
    rows.null[row] = head.null_value
    rows.compacted[row] = not alone and head.compacted_out
    rows.event_ms[row] = head.event_time
    rows.sequenced[row] = not alone and head.HasField("sequence_id")
    rows.sequence[row] = head.sequence_id
    rows.properties[row] = len(head.properties) > 0
    rows.key_start[row] = rows.ordering_start[row] = -1
    rows.key_base64[row] = False
    key = _raw(head.partition_key) if head.HasField("partition_key") else None
    if key is not None and head.partition_key_b64_encoded:
        key = _unbase64(key)
    return key, head.ordering_key if head.HasField("ordering_key") else key


def _properties(message: Message[Any]) -> list[tuple[str, str]]:
    head: Any = message._head
    return list({_text(pair.key): _text(pair.value) for pair in head.properties}.items())


def _unbase64(key: bytes) -> bytes:
    try:
        return b64decode(key, validate=True)
    except Base64Error:
        return key  # marked as base64 by mistake


def _signed(value: int) -> int:
    return value if value <= _INT64_MAX else value - (1 << 64)


def _raw(value: str | bytes) -> bytes:
    """Protobuf gives text as str, or as bytes where it is not UTF-8."""
    return value if isinstance(value, bytes) else value.encode()


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")
