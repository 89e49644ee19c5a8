"""Publishes to one topic or one partition: gathers, closes and writes batches, and processes receipts, in one order.

Every added message is stored once and in order, or its sender receives an error. After a connection loss every entry
without a receipt is written again on the next attachment, before newer entries. A message without a receipt within the
send timeout fails with `TimedOut`: it may be stored. Runs on the loop; only `start`, `flush` and `close` wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from magnetar.base.errors import Closed, ConnectionLost, Fenced, LimitExceeded, MagnetarError, Sealed, TimedOut
from magnetar.base.limits import MESSAGE_BYTES_MAX
from magnetar.client.connection.connection import Connection
from magnetar.client.connection.lookup import Lookup
from magnetar.client.connection.reconnect import Reconnector, disown, leave, producer_fatal
from magnetar.client.producer.batch import NOTHING, Batch, Stamp, chunk_frames, single_frame
from magnetar.client.producer.config import Counters, ProducerConfig, producer_command
from magnetar.client.producer.fields import Done, MessageFields
from magnetar.client.producer.memory_limit import MemoryLimit
from magnetar.client.producer.open_batches import OpenBatches
from magnetar.client.producer.pending import ChunkedSend, Pending, PendingSend
from magnetar.client.producer.prebuilt_batch import BatchingPlan, PrebuiltBatch
from magnetar.client.producer.results import SendResults, unsure
from magnetar.observe.log import get
from magnetar.wire.proto import pb

log = get("client.publisher")


class Publisher:
    """Satisfies the `TopicPublisher` and `ProducerListener` contracts."""

    def __init__(
        self,
        lookup: Lookup,
        topic: str,
        opening: ProducerConfig,
        budget: MemoryLimit,
        *,
        partition: int = -1,
        batch_closed: Callable[[], None] | None = None,
        ended: Callable[[MagnetarError], None] | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.opening = opening
        self.name = opening.name
        self.id = lookup.pool.next_id()
        self.counters = Counters()
        self.error: MagnetarError | None = None  # set once no more messages are accepted
        self._outcomes = SendResults(self.counters, partition)
        self.next_sequence = -1 if opening.initial_sequence_id is None else opening.initial_sequence_id
        self.last_sequence = self.next_sequence - 1 if self.next_sequence >= 0 else -1  # the highest with a receipt
        self._runtime = lookup.pool.runtime
        self._loop = asyncio.get_running_loop()
        self._budget = budget
        self._batch_closed = batch_closed
        self._ended = ended
        self._attached = Reconnector(lookup, topic, self._open, ended=self._end, fatal=producer_fatal)
        self._stamp = Stamp(self.id, b"", None, opening.compression, MESSAGE_BYTES_MAX)
        self._topic_epoch: int | None = None
        self._ready: Connection | None = None  # set while attached and allowed to write
        self._pending = Pending()
        batching = opening.batching
        self._messages_max = 0 if batching is None else batching.messages_max
        self._bytes_max = 0 if batching is None else batching.bytes_max
        self._gathering = OpenBatches(batching is not None and batching.by_key)
        self._eager = batching is not None and not batching.linger
        self._delay_s = 0.0 if batching is None else batching.delay_s
        self._closing_soon: asyncio.Handle | None = None
        self._expiry: asyncio.TimerHandle | None = None

    @property
    def attached(self) -> bool:
        return self._ready is not None

    @property
    def pending(self) -> int:
        """Entries without a receipt, and messages that are not part of an entry yet."""
        return len(self._pending) + len(self._gathering)

    async def start(self) -> None:
        await self._attached.start(self.opening.operation_timeout_s)

    # Sending

    def add(self, payload: bytes, fields: MessageFields | None, done: Done | None, *, awaited: bool = False) -> None:
        """Take a message for which the caller took room in the memory limit. If the message is refused, `add` gives the
        room back and raises.
        """
        size = len(payload)
        if self.error is not None:
            self._budget.give(size, 1)
            raise self.error
        self.counters.messages += 1
        self.counters.bytes += size
        if not self._messages_max or size > self._bytes_max or (fields is not None and not fields.batches):
            self._send_alone(payload, fields, done)
            return
        batch = self._gathering.find(fields)
        if batch is None or not batch.fits(size, fields, self._bytes_max):
            if batch is not None:
                self._close_batches()
            batch = self._new_batch(fields)
        batch.add(payload, fields, done)
        if len(batch.payloads) >= self._messages_max:
            self._close_batches()

    def cutting(self, *, numbered: bool = False) -> BatchingPlan | None:
        batching = self.opening.batching
        if batching is None or batching.by_key:
            return None
        self._close_batches()
        return BatchingPlan(self.next_sequence, batching.messages_max, self._bytes_max)

    def add_sheaf(self, sheaf: PrebuiltBatch) -> bool:
        self._close_batches()
        return sheaf.sequence == self.next_sequence and self.add_sheaves([sheaf])

    def add_sheaves(self, sheaves: Sequence[PrebuiltBatch]) -> bool:
        self._close_batches()
        if self.error is not None or sheaves[0].sequence < self.next_sequence:
            return False
        now, deadline = self._runtime.wall(), self._runtime.monotonic() + self.opening.send_timeout_s
        try:
            ops = [sheaf.op(self._stamp, now, deadline) for sheaf in sheaves]
        except LimitExceeded:  # one message is too large: its error goes to the caller that adds it alone
            return False
        for op in ops:
            self.counters.took(op.count, op.size)
            self._push(op)
        self.next_sequence = sheaves[-1].highest + 1
        self._write()
        return True

    def hurry(self, *, awaited: bool = False) -> None:
        """Write in this turn of the loop, and not in the next one: no other sender adds to the open batches."""
        if self._eager and not len(self._pending) and len(self._gathering) and self._ready is not None:
            self._close_batches()
        if self._ready is not None:
            self._ready.flush()

    def refused(self, done: Done | None, error: MagnetarError) -> None:
        """Report a message that `add` refused and whose sender no longer waits."""
        self._outcomes.refused([] if done is None else [(0, done)], 1, error)

    async def flush(self) -> None:
        """Wait until every added message is stored or has failed. Raises the first error without a callback."""
        self._close_batches()
        newest = self._pending.newest
        if newest is not None:
            await self._outcomes.until_over(newest)
        self._outcomes.raise_unreported()

    async def close(self, *, flush: bool = True) -> None:
        """Stop accepting messages, wait for the pending ones or give them up, and close at the broker."""
        first = self.error is None
        if first and flush:
            self.error = Closed("the producer is closed", topic=self.topic)
        try:
            if flush:
                await self.flush()
        finally:
            self.error = self.error or Closed("the producer is closed", topic=self.topic)
            connection, self._ready = self._ready, None
            self._give_up(Closed("the producer was closed before the message was stored", topic=self.topic))
            await self._attached.close()
            if connection is not None and not connection.closed:
                connection.detach_producer(self.id)
                await leave(connection, self.id, timeout_s=self.opening.operation_timeout_s, topic=self.topic)

    # Callbacks of the connection

    def receipt(self, sequence: int, highest: int, ledger: int, entry: int) -> None:
        try:
            op = self._pending.answered(sequence)
        except MagnetarError as error:
            log.error("unexpected_receipt_received", topic=self.topic, why=error)
            if self._ready is not None:
                self._ready.abort(error)
            return
        if op is None:
            return
        self.counters.receipts += 1
        if op.highest > self.last_sequence:
            self.last_sequence = op.highest
        self._budget.give(op.size, op.count)
        self._outcomes.stored(op, ledger, entry)
        if self._eager and not len(self._pending) and len(self._gathering):
            self._close_batches()

    def send_error(self, sequence: int, error: MagnetarError) -> None:
        log.warning("send_refused", topic=self.topic, sequence=sequence, why=error)
        if error.wire_code == pb.ChecksumError or isinstance(error, Sealed | Fenced):
            if isinstance(error, Sealed | Fenced) and self.error is None:
                self._close_batches()
                self.error = error  # every other entry in flight gets its own answer
            sends = self._pending.refused(sequence)
            refused = next((op for op in sends if op.sequence <= sequence <= op.highest), None)
            # Refused now, but written before on a connection that was lost: the earlier write may be stored.
            self._fail(sends, error if refused is None or refused.writes <= 0 else unsure(refused, error))
        elif self._ready is not None:
            self._ready.abort(ConnectionLost(f"reconnecting after a refused send: {error}", topic=self.topic))

    def closed_by_broker(self, url: str) -> None:
        self._ready = None
        self._attached.moved(url)

    def connection_lost(self, error: MagnetarError) -> None:
        self._ready = None
        self._attached.lost(error)

    def writable_again(self) -> None:
        self._write()

    # Opening

    async def _open(self, connection: Connection, attempt: int) -> None:
        request_id = connection.next_request_id()
        command = producer_command(
            self.opening,
            self.topic,
            self.id,
            request_id,
            name=self.name,
            epoch=attempt,
            topic_epoch=self._topic_epoch,
        )
        connection.attach_producer(self.id, self)
        try:
            reply = await connection.request(command, request_id, timeout_s=self.opening.operation_timeout_s)
        except BaseException as error:
            connection.detach_producer(self.id)
            if isinstance(error, TimedOut | asyncio.CancelledError):
                disown(connection, self.id)
            raise
        if self._attached.connection is connection:
            self._opened(connection, reply.producer_success)
        else:
            disown(connection, self.id)  # lost, moved or closed during the request

    def _opened(self, connection: Connection, success: pb.CommandProducerSuccess) -> None:
        self.name = success.producer_name
        if success.HasField("topic_epoch"):
            self._topic_epoch = success.topic_epoch
        if self.next_sequence < 0:
            self.next_sequence = success.last_sequence_id + 1
            self.last_sequence = success.last_sequence_id
        self._stamp = Stamp(
            self.id,
            self.name.encode(),
            success.schema_version or None,
            self.opening.compression,
            connection.max_message_size,
        )
        if self.opening.batching is not None:
            self._bytes_max = min(self.opening.batching.bytes_max, connection.max_message_size)
        if self._attached.attempts > 1:
            self.counters.reattached += 1
            log.info("producer_reattached", topic=self.topic, producer=self.name, pending=len(self._pending))
        self._ready = connection
        self._pending.rewind()
        self._write()

    # Batches

    def _new_batch(self, fields: MessageFields | None) -> Batch:
        if self._gathering.full:
            self._close_batches()
        if self._closing_soon is None:
            if self._eager and not len(self._pending) and self._ready is not None:
                self._closing_soon = self._loop.call_soon(self._turn_over)
            else:
                self._closing_soon = self._loop.call_later(self._delay_s, self._turn_over)
        return self._gathering.open(fields, self._runtime.monotonic())

    def _turn_over(self) -> None:
        """All senders of this turn of the loop have added their messages: write now, in this turn."""
        self._close_batches()
        if self._ready is not None:
            self._ready.flush()

    def _close_batches(self) -> None:
        """Close all batches: a message of another key must not overtake the one that closes."""
        if self._closing_soon is not None:
            self._closing_soon.cancel()
            self._closing_soon = None
        batches = self._gathering.take()
        for batch in batches:
            self._push_batch(batch)
        if batches:
            self._write()
            if self._batch_closed is not None:
                self._batch_closed()

    def _push_batch(self, batch: Batch) -> None:
        size = sum(map(len, batch.payloads))
        try:
            first, highest, frame = batch.close(self._stamp, self.next_sequence, self._runtime.wall())
        except LimitExceeded as error:  # a single message whose metadata exceeds the limit
            self._budget.give(size, len(batch))
            self._outcomes.refused(batch.dones, len(batch), error)
            return
        self.next_sequence = max(self.next_sequence, highest + 1)
        op = PendingSend(
            frame,
            first,
            highest,
            count=len(batch),
            size=size,
            deadline=batch.opened + self.opening.send_timeout_s,
            dones=batch.dones,
        )
        self._push(op)

    def _send_alone(self, payload: bytes, fields: MessageFields | None, done: Done | None) -> None:
        self._close_batches()
        alone = not len(self._pending)
        size = len(payload)
        options = fields if fields is not None else NOTHING
        sequence = options.sequence if options.sequence >= 0 else self.next_sequence
        now = self._runtime.wall()
        try:
            if self.opening.chunking:
                frames = chunk_frames(self._stamp, payload, options, sequence, now)
            else:
                frames = [single_frame(self._stamp, payload, options, sequence, now)]
        except MagnetarError:
            self._budget.give(size, 1)
            raise
        self.next_sequence = max(self.next_sequence, sequence + 1)
        deadline = self._runtime.monotonic() + self.opening.send_timeout_s
        whole = ChunkedSend() if len(frames) > 1 else None
        for index, frame in enumerate(frames, start=1):
            last = index == len(frames)
            dones = [(0, done)] if done is not None and last else []
            count, held = (1, size) if last else (0, 0)
            op = PendingSend(frame, sequence, sequence, count=count, size=held, deadline=deadline, dones=dones)
            op.whole, op.last = whole, last
            self._push(op)
        self._write()
        if alone and self._ready is not None:
            self._ready.flush()  # later messages may share a write; delaying this one would not help it
        if self._batch_closed is not None:
            self._batch_closed()

    # Entries

    def _push(self, op: PendingSend) -> None:
        self._pending.push(op)
        if self._expiry is None and self.opening.send_timeout_s > 0:
            self._watch_expiry()

    def _write(self) -> None:
        connection = self._ready
        if connection is None:
            return
        while not connection.congested:
            op = self._pending.next_write()
            if op is None:
                return
            if op.writes == 1:
                self.counters.entries += 1
            connection.write(op.frame)

    def _watch_expiry(self) -> None:
        deadline, self._expiry = self._pending.deadline, None
        if deadline is not None:
            wait_s = max(deadline - self._runtime.monotonic(), 0.0)
            self._expiry = self._loop.call_later(wait_s, self._expire)

    def _expire(self) -> None:
        expired = self._pending.expired(self._runtime.monotonic())
        for op in expired:
            self.counters.timeouts += op.count
            error = TimedOut(
                "no receipt within the send timeout: the message may be stored",
                topic=self.topic,
                sequence=op.sequence,
                written=op.writes > 0,
            )
            self._fail([op], error)
        if expired:
            log.warning("sends_timed_out", topic=self.topic, entries=len(expired))
        self._watch_expiry()

    # Failures

    def _fail(self, ops: list[PendingSend], error: MagnetarError) -> None:
        for op in ops:
            self._budget.give(op.size, op.count)
            self._outcomes.failed(op, error)

    def _end(self, error: MagnetarError) -> None:
        """The broker finally refuses this producer."""
        self.error = self.error or error
        self._ready = None
        self._give_up(error)
        if self._ended is not None:
            self._ended(error)

    def _give_up(self, error: MagnetarError) -> None:
        self._close_batches()
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        for op in self._pending.drained():
            self._fail([op], unsure(op, error) if op.writes > 0 else error)
