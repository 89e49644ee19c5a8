"""What a broker delivers to one topic's consumer, on its way into the inbox.

Opens entries, leaves out what is acknowledged, hidden by the start or of the past, joins chunks, and sends to the
graveyard what was to be buried before and could not be. Whatever is not shown is still reported to the lane, since the
broker counted it against the permits. A compressed entry waits until there is room for it (`compressed_entries`). An
entry that cannot be opened is thrown away: the broker is told why, it is counted and logged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from magnetar.base.errors import Corrupt, LimitExceeded, Undecodable
from magnetar.base.limits import CHUNKED_DEFERRED_MAX, CHUNKED_KEYED_BYTES_MAX, CHUNKED_KEYED_PENDING_MAX
from magnetar.client.consumer.ack.acks import Position, all_bits, bits
from magnetar.client.consumer.config import SubscriptionType
from magnetar.client.consumer.receive.chunks import ChunkAssembler
from magnetar.client.consumer.receive.compressed_entries import Unopened
from magnetar.client.consumer.receive.decode import (
    BATCH,
    CHECKSUM,
    DECRYPTION,
    UNCOMPRESSED_SIZE,
    inflate,
    open_batch,
    open_metadata,
)
from magnetar.client.consumer.receive.waiters import ReceiveWaiters
from magnetar.client.consumer.start_position import hidden_bits
from magnetar.client.message import Decoder, Delivery, Message
from magnetar.observe.log import get
from magnetar.runtime.runtime import Runtime
from magnetar.wire import claims
from magnetar.wire import entry as entries
from magnetar.wire.client_readers import MessageParts
from magnetar.wire.proto import pb

if TYPE_CHECKING:
    from magnetar.client.consumer.topic_consumer import TopicConsumer

log = get("client.consumer")


class DeadLetterSink(Protocol):
    """Where messages go that were refused too often."""

    redeliveries_max: int

    def take_doomed(self, messages: list[Message[Any]]) -> list[Message[Any]]: ...

    def bury(self, messages: list[Message[Any]], why: str = "") -> None: ...


class DeliveryHandler:
    def __init__(
        self,
        part: TopicConsumer,
        runtime: Runtime,
        receiver: ReceiveWaiters,
        schema: Decoder[Any],
        *,
        graveyard: DeadLetterSink | None = None,
    ) -> None:
        self._part = part
        self._runtime = runtime
        self._receiver = receiver
        self._schema = schema
        self._graveyard = graveyard
        self._decodes = graveyard is not None and part.asked.on_undecodable == "dead_letter"
        self._compacted = part.asked.read_compacted
        # A reader of a segment: what it does not show is behind it all the same, or the segment would never end.
        self._passes = part.segment >= 0 and not part.asked.durable
        asked = part.asked
        self._keyed = asked.type is SubscriptionType.KEY_SHARED  # what is asked for again there comes too late
        if self._keyed:
            self._chunks = ChunkAssembler(
                pending_max=max(asked.chunked_pending_max, CHUNKED_KEYED_PENDING_MAX),
                bytes_max=CHUNKED_KEYED_BYTES_MAX,
                expire_s=asked.chunked_expire_s,
            )
        else:
            self._chunks = ChunkAssembler(pending_max=asked.chunked_pending_max, expire_s=asked.chunked_expire_s)
        self._again_to: Position | None = None  # what comes up to here comes again, for the sake of deferred chunks
        self._again: set[Position] = set()  # those, until their message is complete
        self._unopened = Unopened(part.lane, self.message)

    @property
    def idle(self) -> bool:
        """Nothing that came waits here or in the inbox."""
        return not len(self._unopened) and not self._part.lane.queue and not self._part.lane.aside

    def forget(self) -> None:
        """Whatever is unacknowledged comes again, from its first chunk."""
        for parts, entry in self._unopened.take_all():
            self._skip(entry, parts[5])
        self._chunks.forget()
        self._again_to = None
        self._again.clear()

    def settle(self) -> None:
        """The segment is sealed, and everything else of it is done: a message whose time is up is never complete, and
        its chunks must not keep the segment's children waiting (H-E8). Brokers of ours see that themselves."""
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
            delivery = Delivery(
                metadata,
                part.topic,
                self._schema,
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
            raise Corrupt("a batch without messages", validation_error=BATCH)
        if why := claims.no_room(metadata, len(entry) - payload_at):  # before anything is made for so many
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
            messages = open_batch(entry, delivery, payload_at)  # no copy
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
            if self._passes:  # at once: said later, on another connection, the chunk would not come there
                part.acks.whole(position)
                part.acker.flush()
            part.lane.arrived([], 0, 1)
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
        """There is no room for its message now: it stays in the backlog and is asked for when its last chunk has come
        (H-R2). A reader has no backlog at the broker: it ends, and another reads on from its place. Where consumers
        share by key, others of its key would come before it: the consumer ends too, and the backlog stays."""
        part, metadata = self._part, delivery.metadata
        if not part.asked.durable or self._keyed:
            self._refuse(metadata)
            return
        if metadata.chunk_id == 0:
            log.warning("chunked_message_deferred", topic=part.topic, uuid=metadata.uuid, **self._chunks.bounds)
        part.lane.arrived([], 0, 1)
        self._receiver.notify(1)
        if due := self._chunks.claim(metadata.uuid):
            if part.asked.type.single:
                self._again.update(due)
                self._again_to = (delivery.ledger, delivery.entry)
            part.redelivery.again(due)
        elif self._chunks.deferred_chunks > CHUNKED_DEFERRED_MAX:
            part.redelivery.all()

    def _is_shown(self, position: Position) -> bool:
        """Of what comes again for the sake of deferred chunks: only they are new."""
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
        what = "this consumer may hold without breaking the order of keys: send them one after the other"
        if not self._keyed:
            what = "this reader may hold: raise chunked_pending_max, or read with a subscription"
        error = LimitExceeded(
            f"more messages in chunks are mixed with each other than {what}",
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
            # One that is never complete must not keep all that comes behind it from a cursor's mark.
            self._chunks.expire(self._runtime.monotonic(), delivery.metadata.publish_time)
            self._give_up(self._chunks.take_given_up())
            delivery.around = self._chunks.oldest
        size = 0
        for message in messages:
            size += len(message.data)
        part.counters.messages += len(messages)
        part.counters.bytes += size
        part.lane.arrived(messages, size, counted)
        self._receiver.notify(len(messages) or 1)

    def _decodable(self, messages: list[Message[Any]], graveyard: DeadLetterSink) -> list[Message[Any]]:
        """Those whose value fits the schema, decoded; the others go to the dead letters, one by one."""
        fit: list[Message[Any]] = []
        for message in messages:
            try:
                _ = message.value
            except Undecodable as error:
                self._part.counters.undecodable += 1
                log.warning("message_undecodable", id=message.id, topic=message.topic, why=error.what)
                graveyard.bury([message], error.what)
            else:
                fit.append(message)
        return fit

    def _hides(self, metadata: pb.MessageMetadata, position: Position) -> bool:
        """A chunk before the start may be of a message that ends behind it, if its first one comes too."""
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
            part.start = None  # what it hid is acknowledged: it does not come again
            return 0
        return start.hides(position, size)

    def _skipped(self, counted: int, position: Position) -> None:
        """Acknowledged before, or hidden by the start, which for a durable subscription is to be done with."""
        part = self._part
        part.counters.duplicates += 1
        if part.asked.durable or self._passes:
            part.acks.whole(position)
            part.acker.added()
        part.lane.arrived([], 0, counted)
        self._receiver.notify(1)  # a lane without a queue asks again

    def _skip(self, entry: bytes, ack_set: list[int] | None) -> None:
        """Of the past, or not readable: only the permits count."""
        counted = self._counted(entry)
        if ack_set:
            counted = max(1, bits(ack_set, counted).bit_count())
        self._part.lane.arrived([], 0, counted)
        self._receiver.notify(1)

    def _counted(self, entry: bytes) -> int:
        """How many permits an entry took. Pulsar takes as many as the metadata claims, true or false. Our brokers
        refuse a false claim of a SEND with several messages, so that this one came with a SEND of one."""
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
        log.once("encrypted message not shown", topic=part.topic, discarded=discard, do="use a client that has the key")
        part.counters.discarded += 1
        if discard:
            part.acker.discard(position, DECRYPTION)
        self._skip(entry, ack_set)

    def _discard(self, position: Position, error: Corrupt, entry: bytes, ack_set: list[int] | None) -> None:
        part = self._part
        part.counters.discarded += 1
        log.error("entry discarded", topic=part.topic, ledger=position[0], entry=position[1], why=error)
        part.acker.discard(position, error.facts.get("validation_error", CHECKSUM))
        self._skip(entry, ack_set)

    def _discard_others(self, positions: list[Position]) -> None:
        """The other chunks of a message that cannot be put together; the last one is discarded by whoever called."""
        for position in positions:
            self._part.acker.discard(position, UNCOMPRESSED_SIZE)

    def _give_up(self, positions: list[Position], *, discard: bool = False) -> None:
        """Chunks whose message is not complete: left to come again, or done with, as was asked for."""
        if not positions:
            return
        part = self._part
        part.counters.chunks_given_up += len(positions)
        discard = discard or part.asked.discard_incomplete_chunks
        log.warning("chunks given up", topic=part.topic, chunks=len(positions), discarded=discard)
        if discard:
            for position in positions:
                part.acks.whole(position)
            part.acker.added()
        elif not part.asked.type.single:
            part.redelivery.later(positions)


def _without_compacted(messages: list[Message[Any]]) -> list[Message[Any]]:
    """Those that compaction left in their batch."""
    return [message for message in messages if not getattr(message._head, "compacted_out", False)]
