"""What a broker delivers to one topic's consumer, on its way into the inbox.

Opens entries, leaves out what is acknowledged, hidden by the start or of the past, joins chunks, and sends to the
graveyard what was delivered too often. Whatever is not shown is still reported to the lane, since the broker counted it
against the permits. An entry that cannot be opened is thrown away: the broker is told why, it is counted and logged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from magnetar.base.errors import Corrupt
from magnetar.client.acks import Position, all_bits, bits
from magnetar.client.chunks import Chunks
from magnetar.client.message import Decoder, Delivery, Message
from magnetar.client.opening import BATCH, CHECKSUM, DECRYPTION, UNCOMPRESSED_SIZE, inflate, open_batch, open_metadata
from magnetar.client.receive import Receiver
from magnetar.client.start import hidden_bits
from magnetar.observe.log import get
from magnetar.runtime.runtime import Runtime
from magnetar.wire import entry as entries
from magnetar.wire.proto import pb
from magnetar.wire.pushes import MessageParts

if TYPE_CHECKING:
    from magnetar.client.part import Part

log = get("client.consumer")


class Graveyard(Protocol):
    """Where messages go that were delivered too often."""

    redeliveries_max: int

    def bury(self, messages: list[Message[Any]]) -> None: ...


class Intake:
    def __init__(
        self,
        part: Part,
        runtime: Runtime,
        receiver: Receiver,
        schema: Decoder[Any],
        *,
        graveyard: Graveyard | None = None,
    ) -> None:
        self._part = part
        self._runtime = runtime
        self._receiver = receiver
        self._schema = schema
        self._graveyard = graveyard
        self._compacted = part.asked.read_compacted
        # A reader of a segment: what it does not show is behind it all the same, or the segment would never end.
        self._passes = part.segment >= 0 and not part.asked.durable
        self._chunks = Chunks(pending_max=part.asked.chunked_pending_max, expire_s=part.asked.chunked_expire_s)

    def forget(self) -> None:
        """Whatever is unacknowledged comes again, from its first chunk."""
        self._chunks.forget()

    def settle(self) -> None:
        """The segment is sealed, and everything else of it is done: a message whose time is up is never complete, and
        its chunks must not keep the segment's children waiting (H-E8). Brokers of ours see that themselves."""
        self._chunks.expire(self._runtime.monotonic())
        self._give_up(self._chunks.take_given_up(), discard=True)

    def message(self, parts: MessageParts, entry: bytes) -> None:
        _, ledger, number, partition, redelivered, ack_set, epoch = parts
        part = self._part
        if part.skipping or 0 <= epoch < part.epoch:
            self._skip(entry, ack_set)
            return
        position = (ledger, number)
        try:
            metadata, payload_at = open_metadata(entry)
            if metadata.encryption_keys:
                self._encrypted(position, entry, ack_set)
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
        part.redelivery.remember_chunks(delivery.chunks)
        self._deliver([Message(data, delivery)], 1)

    def _deliver(self, messages: list[Message[Any]], counted: int) -> None:
        part = self._part
        graveyard = self._graveyard
        if graveyard is not None and messages and messages[0].redelivery_count > graveyard.redeliveries_max:
            part.lane.arrived([], 0, counted)
            self._receiver.notify(1)
            graveyard.bury(messages)
            return
        if len(self._chunks):
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
        try:
            counted = entries.counts(entry)
        except Corrupt:
            counted = 1
        if ack_set:
            counted = max(1, bits(ack_set, counted).bit_count())
        self._part.lane.arrived([], 0, counted)
        self._receiver.notify(1)

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
