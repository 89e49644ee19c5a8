"""One persistent topic: its ledger, its producers, its subscriptions, and where it ends.

The actor of the room. It opens with a fence (whoever owned the ledger before can acknowledge nothing any more), hands
runs to the ledger and confirmed runs to the subscriptions, and closes in order: no new work, what is in flight
answered, cursors flushed. A failed append ends it: its clients are sent to look the topic up again, and the next owner
recovers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from magnetar.base.errors import Closed, Conflict, Corrupt, MagnetarError, NotReady, Sealed
from magnetar.base.ids import Position, Term
from magnetar.base.limits import TRIM_S
from magnetar.base.names import SINK_PREFIX, TopicName
from magnetar.ledger.cursor import CursorFlusher
from magnetar.ledger.managed import ManagedLedger
from magnetar.ledger.run import Run
from magnetar.metadata.store import MetadataStore
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner, Runtime
from magnetar.topic.admission import OPEN, Admission
from magnetar.topic.consumer import Consumer
from magnetar.topic.dedup import Dedup
from magnetar.topic.measure import Meter
from magnetar.topic.outlet import Outlet
from magnetar.topic.producer import Producer, base_name
from magnetar.topic.producers import EPOCH_PROPERTY, Producers
from magnetar.topic.publish import publish
from magnetar.topic.recall import Recall
from magnetar.topic.seal import SealedTopic, Sealing, sealed
from magnetar.topic.settings import TopicSettings
from magnetar.topic.subscribe import Subscribe
from magnetar.topic.subscription import Subscription
from magnetar.topic.subscriptions import Subscriptions
from magnetar.wire import entry
from magnetar.wire.sends import Sends

log = get("topic")

SINKS_PROPERTY = "magnetar.sinks"  # of the managed ledger: stages are published here


class Topic:
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
        self.admission = admission
        self.partition = name.partition_index
        self.part_of = name.parent if name.is_segment else None  # the scalable topic whose messages it holds
        self.owner = Owner(f"topic {name}")
        self.subscriptions = Subscriptions(self, flusher)
        self.producers = Producers(self, int(managed.properties.get(EPOCH_PROPERTY, "-1")))
        self.slot_of: Callable[[bytes, int, int], int | None] | None = None  # of a segment: where an entry's key lies
        self.misrouted: Callable[[bytes, list[int], list[int]], MagnetarError | None] | None = None  # not its keys
        self.stirred: list[Callable[[Subscription], None]] = []  # told of a consumer gone, of acks once sealed
        self.dedup: Dedup | None = None
        self.recall: Recall | None = None
        self.refusal: MagnetarError | None = None  # why nothing can be published now
        self.closing = False  # what is sent now is sent again after the CLOSE_PRODUCER that is about to come
        self.closed = False
        self.in_flight = 0
        self.messages_in = 0
        self.bytes_in = 0
        self.entries_in = 0
        self.idle_since = runtime.monotonic()
        self.trim_wanted = True
        self._trimmed_at = runtime.monotonic()
        self._failed = failed
        self._timers: dict[asyncio.TimerHandle, None] = {}
        self._settled: list[asyncio.Future[None]] = []
        self._sealing = Sealing(self)
        self._configuring = asyncio.Lock()
        self.meter = Meter(self)
        self.trimming = asyncio.Lock()  # from the look at who still needs what until it is gone
        self.kept: Callable[[], Awaitable[Position]] | None = None  # up to where nobody without a cursor needs it

    # Opening and closing

    async def recover(self) -> Topic:
        """Load what the topic remembers: durable subscriptions, and the deduplication map where it is on."""
        await self.subscriptions.recover()
        if self.settings.deduplication or SINKS_PROPERTY in self.managed.properties:
            await self._start_recall()
        if self.managed.terminated is not None:
            self.refusal = sealed(self, self.managed.terminated)
        return self

    async def _start_recall(self) -> None:
        recall = Recall(self)
        dedup = await recall.load()
        self.recall, self.dedup = recall, dedup

    async def remember_sinks(self) -> None:
        """From now on, and after every load: what stages published here is stored once, whatever the settings."""
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
        """Unload: clients are told to look the topic up again, what was acknowledged is durable. `lost`: somebody else
        owns it, so nothing is written any more."""
        if self.closed:
            return
        self.closing = True
        self.refusal = self.refusal or Closed("the topic is being unloaded: look it up again")
        if lost:
            self.subscriptions.abandon()
            if self.recall is not None:
                self.recall.abandon()
        await self.quiet()  # before the producers hear of it: what is in flight gets its receipt
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
                log.warning("dedup left unwritten", topic=str(self.name), error=str(error))  # read again from entries
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
            raise Conflict(f"Topic has {count} connected producers: close them, or force", http_status=412)
        used = [subscription.name for subscription in self.subscriptions if subscription.consumers]
        if used:
            names = ", ".join(sorted(used))
            raise Conflict(f"Topic has consumers on {names}: close them, or force", http_status=412)

    @property
    def idle(self) -> bool:
        return not len(self.producers) and not self.in_flight and all(not s.consumers for s in self.subscriptions)

    # The way in

    def publish(self, producer: Producer, sends: Sends) -> None:
        publish(self, producer, sends)

    def highest_sequence(self, producer: str) -> int:
        """What a producer continues from; -1 where nothing is remembered."""
        base = base_name(self.name, producer)
        asked = self.settings.deduplication or base.startswith(SINK_PREFIX)
        return self.dedup.highest(base) if self.dedup is not None and asked else -1

    @property
    def readable(self) -> Position:
        """The last position consumers may see (seam `max_read_position`: transactions and buckets will say less)."""
        return self.managed.last

    def appended(self, run: Run, size: int) -> None:
        """A run is durable and its producer has its receipt: out to whoever waits, in the same turn of the loop."""
        self.messages_in += run.messages
        self.bytes_in += size
        self.entries_in += len(run.counts)
        if run.first == 0:
            self.trim_wanted = True  # the ledger before it is full: it may go
        if self.recall is not None:
            self.recall.appended(len(run.counts))
        if self._settled and not self.in_flight:
            self._settle()
        for subscription in self.subscriptions:
            subscription.dispatcher.appended(run)

    def append_failed(self, error: MagnetarError) -> None:
        if self._settled and not self.in_flight:
            self._settle()
        if self.refusal is None and isinstance(error, Sealed):
            self.refusal = error  # sent while the end was being written: whoever seals closes the producers
        elif self.refusal is None:
            self.refusal = NotReady("the topic failed here and is being recovered: look it up again")
            self.runtime.mark("topic.failed", topic=str(self.name), error=str(error))
            log.error("append failed", topic=str(self.name), error=str(error))
            self._failed(self, error)

    def _settle(self) -> None:
        waiting, self._settled = self._settled, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def seal(self, op: str, term: Term) -> SealedTopic:
        """No more messages, ever; see `topic/seal.py`."""
        return await self._sealing.seal(op, term)

    async def last_message(self) -> tuple[Position, int]:
        """The last deliverable entry, and the index of its last message if it is a batch (else -1)."""
        last = self.readable
        if not self.managed.has(last):
            return Position(-1, -1), -1
        run = self.managed.cached(last, 1, 1) or await self.managed.read(last, 1, 1)
        if run is None:
            return Position(-1, -1), -1
        body = run.entry(0)
        try:
            return run.position(0), entry.counts(body) - 1 if entry.is_batch(body) else -1
        except Corrupt:
            return run.position(0), -1  # a client's broken metadata is for its reader to refuse

    # Subscriptions: see `topic/subscriptions.py`

    async def subscribe(self, asked: Subscribe, outlet: Outlet) -> Consumer:
        return await self.subscriptions.attach(asked, outlet)

    def activate(self, consumer: Consumer) -> None:
        """The client has its answer: messages may flow."""
        if consumer.subscription is not None:
            consumer.subscription.dispatcher.pump()

    def remove_consumer(self, consumer: Consumer) -> None:
        self.subscriptions.remove(consumer)

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
        if self.trim_wanted or self.runtime.monotonic() - self._trimmed_at >= TRIM_S:
            await self.trim()

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
            return await self.managed.trim(floor, self.settings.retention, self.runtime.wall())

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
