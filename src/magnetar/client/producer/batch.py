"""Gathers messages for one entry, and encodes the entry.

A batch only gathers payloads. It is encoded once, when it is closed; only then do messages without a given sequence id
get one. A batch of one message becomes a plain entry. The batch only decides; its publisher chooses when to close it.
"""

from __future__ import annotations

from dataclasses import dataclass

from magnetar.base.errors import LimitExceeded, Misuse
from magnetar.base.limits import (
    CHUNKED_BYTES_MAX,
    CLIENT_BATCH_BYTES_MAX,
    CLIENT_BATCH_DELAY_S,
    CLIENT_BATCH_MESSAGES_MAX,
)
from magnetar.base.public import public
from magnetar.client.producer.fields import Done, MessageFields
from magnetar.wire import codec
from magnetar.wire.send_frames import (
    Extras,
    batch_metadata,
    batch_payload,
    chunk_fields,
    message_metadata,
    send_frame,
    size_index,
)

NOTHING = MessageFields()
_INDEXED_MIN = 16  # batches from this size on carry the sizes of their messages; smaller ones are scanned as fast
_HEAD_BYTES = 16  # approximate overhead of a message in a batch: its size and metadata


@public("magnetar")
@dataclass(frozen=True, slots=True)
class Batching:
    """Limits of a batch: it is closed at the first one that it reaches. A batch does not wait while no entry is in
    flight to the broker, unless `linger` is set. `by_key` limits a batch to one key, as Key_Shared subscriptions
    require.

    A scalable topic has a batch for each segment and each of its entry buckets. Batches of posted messages are written
    together in one round; each written batch delays the next round by a third of `delay_s` (by 5 ms for sixteen), so
    that batches stay large. A `send` waits only for entries that are in flight.
    """

    messages_max: int = CLIENT_BATCH_MESSAGES_MAX
    bytes_max: int = CLIENT_BATCH_BYTES_MAX
    delay_s: float = CLIENT_BATCH_DELAY_S
    by_key: bool = False
    linger: bool = False

    def __post_init__(self) -> None:
        if self.messages_max < 1 or self.bytes_max < 1 or self.delay_s < 0:
            raise Misuse("messages_max and bytes_max must be at least 1, delay_s must not be negative", batching=self)


@dataclass(frozen=True, slots=True)
class Stamp:
    """The origin and encoding that every entry of a producer carries."""

    producer_id: int
    producer: bytes
    schema_version: bytes | None
    compression: int
    message_bytes_max: int


class Batch:
    __slots__ = (
        "dones",
        "extras",
        "first",
        "hashes",
        "keyed",
        "last_sequence",
        "opened",
        "payloads",
        "sequences",
        "size",
    )

    def __init__(self, opened: float, *, keyed: bool = False) -> None:
        self.opened = opened  # monotonic time of its first message
        self.keyed = keyed
        self.payloads: list[bytes] = []
        self.size = 0
        self.extras: dict[int, Extras] | None = None
        self.sequences: list[int] | None = None  # ids given by the sender: for all messages or for none
        self.dones: list[tuple[int, Done]] = []
        self.first: MessageFields | None = None
        self.last_sequence = -1
        self.hashes: tuple[int, int] | None = None  # the hash range of its entry bucket

    def __len__(self) -> int:
        return len(self.payloads)

    def fits(self, size: int, fields: MessageFields | None, bytes_max: int) -> bool:
        """Whether the batch can take this message, or must be closed first."""
        if not self.payloads:
            return True
        if self.size + size + _HEAD_BYTES > bytes_max:
            return False
        sequence = -1 if fields is None else fields.sequence
        if sequence < 0:
            return self.sequences is None
        return self.sequences is not None and sequence > self.last_sequence

    def add(self, payload: bytes, fields: MessageFields | None, done: Done | None) -> None:
        place = len(self.payloads)
        self.size += len(payload) + _HEAD_BYTES
        if fields is not None:
            if place == 0:
                self.first = fields
            if fields.sequence >= 0:
                if self.sequences is None:
                    self.sequences = []
                self.sequences.append(fields.sequence)
                self.last_sequence = fields.sequence
            extras = fields.extras()
            if any(extras):
                if self.extras is None:
                    self.extras = {}
                self.extras[place] = extras
                self.size += len(extras[0]) + len(extras[1])
        if done is not None:
            self.dones.append((place, done))
        self.payloads.append(payload)

    def fill(self, payloads: list[bytes], fields: list[MessageFields | None]) -> None:
        """Set all messages, whose sequence ids another component assigns; the batch then calls no callbacks."""
        self.payloads = payloads
        self.first = fields[0]
        self.extras = {index: one.extras() for index, one in enumerate(fields) if one is not None} or None

    def close(self, stamp: Stamp, sequence: int, publish_time: int) -> tuple[int, int, bytes]:
        """Returns the first and highest sequence id and the frame. `sequence` is the first id if none were given."""
        count = len(self.payloads)
        first = sequence if self.sequences is None else self.sequences[0]
        highest = sequence + count - 1 if self.sequences is None else self.last_sequence
        if self.keyed and self.sequences is not None:
            first = highest  # ids in between are in batches of other keys, so claim no range (as Java's client does)
        if count == 1:
            fields = self.first if self.first is not None else NOTHING
            return first, first, single_frame(stamp, self.payloads[0], fields, first, publish_time)
        sizes: list[int] | None = [] if count >= _INDEXED_MIN else None
        payload = batch_payload(self.payloads, sequence, self.sequences, self.extras, sizes)
        head = self.first if self.first is not None else NOTHING
        metadata = batch_metadata(
            stamp.producer,
            first,
            publish_time,
            count=count,
            highest=highest,
            key=head.key_bytes,
            key_base64=head.key_base64,
            ordering_key=head.ordering_key,
            compression=stamp.compression,
            uncompressed_size=len(payload),
            schema_version=stamp.schema_version,
            hashes=self.hashes,
            index=b"" if sizes is None else size_index(sizes),
        )
        packed = codec.compress(stamp.compression, payload)
        return first, highest, send_frame(stamp.producer_id, first, metadata, packed, count=count, highest=highest)


