"""A received message, and the data that it shares with the other messages of its entry.

A message costs one small object: its payload is sliced on receipt, and every other field (key, properties, times, id,
value) is parsed from the metadata on first access, which raises `Corrupt` if the metadata cannot be parsed. A message
knows no connection; the consumer acknowledges it.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

from google.protobuf.message import DecodeError

from magnetar.base.errors import Corrupt, MagnetarError, Undecodable
from magnetar.base.names import topic_name
from magnetar.base.public import public
from magnetar.wire.ids import MessageId
from magnetar.wire.proto import pb

__all__ = ["Decoder", "Delivery", "Message", "MessageId"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Decoder(Protocol[T_co]):
    """The part of a schema that received messages use."""

    def decode(self, data: bytes) -> T_co: ...


class Delivery:
    """One entry as it was delivered to one consumer: shared by all messages in it.

    `size` is the number of messages of a batch, 0 for a single message. `unacked` has a bit set for each
    message of a batch that was not acknowledged when it was delivered. `chunks` are the positions of all chunks of a
    chunked message, the last of which is the delivery's own. `around` is set if this entry arrived while a chunked
    message was incomplete: it is the position of the first chunk of the oldest such message.
    """

    __slots__ = (
        "around",
        "chunks",
        "entry",
        "ledger",
        "metadata",
        "partition",
        "redelivery_count",
        "schema",
        "size",
        "source",
        "topic",
        "unacked",
    )

    def __init__(
        self,
        metadata: pb.MessageMetadata,
        topic: str,
        schema: Decoder[Any],
        *,
        ledger: int,
        entry: int,
        partition: int = -1,
        redelivery_count: int = 0,
        source: Any = None,
    ) -> None:
        self.metadata = metadata
        self.topic = topic
        self.schema = schema
        self.ledger = ledger
        self.entry = entry
        self.partition = partition
        self.redelivery_count = redelivery_count
        self.source = source  # the consumer of the one topic that delivered it
        self.size = 0
        self.unacked = 0
        self.chunks: list[tuple[int, int]] | None = None
        self.around: tuple[int, int] | None = None


@public("magnetar")
class Message(Generic[T]):
    """One message. Two messages are equal only if they are the same delivery of the same message.

    `single` is the message's own metadata in a batch, as unparsed bytes until the first access to a field.
    """

    __slots__ = ("_delivery", "_single", "_stamp", "_value", "batch_index", "data")

    data: bytes
    _stamp: int  # of a stream consumer: its number in the order of all messages that `receive` returned

    def __init__(
        self,
        data: bytes,
        delivery: Delivery,
        single: bytes | pb.SingleMessageMetadata | None = None,
        batch_index: int = -1,
    ) -> None:
        self.data = data
        self.batch_index = batch_index
        self._delivery = delivery
        self._single = single

    def __repr__(self) -> str:
        return f"<Message {self.id} of {self.topic}, {len(self.data)} bytes>"

    @property
    def value(self) -> T:
        """The data decoded through the consumer's schema, once. `Undecodable` if it does not fit the schema. A null
        value (`is_null`) is None for every schema.
        """
        try:
            return self._value
        except AttributeError:  # not decoded yet
            pass
        absent: Any = None
        try:
            self._value: T = self._delivery.schema.decode(self.data) if self.data or not self.is_null else absent
        except MagnetarError:
            raise
        except Exception as error:  # from the schema, which may be user code
            raise self._undecodable(error) from error
        return self._value

    def _undecodable(self, error: Exception) -> Undecodable:
        delivery, version = self._delivery, self.schema_version
        kind = getattr(delivery.schema, "kind", type(delivery.schema))
        return Undecodable(
            f"the message does not fit the schema {getattr(kind, '__name__', kind)}: {error}",
            topic=self.topic,
            position=f"{delivery.ledger}:{delivery.entry}" + (f":{self.batch_index}" if self.batch_index >= 0 else ""),
            schema_version=None if version is None else version.hex(),
        )

    @property
    def id(self) -> MessageId:
        """The id of the message. From a stream consumer it also lists the earlier messages that were received and are
        not acknowledged."""
        delivery = self._delivery
        first = None
        if delivery.chunks is not None:
            ledger, entry = delivery.chunks[0]
            first = MessageId(ledger, entry, delivery.partition)
        segment: int = getattr(delivery.source, "segment", -1)
        id = MessageId(
            delivery.ledger,
            delivery.entry,
            delivery.partition,
            self.batch_index,
            delivery.size,
            first,
            delivery.topic,
            segment,
        )
        return id if segment < 0 else delivery.source.consumer._stream_id(self, id)

    @property
    def topic(self) -> str:
        """The full name of the topic, including the partition. For a scalable topic it is the topic's name, for every
        segment, also for one that was a plain topic before a migration. Only a consumer that subscribed by the plain
        name gets the plain name for messages of that segment.
        """
        topic = self._delivery.topic
        whole: str = getattr(self._delivery.source, "whole", "")
        if whole:
            return whole
        return str(topic_name(topic).parent) if topic.startswith("segment://") else topic

    @property
    def key(self) -> str | None:
        """The key as text. A key of bytes is returned as base64; bytes that are not UTF-8 are shown as escapes."""
        head = self._head
        return _text(head.partition_key) if head.HasField("partition_key") else None

    @property
    def key_bytes(self) -> bytes | None:
        head = self._head
        if not head.HasField("partition_key"):
            return None
        raw = _raw(head.partition_key)
        if not head.partition_key_b64_encoded:
            return raw
        try:
            return b64decode(raw, validate=True)
        except Base64Error:
            return raw  # marked as base64 by mistake: return the text

    @property
    def ordering_key(self) -> bytes | None:
        head = self._head
        return head.ordering_key if head.HasField("ordering_key") else None

    @property
    def properties(self) -> Mapping[str, str]:
        return {_text(item.key): _text(item.value) for item in self._head.properties}

    @property
    def publish_time_ms(self) -> int:
        return self._delivery.metadata.publish_time

    @property
    def event_time_ms(self) -> int:
        """0 if the producer set none."""
        return self._head.event_time

    @property
    def producer_name(self) -> str:
        return _text(self._delivery.metadata.producer_name)

    @property
    def sequence_id(self) -> int:
        head = self._head
        if self._single is None or head.HasField("sequence_id"):
            return head.sequence_id
        return self._delivery.metadata.sequence_id + self.batch_index

    @property
    def redelivery_count(self) -> int:
        """The number of earlier deliveries of its entry."""
        return self._delivery.redelivery_count

    @property
    def schema_version(self) -> bytes | None:
        metadata = self._delivery.metadata
        return metadata.schema_version if metadata.HasField("schema_version") else None

    @property
    def is_null(self) -> bool:
        """True if the value was null (a tombstone in a compacted topic), and not just empty."""
        return self._head.null_value

    @property
    def replicated_from(self) -> str | None:
        metadata = self._delivery.metadata
        return _text(metadata.replicated_from) if metadata.HasField("replicated_from") else None

    @property
    def _head(self) -> pb.SingleMessageMetadata | pb.MessageMetadata:
        """The metadata with the fields of this one message: in a batch each message has its own."""
        single = self._single
        if single is None:
            return self._delivery.metadata
        if not isinstance(single, bytes):
            return single
        try:
            parsed = self._single = pb.SingleMessageMetadata.FromString(single)
        except DecodeError:
            raise Corrupt("the metadata of a message of a batch cannot be parsed", bytes=len(single)) from None
        return parsed


def _text(field: str | bytes) -> str:
    """A parsed text field. Protobuf leaves a field that is not valid UTF-8 as bytes."""
    return field if isinstance(field, str) else field.decode(errors="backslashreplace")


def _raw(field: str | bytes) -> bytes:
    return field.encode() if isinstance(field, str) else field
