"""One persistent topic: its ledger, its producers, its subscriptions, and its end.

The topic is the actor of this package. It opens with a fence (an earlier owner of the ledger can acknowledge nothing
any more), hands runs to the ledger and confirmed runs to the subscriptions. It closes in order: no new work, messages
in flight answered, cursors flushed. A failed append ends it: its clients look the topic up again, and the next owner
recovers.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from magnetar.base.errors import Closed, Conflict, Corrupt, MagnetarError, NotReady, Sealed
from magnetar.base.ids import Position, Term
from magnetar.base.limits import TRIM_S, TURN_WORK_COST
from magnetar.base.names import SINK_PREFIX, TopicName
from magnetar.ledger.cursor.cursor import CursorFlusher
from magnetar.ledger.managed import ManagedLedger
from magnetar.ledger.properties import number
from magnetar.ledger.retention import Rule, TopicSizes
from magnetar.ledger.run import Run
from magnetar.metadata.store import MetadataStore
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner, Runtime
from magnetar.topic.client_channel import ClientChannel
from magnetar.topic.dedup.dedup import Dedup
from magnetar.topic.dedup.snapshots import DedupSnapshots
from magnetar.topic.load_meter import LoadMeter
from magnetar.topic.measure import TopicMeter
from magnetar.topic.producers.admission import OPEN, Admission
from magnetar.topic.producers.producer import base_name
from magnetar.topic.producers.producers import EPOCH_PROPERTY, Producers
from magnetar.topic.producers.publish import publish as publish_sends
from magnetar.topic.seal import SealResult, TopicSealer, sealed
from magnetar.topic.settings import TopicSettings
from magnetar.topic.subscriptions.consumer import Consumer
from magnetar.topic.subscriptions.expiry import expire
from magnetar.topic.subscriptions.subscribe import Subscribe
from magnetar.topic.subscriptions.subscription import Subscription
from magnetar.topic.subscriptions.subscriptions import Subscriptions
from magnetar.topic.write_metrics import Writes
from magnetar.wire import entry

log = get("topic")

SINKS_PROPERTY = "magnetar.sinks"  # of the managed ledger: stages are published here


class Topic:
    __slots__ = (
        "__weakref__",
        "_configuring",
        "_expired_at",
        "_failed",
        "_sealing",
        "_settled",
        "_timers",
        "_trimmed_at",
        "admission",
        "after_layout",
        "bytes_in",
        "closed",
        "closing",
        "dedup",
        "entries_in",
        "idle_since",
        "in_flight",
        "kept",
        "load",
        "managed",
        "messages_in",
        "metadata",
        "meter",
        "misrouted",
        "moved_to",
        "name",
        "owner",
        "part_of",
        "partition",
        "producers",
        "recall",
        "refusal",
        "runtime",
        "settings",
        "since_ms",
        "sizes",
        "slot_of",
        "spread_of",
        "stirred",
        "subscriptions",
        "trim_wanted",
        "trimming",
        "writes",
    )

    def __init__(
        self,
        name: TopicName,
        managed: ManagedLedger,
        *,
        runtime: Runtime,
        metadata: MetadataStore,
        flusher: CursorFlusher,
        settings: TopicSettings,
        failed: Callable[[Topic, MagnetarError], None],
        admission: Admission = OPEN,
    ) -> None:
        self.name = name
        self.managed = managed
        self.runtime = runtime
        self.metadata = metadata
        self.settings = settings
        managed.quorum = settings.quorum
        self.admission = admission
        self.partition = name.partition_index
        self.part_of = name.parent if name.is_segment else None  # the scalable topic that this segment belongs to
        self.owner = Owner(f"topic {name}")
        self.subscriptions = Subscriptions(self, flusher)
        self.producers = Producers(self, number(managed.properties, EPOCH_PROPERTY, -1))
        self.slot_of: Callable[[bytes, int, int], int | None] | None = None  # of a segment: where an entry's key lies
        self.spread_of: Callable[[str, int], int | None] | None = None  # the same of a producer's number without a key
        self.misrouted: Callable[[bytes, list[int], list[int]], MagnetarError | None] | None = None  # not its keys
        self.stirred: list[Callable[[Subscription], None]] = []  # called when a consumer left, or after acks if sealed
        self.dedup: Dedup | None = None
        self.recall: DedupSnapshots | None = None
        self.refusal: MagnetarError | None = None  # why nothing can be published now
        self.moved_to = "", ""  # URLs of the new owner, without and with TLS, for clients of a closed topic
        self.closing = False  # clients send these messages again after the coming CLOSE_PRODUCER
        self.closed = False
        self.in_flight = 0
        self.load: LoadMeter | None = None  # of a segment: samples its keys
        self.messages_in = 0
        self.bytes_in = 0
        self.entries_in = 0
        self.since_ms = runtime.wall()  # these counters began then
        self.writes: Writes | None = None  # from the first message on
        self.idle_since = runtime.monotonic()
        self.trim_wanted = True
        self._trimmed_at = runtime.monotonic()
        self._expired_at = -math.inf  # an idle topic may leave memory before the first interval is over
        self._failed = failed
        self._timers: dict[asyncio.TimerHandle, None] = {}
        self._settled: list[asyncio.Future[None]] = []
        self._sealing = TopicSealer(self)
        self._configuring = asyncio.Lock()
        self.meter = TopicMeter(self)
        self.trimming = asyncio.Lock()  # from the check which messages are still needed until the others are deleted
        self.after_layout: Callable[[Callable[[], None]], None] | None = None  # of a segment: calls back, see `seal.py`
        self.kept: Callable[[], Awaitable[Position]] | None = None  # readers without a cursor need nothing before it
        self.sizes: Callable[[], Awaitable[TopicSizes]] | None = None  # of a segment: what its whole topic holds

    # Opening and closing

    async def recover(self) -> Topic:
        """Loads the durable subscriptions, and the deduplication map if deduplication is on."""
        await self.subscriptions.recover()
        if self.settings.deduplication or SINKS_PROPERTY in self.managed.properties:
            await self._start_recall()
        if self.managed.terminated is not None:
            self.refusal = sealed(self, self.managed.terminated)
        return self

    async def _start_recall(self) -> None:
        recall = DedupSnapshots(self)
        dedup = await recall.load()
        self.recall, self.dedup = recall, dedup

    async def remember_sinks(self) -> None:
        """From now on, and after every load, a message published by stages is stored once, under any settings."""
        async with self._configuring:
            if SINKS_PROPERTY not in self.managed.properties:
                await self.managed.set_properties({SINKS_PROPERTY: "1"})
            if self.recall is None:
                await self._start_recall()

    async def configure(self, settings: TopicSettings) -> None:
        """Settings or policies changed: take them over without a break where that is possible."""
        async with self._configuring:
            await self._configure(settings)

    async def _configure(self, settings: TopicSettings) -> None:
        before, self.settings = self.settings, settings
        self.managed.quorum = settings.quorum
        if settings.deduplication and self.recall is None:
            await self._start_recall()
        elif not settings.deduplication and self.recall is not None and SINKS_PROPERTY not in self.managed.properties:
            recall, self.recall, self.dedup = self.recall, None, None
            await recall.delete()
        for subscription in self.subscriptions:
            for consumer in subscription.consumers:
                consumer.unacked_max = settings.unacked_per_consumer_max
            if before != settings:
                subscription.dispatcher.reconsider()

    async def close(self, *, lost: bool = False) -> None:
        """Unloads the topic: clients look it up again, and acknowledgements are durable. `lost`: another broker owns
        it, so nothing is written any more."""
        if self.closed:
            return
        self.closing = True
        self.refusal = self.refusal or Closed("the topic is being unloaded: look it up again")
        if lost:
            self.subscriptions.abandon()
            if self.recall is not None:
                self.recall.abandon()
        await self.quiet()  # before the producers are closed: messages in flight get their receipts
        self._sealing.tell()
        self.producers.close_all()
        for subscription in list(self.subscriptions):
            subscription.disconnect_all()
            subscription.dispatcher.close()
        self.closed = True
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        await self.owner.close()
        if lost:
            await self.managed.abandon()
            return
        if self.recall is not None:
            try:
                await self.recall.close()
            except MagnetarError as error:
                log.warning(
                    "dedup_snapshot_write_failed", topic=str(self.name), error=str(error)
                )  # read again from entries
        await self.subscriptions.close()
        await self.managed.close()

    async def quiet(self) -> None:
        """Until nothing that was sent to the ledger is without an answer."""
        if self.in_flight:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._settled.append(future)
            await future

    def check_unused(self, *, force: bool) -> None:
        """Before a deletion. In use and not forced: Conflict that says by whom."""
        if force:
            return
        if len(self.producers):
            count = len(self.producers)
            raise Conflict(f"Topic has {count} connected producers: close them, or force the request", http_status=412)
        used = [subscription.name for subscription in self.subscriptions if subscription.consumers]
        if used:
            names = ", ".join(sorted(used))
            raise Conflict(f"Topic has consumers on {names}: close them, or force the request", http_status=412)

    @property
    def idle(self) -> bool:
        return not len(self.producers) and not self.in_flight and all(not s.consumers for s in self.subscriptions)

    # The way in

    publish = publish_sends

    def highest_sequence(self, producer: str) -> int:
        """The sequence id from which a producer continues; -1 if none is stored."""
        base = base_name(self.name, producer)
        deduplicated = self.settings.deduplication or base.startswith(SINK_PREFIX)
        return self.dedup.highest(base) if self.dedup is not None and deduplicated else -1

    @property
    def readable(self) -> Position:
        """The last position consumers may see (seam `max_read_position`: transactions and buckets will say less)."""
        return self.managed.last

    def appended(self, run: Run, size: int) -> None:
        """A run is durable and its producer has its receipt: sent to waiting consumers in the same loop iteration."""
        self.messages_in += run.messages
        self.bytes_in += size
        self.entries_in += len(run.counts)
        load = self.load
        if load is not None:
            load.left -= run.messages
            if load.left < 0:
                load.sample(run)
        if run.first == 0:
            self.trim_wanted = True  # the ledger before it is full: it may go
        if self.recall is not None:
            self.recall.appended(len(run.counts))
        if self._settled and not self.in_flight:
            self._settle()
        if self.subscriptions.by_name:
            turns = self.runtime.turns
            for subscription in self.subscriptions:
                if subscription.consumers:
                    turns.left -= TURN_WORK_COST  # thousands of them continue in the next turns
                    subscription.dispatcher.appended(run)

    def append_failed(self, error: MagnetarError) -> None:
        if self._settled and not self.in_flight:
            self._settle()
        if self.refusal is None and isinstance(error, Sealed):
            self.refusal = error  # sent while the end was being written: the seal closes the producers
        elif self.refusal is None:
            self.refusal = NotReady("the topic failed on this broker and is being recovered: look it up again")
            self.runtime.mark("topic.failed", topic=str(self.name), error=str(error))
            log.error("append_failed", topic=str(self.name), error=str(error))
            self._failed(self, error)

    def _settle(self) -> None:
        waiting, self._settled = self._settled, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def seal(self, op: str, term: Term) -> SealResult:
        """No more messages, ever; see `topic/seal.py`."""
        return await self._sealing.seal(op, term)

    async def last_message(self) -> tuple[Position, int]:
        """The last deliverable entry, and the index of its last message if it is a batch (else -1)."""
        last_known = self.last_known()
        return last_known if last_known is not None else _place(await self.managed.read(self.readable, 1, 1))

    def last_known(self) -> tuple[Position, int] | None:
        """As `last_message`, from memory; None: the entry must be read."""
        last = self.readable
        run = self.managed.cached(last, 1, 1) if self.managed.has(last) else None
        return _place(run) if run is not None or not self.managed.has(last) else None

    # Subscriptions: see `topic/subscriptions/subscriptions.py`

    async def subscribe(self, request: Subscribe, outlet: ClientChannel) -> Consumer:
        return await self.subscriptions.attach(request, outlet)

    def activate(self, consumer: Consumer) -> None:
        """The client has its answer: messages may flow."""
        if consumer.subscription is not None:
            consumer.subscription.answered(consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        self.remove_consumers([consumer])

    def remove_consumers(self, consumers: Collection[Consumer]) -> None:
        self.subscriptions.remove(consumers)

    async def leave(self, consumer: Consumer) -> None:
        await self.subscriptions.leave(consumer)

    async def unsubscribe(self, consumer: Consumer, *, force: bool) -> None:
        await self.subscriptions.unsubscribe(consumer, force=force)

    async def ensure_subscription(self, name: str) -> None:
        await self.subscriptions.ensure(name)

    def acked(self, subscription: Subscription) -> None:
        self.trim_wanted = True
        if self.managed.terminated is not None:
            subscription.caught_up(subscription.cursor.mark)
            self.stir(subscription)

    def stir(self, subscription: Subscription) -> None:
        for heard in list(self.stirred):
            heard(subscription)

    # Housekeeping

    async def maintain(self) -> None:
        if self.recall is not None:
            await self.recall.maintain()
        expiry_due = self.runtime.monotonic() - self._expired_at >= self.settings.expiry_check_s
        if self.settings.message_ttl_s and self.managed.clock.trusted and expiry_due:
            self._expired_at = self.runtime.monotonic()
            await self.expire()
        if self.trim_wanted or self.runtime.monotonic() - self._trimmed_at >= TRIM_S:
            await self.trim()

    async def expire(self) -> None:
        """Messages older than the time to live; see `topic/subscriptions/expiry.py`."""
        await expire(self)

    async def trim(self) -> int:
        """Drop ledgers that every subscription, readers too, and deduplication are past, as retention allows."""
        self.trim_wanted = False
        self._trimmed_at = self.runtime.monotonic()
        async with self.trimming:
            floor = self.managed.last
            for subscription in self.subscriptions:
                floor = min(floor, subscription.cursor.mark)
            if self.recall is not None:
                floor = min(floor, self.recall.position)
            if self.kept is not None and self.managed.passed(floor):
                floor = min(floor, await self.kept())
            return await self.managed.trim(floor, await self._rule(floor))

    async def _rule(self, floor: Position) -> Rule:
        managed, retention = self.managed, self.settings.retention
        sizes = None
        if self.sizes is not None and retention.megabytes > 0 and managed.passed(floor):
            sizes = await self.sizes()
        return Rule(
            retention,
            managed.clock.now_ms(),
            aging=managed.clock.trusted,
            sizes=sizes,
            sealed_ms_min=int(managed.config.age_min_s * 1000),
        )

    def later(self, delay_s: float, call: Callable[..., None], *args: Any) -> Callable[[], None]:
        """A timer that dies with the topic; what it answers with cancels it."""
        handle: asyncio.TimerHandle

        def ring() -> None:
            self._timers.pop(handle, None)
            if not self.closed:
                call(*args)

        def cancel() -> None:
            handle.cancel()
            self._timers.pop(handle, None)

        handle = asyncio.get_running_loop().call_later(delay_s, ring)
        self._timers[handle] = None
        return cancel


def _place(run: Run | None) -> tuple[Position, int]:
    """Of the first entry of a run, with the index of its last message."""
    if run is None:
        return Position(-1, -1), -1
    body = run.entry(0)
    try:
        return run.position(0), entry.counts(body) - 1 if entry.is_batch(body) else -1
    except Corrupt:
        return run.position(0), -1  # a client's broken metadata is for its reader to refuse