def single_frame(stamp: Stamp, payload: bytes, fields: MessageFields, sequence: int, publish_time: int) -> bytes:
    """The frame of a message that is its own entry. `LimitExceeded` if it exceeds the broker's limit."""
    check_payload(payload)
    packed = codec.compress(stamp.compression, payload)
    metadata = _metadata(stamp, fields, sequence, publish_time, len(payload))
    if len(metadata) + len(packed) > stamp.message_bytes_max:
        raise LimitExceeded(
            "the message is larger than the broker's limit: enable chunking",
            bytes=len(metadata) + len(packed),
            bytes_max=stamp.message_bytes_max,
        )
    return send_frame(stamp.producer_id, sequence, metadata, packed)


def check_payload(payload: bytes) -> None:
    """`LimitExceeded` if consumers would refuse to assemble or decompress the payload (H-R3)."""
    if len(payload) > CHUNKED_BYTES_MAX:
        raise LimitExceeded(
            "the message is larger than the limit of consumers, chunked or compressed: split it into several messages",
            bytes=len(payload),
            bytes_max=CHUNKED_BYTES_MAX,
        )


def chunk_frames(stamp: Stamp, payload: bytes, fields: MessageFields, sequence: int, publish_time: int) -> list[bytes]:
    """The frames of a message in chunks within the broker's limit; one frame if the message fits."""
    check_payload(payload)
    packed = codec.compress(stamp.compression, payload)
    metadata = _metadata(stamp, fields, sequence, publish_time, len(payload))
    if len(metadata) + len(packed) <= stamp.message_bytes_max:
        return [send_frame(stamp.producer_id, sequence, metadata, packed)]
    uuid = stamp.producer + b"-%d" % sequence
    widest = chunk_fields(uuid, len(packed), len(packed), len(packed))  # an upper bound on every chunk's fields
    room = stamp.message_bytes_max - len(metadata) - len(widest)
    if room < 1:
        raise LimitExceeded("the metadata of the message is larger than the broker's limit", bytes=len(metadata))
    chunks = -(-len(packed) // room)
    view = memoryview(packed)
    frames: list[bytes] = []
    for index in range(chunks):
        whole = metadata + chunk_fields(uuid, chunks, len(packed), index)
        piece = bytes(view[index * room : (index + 1) * room])
        frames.append(send_frame(stamp.producer_id, sequence, whole, piece, chunk=True))
    return frames


def _metadata(stamp: Stamp, fields: MessageFields, sequence: int, publish_time: int, size: int) -> bytes:
    return message_metadata(
        stamp.producer,
        sequence,
        publish_time,
        uncompressed_size=size,
        compression=stamp.compression,
        properties=fields.properties,
        key=fields.key_bytes,
        key_base64=fields.key_base64,
        replicated_from=fields.replicated_from,
        replicate_to=fields.replicate_to,
        event_time=fields.event_time,
        schema_version=stamp.schema_version,
        ordering_key=fields.ordering_key,
        deliver_at=fields.deliver_at,
        null_value=fields.null_value,
    )
