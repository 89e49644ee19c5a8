"""Processes the deliveries of a broker to one topic's consumer, up to the receive queue.

It decodes entries, leaves out messages that are acknowledged, hidden by the start position or outdated, joins chunks,
and retries failed burials at the dead-letter publisher. Every hidden message is still reported to the topic queue,
because the broker counted it against the permits. A compressed entry waits until it has room (`compressed_entries`). An
entry that cannot be decoded is discarded: the broker gets the reason, and it is counted and logged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from magnetar.base.errors import Corrupt, LimitExceeded, Undecodable
from magnetar.base.limits import CHUNKED_DEFERRED_MAX, CHUNKED_KEYED_BYTES_MAX, CHUNKED_KEYED_PENDING_MAX
from magnetar.client.consumer.ack.acks import Position, all_bits, bits
from magnetar.client.consumer.config import SubscriptionType
from magnetar.client.consumer.receive.chunks import ChunkAssembler
from magnetar.client.consumer.receive.compressed_entries import CompressedEntries
from magnetar.client.consumer.receive.decode import (
    BATCH,
    CHECKSUM,
    DECRYPTION,
    UNCOMPRESSED_SIZE,
    inflate,
    open_batch,
    open_metadata,
)
from magnetar.client.consumer.start_position import hidden_bits
from magnetar.client.message import Decoder, Delivery, Message
from magnetar.observe.log import get
from magnetar.wire import claims
from magnetar.wire import entry as entries
from magnetar.wire.client_readers import MessageParts
from magnetar.wire.proto import pb

if TYPE_CHECKING:
    from magnetar.client.consumer.context import ConsumerContext
    from magnetar.client.consumer.topic_consumer import TopicConsumer

log = get("client.consumer")


class DeadLetterSink(Protocol):
    """Takes messages that were refused too often."""

    redeliveries_max: int

    def take_doomed(self, messages: list[Message[Any]]) -> list[Message[Any]]: ...

    def bury(self, messages: list[Message[Any]], why: str = "") -> None: ...


class DeliveryHandler:
    def __init__(self, part: TopicConsumer, context: ConsumerContext) -> None:
        self._part = part
        self._runtime = context.lookup.pool.runtime
        self._receiver = context.receiver
        self._schema = context.schema
        self._writers = context.writers
        self._graveyard = context.dead_letters
        self._decodes = self._graveyard is not None and part.asked.on_undecodable == "dead_letter"
        self._compacted = part.asked.read_compacted
        # A reader of a segment acknowledges the messages that it hides; otherwise the segment would never end.
        self._passes = part.segment >= 0 and not part.asked.durable
        config = part.asked
        self._keyed = config.type is SubscriptionType.KEY_SHARED  # a redelivery would break the order of keys
        if self._keyed:
            self._chunks = ChunkAssembler(
                pending_max=max(config.chunked_pending_max, CHUNKED_KEYED_PENDING_MAX),
                bytes_max=CHUNKED_KEYED_BYTES_MAX,
                expire_s=config.chunked_expire_s,
            )
        else:
            self._chunks = ChunkAssembler(pending_max=config.chunked_pending_max, expire_s=config.chunked_expire_s)
        self._again_to: Position | None = None  # deliveries up to here are repeated, because of deferred chunks
        self._again: set[Position] = set()  # positions of the deferred chunks, until their message is complete
        self._unopened = CompressedEntries(part.queue, self.message)

    @property
    def idle(self) -> bool:
        """Whether no received message waits here or in the receive queue."""
        return not len(self._unopened) and not self._part.queue.messages and not self._part.queue.aside

    def forget(self) -> None:
        """Unacknowledged messages will be redelivered from their first chunk."""
        for parts, entry in self._unopened.take_all():
            self._skip(entry, parts[5])
        self._chunks.forget()
        self._again_to = None
        self._again.clear()

    def settle(self) -> None:
        """The segment is sealed and all other messages are done. An overdue incomplete message never completes, and its
        chunks must not block the segment's children (H-E8). Magnetar brokers handle this themselves."""
        self._chunks.expire(self._runtime.monotonic())
        self._give_up(self._chunks.take_given_up(), discard=True)

    def message(self, parts: MessageParts, entry: bytes) -> None:
        if len(self._unopened) and not self._unopened.opening:
            self._unopened.add(parts, entry)
            return
        _, ledger, number, partition, redelivered, ack_set, epoch = parts
        part = self._part
        if part.skipping or 0 <= epoch < part.epoch:
            self._skip(entry, ack_set)
            return
        position = (ledger, number)
        if self._again_to is not None and self._is_shown(position):
            self._skip(entry, ack_set)
            return
        try:
            metadata, payload_at = open_metadata(entry)
            if metadata.encryption_keys:
                self._encrypted(position, entry, ack_set)
                return
            if metadata.compression and self._unopened.must_wait(metadata):
                self._unopened.wait(parts, entry, metadata.uncompressed_size)
                return
            decoder: Decoder[Any] = self._schema
            if self._writers is not None and metadata.HasField("schema_version"):
                topic = part.whole or part.topic
                writers_decoder = self._writers.known(topic, metadata.schema_version)
                if writers_decoder is None:
                    self._unopened.block(parts, entry)
                    self._writers.request(topic, metadata.schema_version, self._unopened.unblock)
                    return
                decoder = writers_decoder
            delivery = Delivery(
                metadata,
                part.topic,
                decoder,
                ledger=ledger,
                entry=number,
                partition=partition,
                redelivery_count=redelivered,
                source=part,
            )
            if metadata.HasField("num_messages_in_batch"):
                self._batch(delivery, entry, payload_at, ack_set)
            elif self._hides(metadata, position) or part.acks.duplicate(position):
                self._skipped(1, position)
            elif metadata.num_chunks_from_msg > 1:
                self._chunk(delivery, entry[payload_at:])
            else:
                self._deliver([Message(inflate(metadata, entry[payload_at:]), delivery)], 1)
        except Corrupt as error:
            self._discard(position, error, entry, ack_set)

    def _batch(self, delivery: Delivery, entry: bytes, payload_at: int, ack_set: list[int] | None) -> None:
        part = self._part
        metadata = delivery.metadata
        position = (delivery.ledger, delivery.entry)
        size = delivery.size = metadata.num_messages_in_batch
        if size < 1:
            raise Corrupt("the batch has no messages", validation_error=BATCH)
        if why := claims.no_room(metadata, len(entry) - payload_at):  # checked before any allocation for them
            raise Corrupt(why, validation_error=BATCH)
        counted = size
        unacked = all_bits(size)
        if ack_set:
            unacked = bits(ack_set, size)
            counted = max(1, unacked.bit_count())
        if part.acks.duplicate(position):
            self._skipped(counted, position)
            return
        shown = part.acks.remaining(position, unacked)
        hidden = self._hidden(position, size)
        if hidden:
            shown = hidden_bits(shown, hidden)
            if shown and part.asked.durable:
                part.acks.hide(position, shown)
        if not shown:
            self._skipped(counted, position)
            return
        delivery.unacked = shown
        if metadata.compression:
            messages = open_batch(inflate(metadata, entry[payload_at:]), delivery)
        else:
            messages = open_batch(entry, delivery, payload_at)  # without a copy
        if self._compacted:
            messages = _without_compacted(messages)
            delivery.unacked = sum(1 << message.batch_index for message in messages)
            if not messages:
                self._skipped(counted, position)
                return
        self._deliver(messages, counted)

    def _chunk(self, delivery: Delivery, payload: bytes) -> None:
        part = self._part
        position = (delivery.ledger, delivery.entry)
        try:
            whole = self._chunks.add(delivery.metadata, payload, position, self._runtime.monotonic())
        except Corrupt:
            self._discard_others(self._chunks.take_given_up())
            raise
        self._give_up(self._chunks.take_given_up())
        if whole is None and self._chunks.defers(delivery.metadata.uuid):
            self._defer(delivery)
            return
        if whole is None:
            if self._passes:  # acknowledge now: after a reconnect the chunk would not be delivered
                part.acks.whole(position)
                part.acker.flush()
            part.queue.arrived([], 0, 1)
            self._receiver.notify(1)
            return
        try:
            data = inflate(delivery.metadata, whole.payload)
        except Corrupt:
            self._discard_others(whole.strays + whole.positions[:-1])
            raise
        if self._hidden(position, 0):
            self._skipped(1, position)
            return
        delivery.chunks = whole.strays + whole.positions
        self._again.difference_update(delivery.chunks)
        part.redelivery.remember_chunks(delivery.chunks)
        self._deliver([Message(data, delivery)], 1)

    def _defer(self, delivery: Delivery) -> None:
        """Its message does not fit now: it stays in the backlog and is requested after its last chunk (H-R2). A
        reader has no backlog at the broker: it ends, and another one continues from its position. Consumers that share
        by key would receive later messages of the key first, so such a consumer ends too, and the backlog stays."""
        part, metadata = self._part, delivery.metadata
        if not part.asked.durable or self._keyed:
            self._refuse(metadata)
            return
        if metadata.chunk_id == 0:
            log.warning("chunked_message_deferred", topic=part.topic, uuid=metadata.uuid, **self._chunks.bounds)
        part.queue.arrived([], 0, 1)
        self._receiver.notify(1)
        if due := self._chunks.claim(metadata.uuid):
            if part.asked.type.single:
                self._again.update(due)
                self._again_to = (delivery.ledger, delivery.entry)
            part.redelivery.again(due)
        elif self._chunks.deferred_chunks > CHUNKED_DEFERRED_MAX:
            part.redelivery.all()

    def _is_shown(self, position: Position) -> bool:
        """Whether to skip a repeated delivery: only deferred chunks are new in it."""
        assert self._again_to is not None
        if position > self._again_to:
            self._again_to = None
            self._again.clear()
            return False
        return position not in self._again

    def _refuse(self, metadata: pb.MessageMetadata) -> None:
        part = self._part
        bounds = self._chunks.bounds
        self._chunks.forget()
        what = "this consumer may buffer without breaking the order of keys: send them one after the other"
        if not self._keyed:
            what = "this reader may buffer: raise chunked_pending_max, or read with a subscription"
        error = LimitExceeded(
            f"more chunked messages are interleaved than {what}",
            topic=part.topic,
            uuid=metadata.uuid,
            **bounds,
        )
        log.error("consumer_ended", topic=part.topic, why=error)
        part.refuse(error)

    def _deliver(self, messages: list[Message[Any]], counted: int) -> None:
        part = self._part
        graveyard = self._graveyard
        if graveyard is not None and messages and messages[0].redelivery_count > 0:
            messages = graveyard.take_doomed(messages)
        if graveyard is not None and self._decodes:
            messages = self._decodable(messages, graveyard)
        if len(self._chunks) and messages:
            delivery = messages[0]._delivery
            # A message that never completes must not hold back the cursor from all later messages.
            self._chunks.expire(self._runtime.monotonic(), delivery.metadata.publish_time)
            self._give_up(self._chunks.take_given_up())
            delivery.around = self._chunks.oldest
        size = 0
        for message in messages:
            size += len(message.data)
        part.counters.messages += len(messages)
        part.counters.bytes += size
        part.queue.arrived(messages, size, counted)
        self._receiver.notify(len(messages) or 1)

    def _decodable(self, messages: list[Message[Any]], graveyard: DeadLetterSink) -> list[Message[Any]]:
        """The messages whose value fits the schema, decoded; the others go to the dead-letter topic, one by one."""
        fit: list[Message[Any]] = []
        for message in messages:
            try:
                _ = message.value
            except Undecodable as error:
                self._part.counters.undecodable += 1
                log.warning("message_decode_failed", id=message.id, topic=message.topic, why=error.what)
                graveyard.bury([message], error.what)
            else:
                fit.append(message)
        return fit

    def _hides(self, metadata: pb.MessageMetadata, position: Position) -> bool:
        """A chunk before the start may belong to a message that ends after it, if its first chunk is delivered too."""
        if not self._hidden(position, 0):
            return False
        start = self._part.start
        if metadata.num_chunks_from_msg < 2 or start is None or start.around is None:
            return True
        return metadata.chunk_id > 0 and not self._chunks.knows(metadata.uuid)

    def _hidden(self, position: Position, size: int) -> int:
        part = self._part
        start = part.start
        if start is None:
            return 0
        if part.asked.durable and start.passed(position):
            part.start = None  # the messages that it hid are acknowledged and not redelivered
            return 0
        return start.hides(position, size)

    def _skipped(self, counted: int, position: Position) -> None:
        """Skip a message that was acknowledged before, or that the start hides; a durable subscription acknowledges
        it."""
        part = self._part
        part.counters.duplicates += 1
        if part.asked.durable or self._passes:
            part.acks.whole(position)
            part.acker.added()
        part.queue.arrived([], 0, counted)
        self._receiver.notify(1)  # a topic without a queue requests again

    def _skip(self, entry: bytes, ack_set: list[int] | None) -> None:
        """Skip an outdated or unreadable entry: only its permits count."""
        counted = self._counted(entry)
        if ack_set:
            counted = max(1, bits(ack_set, counted).bit_count())
        self._part.queue.arrived([], 0, counted)
        self._receiver.notify(1)

    def _counted(self, entry: bytes) -> int:
        """The number of permits of an entry. Pulsar counts the number in the metadata, even if it is wrong. Magnetar
        brokers refuse a SEND with a wrong number of several messages, so this entry came with a SEND of one."""
        try:
            counted = entries.counts(entry)
        except Corrupt:
            return 1
        if counted > 1 and claims.refusal(entry, 0, len(entry), counted):
            connection = self._part.connection
            if connection is not None and connection.features.magnetar_extensions:
                return 1
        return counted

    def _encrypted(self, position: Position, entry: bytes, ack_set: list[int] | None) -> None:
        part = self._part
        discard = part.asked.discard_encrypted
        log.once("encrypted_message_skipped", topic=part.topic, discarded=discard, do="use a client that has the key")
        part.counters.discarded += 1
        if discard:
            part.acker.discard(position, DECRYPTION)
        self._skip(entry, ack_set)

    def _discard(self, position: Position, error: Corrupt, entry: bytes, ack_set: list[int] | None) -> None:
        part = self._part
        part.counters.discarded += 1
        log.error("entry_discarded", topic=part.topic, ledger=position[0], entry=position[1], why=error)
        part.acker.discard(position, error.facts.get("validation_error", CHECKSUM))
        self._skip(entry, ack_set)

    def _discard_others(self, positions: list[Position]) -> None:
        """Discard the other chunks of a message that cannot be assembled; the caller discards the last one."""
        for position in positions:
            self._part.acker.discard(position, UNCOMPRESSED_SIZE)

    def _give_up(self, positions: list[Position], *, discard: bool = False) -> None:
        """Chunks whose message is incomplete: leave them for redelivery, or acknowledge them, as configured."""
        if not positions:
            return
        part = self._part
        part.counters.chunks_given_up += len(positions)
        discard = discard or part.asked.discard_incomplete_chunks
        log.warning("chunks_dropped", topic=part.topic, chunks=len(positions), discarded=discard)
        if discard:
            for position in positions:
                part.acks.whole(position)
            part.acker.added()
        elif not part.asked.type.single:
            part.redelivery.later(positions)


def _without_compacted(messages: list[Message[Any]]) -> list[Message[Any]]:
    """The messages that compaction kept in their batch."""
    return [message for message in messages if not getattr(message._head, "compacted_out", False)]
