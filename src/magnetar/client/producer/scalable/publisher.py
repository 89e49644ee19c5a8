"""Publishes to a scalable topic: each active segment has a queue, and each key stays in order across splits and merges.

This is the actor around `segment_queues`: it follows the layout (`layout_watch`), attaches to owners
(`segment_writer`), writes what the queues release (`send_rounds`) and reports results. To its producer it looks like
the `Publisher` of one plain topic. It attaches to all segments before it takes the first message, because numbers
continue from the highest one that any owner knows. A message without an answer at its deadline fails once: with
`TimedOut` if it may be stored, with `NotReady` if it is not.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace

from magnetar.base.errors import Closed, ConnectionLost, Fenced, MagnetarError, NotReady, TimedOut
from magnetar.base.ids import SegmentId
from magnetar.base.names import topic_name
from magnetar.client.connection.lookup import Lookup
from magnetar.client.layout_watch import LayoutView, LayoutWatch
from magnetar.client.producer.config import Counters, ProducerConfig
from magnetar.client.producer.fields import Done, MessageFields
from magnetar.client.producer.memory_limit import MemoryLimit
from magnetar.client.producer.open_batches import batch_key
from magnetar.client.producer.prebuilt_batch import BatchingPlan, PrebuiltBatch, by_segments
from magnetar.client.producer.router import KeyRoute, SegmentRouter
from magnetar.client.producer.scalable.encode import EncodedEntry, simple_size, wire_size
from magnetar.client.producer.scalable.results import MessageResults
from magnetar.client.producer.scalable.segment_queue import BatchLimits, SegmentQueue
from magnetar.client.producer.scalable.segment_queues import (
    AttachSegment,
    DrainSegment,
    DropSegment,
    Effect,
    LayoutAdvanced,
    ReattachSegment,
    RefreshLayout,
    ReportOutcome,
    SegmentAttached,
    SegmentDetached,
    SegmentQueues,
    SegmentSealed,
    WriteSegment,
)
from magnetar.client.producer.scalable.segment_writer import SegmentWriter
from magnetar.client.producer.scalable.send_rounds import SendRounds
from magnetar.client.producer.scalable.send_schedule import SendAction, SendSchedule
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner

log = get("client.scalable")


class ScalablePublisher:
    """Satisfies `TopicPublisher` for its producer, `SegmentListener` for its segments, and `SendListener`."""

    def __init__(self, lookup: Lookup, topic: str, opening: ProducerConfig, budget: MemoryLimit) -> None:
        self.topic = topic
        self.opening = opening
        self.counters = Counters()
        self.error: MagnetarError | None = None  # set once no more messages are accepted
        self.topic_epoch: int | None = None
        self._lookup = lookup
        self._runtime = lookup.pool.runtime
        self._loop = asyncio.get_running_loop()
        chance = self._runtime.rng("client.names")
        self.name = opening.name or f"magnetar-{chance.getrandbits(40):010x}"
        first = opening.initial_sequence_id
        self.last_sequence = -1 if first is None else first - 1  # the highest with a receipt
        self._budget = budget
        self._patience_s = opening.send_timeout_s if opening.send_timeout_s > 0 else math.inf
        batching = opening.batching
        self._batches = batching is not None
        self._by_key = batching is not None and batching.by_key
        self._gathers = batching is not None and not batching.by_key
        self._cut = BatchLimits(1, 1) if batching is None else BatchLimits(batching.messages_max, batching.bytes_max)
        self._queues = SegmentQueues(cut=self._cut, first_sequence=max(first or 0, 0))
        self._router: SegmentRouter | None = None
        eager = batching is not None and not batching.linger
        self._pace = SendSchedule(self._cut, eager=eager, delay_s=0.0 if batching is None else batching.delay_s)
        self._rounds = SendRounds(self._runtime, self._queues, self._pace, self, chunking=opening.chunking)
        self._writers = self._rounds.writers
        self._watch = LayoutWatch(lookup, topic, heard=self._shown, gone=self.failed)
        self._begun: asyncio.Future[None] = self._loop.create_future()
        self._expiry: asyncio.TimerHandle | None = None
        self._fates = MessageResults(topic, self.counters, budget)
        self._leaving: dict[asyncio.Task[None], None] = {}
        self._owner = Owner(f"scalable {topic}", self._crashed)

    # Called by its producer

    @property
    def attached(self) -> bool:
        return bool(self._writers) and all(writer.connection is not None for writer in self._writers.values())

    @property
    def pending(self) -> int:
        """The number of messages without a result."""
        return self._queues.messages

    @property
    def segments(self) -> list[int]:
        """The active segments to which it writes, by range."""
        layout = self._queues.layout
        return [] if layout is None else [segment.id for segment in layout.active]

    async def start(self) -> None:
        """Fetch the layout and attach to every active segment."""
        timeout_s = self.opening.operation_timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                await self._watch.start(timeout_s)
                await self._begun
        except TimeoutError:
            error = TimedOut(f"not attached to every segment within {timeout_s:g} s", topic=self.topic)
            await self._closed(error)
            raise error from None
        except BaseException as error:
            await self._closed(
                error if isinstance(error, MagnetarError) else Closed("the producer start was cancelled")
            )
            raise

    def add(self, payload: bytes, fields: MessageFields | None, done: Done | None, *, awaited: bool = False) -> None:
        """Take a message for which the caller took room in the memory limit. If the message is refused, `add` gives the
        room back and raises.
        """
        queues, router = self._queues, self._router
        layout = queues.layout
        if self.error is not None or layout is None or router is None:
            self._budget.give(len(payload), 1)
            raise self.error or NotReady("the producer is not attached yet: wait for its start", topic=self.topic)
        now = self._runtime.monotonic()
        if not self._gathers or (fields is not None and not fields.simple):
            self._add(payload, fields, done, None, now, awaited=awaited)
            return
        size = simple_size(payload, fields)
        route = router.route(fields, queues.next_sequence, layout)
        queue = None
        if size <= self._cut.bytes_max:
            queue = queues.gather(payload, fields, done, route, size, now + self._patience_s)
        if queue is None:
            self._add(payload, fields, done, route, now, awaited=awaited)
            return
        counters = self.counters
        counters.messages += 1
        counters.bytes += len(payload)
        if self._expiry is None and self._patience_s < math.inf:
            self._watch_expiry()
        due = self._pace.gathered(queue.segment, size, queue.gathered, now, awaited=awaited, room=queue.room)
        if due is not SendAction.LATER:
            self._rounds.act(due, queue.segment)

    def _add(
        self,
        payload: bytes,
        fields: MessageFields | None,
        done: Done | None,
        route: KeyRoute | None,
        now: float,
        *,
        awaited: bool,
    ) -> None:
        """Add a message as an object of its own."""
        queues, router = self._queues, self._router
        assert queues.layout is not None
        assert router is not None
        sequence_id = -1 if fields is None else fields.sequence
        sequence = sequence_id if sequence_id >= 0 else queues.next_sequence
        size = wire_size(payload, fields)
        alone = not self._batches or size > self._cut.bytes_max or (fields is not None and not fields.batches)
        queue = queues.add(
            payload,
            route or router.route(fields, sequence, queues.layout),
            size=size,
            deadline=now + self._patience_s,
            sequence=sequence,
            alone=alone,
            group=batch_key(fields) if self._by_key else None,
            fields=fields,
            done=done,
        )
        self.counters.took(1, len(payload))
        if self._expiry is None and self._patience_s < math.inf:
            self._watch_expiry()
        if alone:
            self._rounds.write(queue.segment)
            return
        due = self._pace.gathered(queue.segment, size, queue.waiting, now, awaited=awaited, room=queue.room)
        if due is not SendAction.LATER:
            self._rounds.act(due, queue.segment)

    def cutting(self, *, numbered: bool = False) -> BatchingPlan | None:
        """A named producer may resend with its own numbers, and keys split batches by key, so both return None."""
        layout, router = self._queues.layout, self._router
        if layout is None or router is None or not self._batches or self._by_key:
            return None
        if self.opening.name and not numbered:
            return None
        return by_segments(layout, router.pinned, self._cut, self._queues.next_sequence)

    def add_sheaf(self, sheaf: PrebuiltBatch) -> bool:
        queue = None if self.error else self._queues.add_sheaf(sheaf, self._runtime.monotonic() + self._patience_s)
        return self._took([sheaf], [] if queue is None else [queue])

    def add_sheaves(self, sheaves: Sequence[PrebuiltBatch]) -> bool:
        deadline = self._runtime.monotonic() + self._patience_s
        return self._took(sheaves, [] if self.error else self._queues.add_sheaves(sheaves, deadline))

    def _took(self, sheaves: Sequence[PrebuiltBatch], queues: list[SegmentQueue]) -> bool:
        if not queues:
            return False
        for sheaf in sheaves:
            self.counters.took(sheaf.count, sheaf.value_bytes)
        if self._expiry is None and self._patience_s < math.inf:
            self._watch_expiry()
        for segment in dict.fromkeys(queue.segment for queue in queues):
            self._rounds.write(segment)
        return True

    def hurry(self, *, awaited: bool = False) -> None:
        """Write now, and not in the next turn of the loop. `awaited`: a caller waits for all gathered messages, or for
        the room that they take.
        """
        self._rounds.hurry(awaited=awaited)

    def refused(self, done: Done | None, error: MagnetarError) -> None:
        """Report a message that `add` refused and whose sender no longer waits."""
        self._fates.refused(done, error)

    async def flush(self) -> None:
        """Wait until every added message is stored or has failed. Raises the first error without a callback."""
        for segment in list(self._writers):
            self._rounds.write(segment)
        await self._fates.until_over(self._queues.places, self._queues.messages)

    async def close(self, *, flush: bool = True) -> None:
        """Stop accepting messages, wait for the pending ones or give them up, and close at the brokers."""
        closed = Closed("the producer is closed", topic=self.topic)
        if flush:
            self.error = self.error or closed
        try:
            if flush:
                await self.flush()
        finally:
            self.error = self.error or closed
            await self._closed(Closed("the producer was closed before the message was stored", topic=self.topic))

    # Callbacks of segments

    def opened(self, segment: SegmentId, last_sequence: int) -> None:
        writer = self._writers.get(segment)
        if writer is not None and writer.attaches > 1:
            self.counters.reattached += 1
        if writer is not None and self._batches and writer.stamp.message_bytes_max < self._cut.bytes_max:
            self._cut = replace(self._cut, bytes_max=writer.stamp.message_bytes_max)
            self._queues.cut = self._pace.cut = self._cut
        self.last_sequence = max(self.last_sequence, last_sequence)
        self._apply(self._queues.handle(SegmentAttached(segment, last_sequence)))
        if self._queues.begun and not self._begun.done():
            self._begun.set_result(None)

    def closed(self, segment: SegmentId, *, certain: bool) -> None:
        self._pace.lost(segment)
        self._apply(self._queues.handle(SegmentDetached(segment, certain)))

    def sealed(self, segment: SegmentId) -> None:
        self._apply(self._queues.handle(SegmentSealed(segment)))

    def writable(self, segment: SegmentId) -> None:
        self._rounds.write(segment)

    def receipt(self, segment: SegmentId, sequence: int, ledger: int, entry: int) -> None:
        queue = self._queues.queue(segment)
        packed: EncodedEntry | None = queue.pending[0].frames if queue is not None and queue.pending else None
        if packed is not None and packed.first is None and len(packed.frames) > 1:
            packed.first = (ledger, entry)
        try:
            stored = self._queues.stored(segment, sequence)
        except MagnetarError as error:
            log.error("unexpected_receipt_received", topic=self.topic, segment=segment, why=error)
            self._writers[segment].abort(error)
            return
        if stored is None or queue is None:
            return
        self.counters.receipts += 1
        self.last_sequence = max(self.last_sequence, stored.highest)
        self._fates.stored(segment, stored, ledger, entry)
        if not queue.pending:
            self._rounds.answered(segment)

    def send_refused(self, segment: SegmentId, sequence: int, error: MagnetarError) -> None:
        if isinstance(error, Fenced):
            self.failed(error)
        else:
            self._apply(self._queues.refused(segment, sequence, error))
            queue = self._queues.queue(segment)
            if queue is not None and not queue.pending:
                self._pace.lost(segment)

    def failed(self, error: MagnetarError) -> None:
        """The topic was deleted, or another producer fenced this one: every pending message gets its result."""
        self.error = self.error or error
        if not self._begun.done():
            self._begun.set_exception(error)
            self._begun.exception()  # `start` raises it
        log.warning("producer_ended", topic=self.topic, why=error)
        self._apply(self._queues.ended(error))

    # Callbacks of writing

    def packed(self) -> None:
        self.counters.entries += 1

    def unpackable(self, segment: SegmentId, sequence: int, error: MagnetarError) -> None:
        self._apply(self._queues.refused(segment, sequence, error))

    def advanced(self) -> None:
        if self._router is not None:
            self._router.advance()

    # Internal

    def _shown(self, seen: LayoutView) -> None:
        if self._router is None:
            start = self._runtime.rng("client.router").randrange(1 << 31)
            named = bool(self.opening.name)  # a named producer may return and resend
            self._router = SegmentRouter(seen.routing, producer=self.name, deduplicated=named, start=start)
        self._router.repin(seen.routing)
        self._apply(self._queues.handle(LayoutAdvanced(seen.layout)))

    def _apply(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case AttachSegment(segment=segment):
                    self._open(segment)
                case WriteSegment(segment=segment):
                    self._rounds.write(segment)
                case DrainSegment(segment=segment):
                    self._writers[segment].settle()
                case ReattachSegment(segment=segment):
                    self._writers[segment].abort(ConnectionLost("reconnecting after a refused send", topic=self.topic))
                case DropSegment(segment=segment):
                    self._drop(segment)
                case RefreshLayout(above=above):
                    self._watch.seek(above)
                case ReportOutcome():
                    self._fates.given_up(effect)

    def _open(self, segment: SegmentId) -> None:
        layout = self._queues.layout
        if layout is None:
            return
        name = str(layout.segment(segment).topic(topic_name(self.topic).scalable))
        begun = self._queues.begun
        writer = SegmentWriter(self._lookup, segment, name, self.opening, self, name=self.name, patient=begun)
        self._writers[segment] = writer
        writer.start(math.inf if begun else self.opening.operation_timeout_s)

    def _drop(self, segment: SegmentId) -> None:
        self._pace.dropped(segment)
        writer = self._writers.pop(segment, None)
        if writer is not None:
            task = self._runtime.spawn(self._owner, writer.close())
            self._leaving[task] = None
            task.add_done_callback(lambda done: self._leaving.pop(done, None))

    # Deadlines

    def _watch_expiry(self) -> None:
        deadline = self._queues.deadline
        if deadline is None or math.isinf(deadline):
            self._expiry = None
            return
        wait_s = max(deadline - self._runtime.monotonic(), 0.0)
        self._expiry = self._loop.call_later(wait_s, self._expire)

    def _expire(self) -> None:
        gone = self._queues.expired(self._runtime.monotonic())
        if gone:
            log.warning("sends_timed_out", topic=self.topic, messages=len(gone))
        self._apply(gone)
        self._watch_expiry()

    # Closing

    async def _closed(self, error: MagnetarError) -> None:
        self.error = self.error or error
        if self._expiry is not None:
            self._expiry.cancel()
        self._rounds.stop()
        self._apply(self._queues.ended(error))
        await self._watch.close()
        if self._leaving:
            await asyncio.wait(list(self._leaving))
        await self._owner.close()

    def _crashed(self, name: str, error: BaseException) -> None:
        log.crashed("scalable_producer_crashed", error, topic=self.topic)
