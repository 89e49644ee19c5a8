"""A topic that keeps nothing: what arrives goes to whoever can take it now, and is dropped for all others.

Receipts and deliveries carry the id 0:0. There is no cursor, no redelivery, no seek and nothing to acknowledge; a
subscription lives as long as its consumers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from magnetar.base.errors import Closed, Conflict, ConsumerBusy, Corrupt, MagnetarError, Refused
from magnetar.base.ids import BEFORE_ALL, Position, Term
from magnetar.base.names import TopicName
from magnetar.ledger.run import Run
from magnetar.runtime.runtime import Runtime
from magnetar.topic import active
from magnetar.topic.admission import Admission
from magnetar.topic.consumer import Consumer
from magnetar.topic.dedup import Dedup
from magnetar.topic.outlet import Outlet
from magnetar.topic.permits import SharedChooser
from magnetar.topic.producer import Producer
from magnetar.topic.producers import Producers
from magnetar.topic.selectors import AutoSplit, ConsistentRing, Sticky
from magnetar.topic.settings import TopicSettings
from magnetar.topic.subscribe import Subscribe
from magnetar.topic.subscription import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED, TYPE_NAMES
from magnetar.wire import commands, entry, templates
from magnetar.wire.sends import Sends

NOWHERE = Position(0, 0)


class _NoLedger:
    """What `Producers` asks of a ledger: epochs of a topic that is gone with its broker need not be kept."""

    async def set_properties(self, properties: Mapping[str, str]) -> None:
        return None


class NonPersistentTopic:
    persistent = False

    def __init__(self, name: TopicName, *, runtime: Runtime, settings: TopicSettings) -> None:
        self.name = name
        self.runtime = runtime
        self.settings = settings
        self.partition = name.partition_index
        self.managed: Any = _NoLedger()
        self.admission = Admission()
        self.dedup: Dedup | None = None  # there is nothing to compare with
        self.producers = Producers(self, -1)
        self.subscriptions: dict[str, LooseSubscription] = {}
        self.refusal: MagnetarError | None = None
        self.closed = False
        self.messages_in = 0
        self.bytes_in = 0
        self.entries_in = 0
        self.dropped = 0
        self.idle_since = runtime.monotonic()
        self._orders = 0

    @property
    def closing(self) -> bool:
        """There is nothing to wait for between the two."""
        return self.closed

    @property
    def idle(self) -> bool:
        return not len(self.producers) and not any(item.consumers for item in self.subscriptions.values())

    def publish(self, producer: Producer, sends: Sends) -> None:
        producer.outlet.released(len(sends.body))
        if producer.closed:
            return
        run = Run(sends.body, sends.offsets, sends.counts, sends.messages, 0, 0)
        frames = [
            templates.receipt(producer.id, sequence, highest, 0, 0)
            for sequence, highest in zip(sends.sequence_ids, sends.highest_ids, strict=True)
        ]
        producer.outlet.write(b"".join(frames))
        producer.messages_in += run.messages
        producer.bytes_in += len(sends.body)
        self.messages_in += run.messages
        self.bytes_in += len(sends.body)
        self.entries_in += len(run)
        for subscription in list(self.subscriptions.values()):
            self.dropped += subscription.deliver(run)

    async def subscribe(self, asked: Subscribe, outlet: Outlet) -> Consumer:
        if self.closed:
            raise Closed("the topic is being unloaded: look it up again")
        subscription = self.subscriptions.get(asked.subscription)
        if subscription is None:
            subscription = LooseSubscription(self, asked.subscription)
        consumer = Consumer(asked.consumer_id, asked.consumer_name, outlet, priority=asked.priority, order=self._orders)
        self._orders += 1
        consumer.key_shared = asked.key_shared
        consumer.metadata = asked.metadata
        consumer.epoch = asked.epoch
        consumer.connected_ms = self.runtime.wall()
        subscription.attach(consumer, asked.kind)
        self.subscriptions[asked.subscription] = subscription
        return consumer

    def activate(self, consumer: Consumer) -> None:
        """Nothing waits for it."""

    def remove_consumer(self, consumer: Consumer) -> None:
        for subscription in list(self.subscriptions.values()):
            if consumer in subscription.consumers:
                subscription.detach(consumer)
                if not subscription.consumers:
                    del self.subscriptions[subscription.name]

    async def leave(self, consumer: Consumer) -> None:
        self.remove_consumer(consumer)

    async def unsubscribe(self, consumer: Consumer, *, force: bool) -> None:
        subscription: Any = consumer.subscription
        others = [] if subscription is None else [item for item in subscription.consumers if item is not consumer]
        if others and not force:
            raise Conflict(f"subscription {subscription.name} has {len(others)} other consumers: close them, or force")
        self.remove_consumer(consumer)
        for other in others:
            other.outlet.write(commands.close_consumer(other.id))
            self.remove_consumer(other)

    async def ensure_subscription(self, name: str) -> None:
        """Nothing waits for a subscription without consumers."""

    def highest_sequence(self, producer: str) -> int:
        return -1

    async def last_message(self) -> tuple[Position, int]:
        return Position(-1, -1), -1

    async def configure(self, settings: TopicSettings) -> None:
        self.settings = settings

    async def seal(self, op: str, term: Term) -> Any:
        raise Refused("a non-persistent topic keeps nothing and has no end: delete it instead")

    async def close(self, *, lost: bool = False) -> None:
        """There is nothing to write either way."""
        self.closed = True
        self.refusal = Closed("the topic is being unloaded: look it up again")
        self.producers.close_all()
        for subscription in list(self.subscriptions.values()):
            for consumer in list(subscription.consumers):
                consumer.outlet.write(commands.close_consumer(consumer.id))
                subscription.detach(consumer)
        self.subscriptions.clear()


class LooseSubscription:
    """Stands in for `Subscription` where handlers look: no cursor, nothing redelivered."""

    durable = False
    mark = BEFORE_ALL
    backlog = 0

    def __init__(self, topic: NonPersistentTopic, name: str) -> None:
        self.topic = topic
        self.name = name
        self.type: int | None = None
        self.consumers: list[Consumer] = []
        self.dispatcher = self  # what a consumer pumps when permits arrive
        self.messages_out = 0  # to consumers that have left; those attached count for themselves
        self.bytes_out = 0
        self._chosen: Consumer | None = None  # who was last told to be the active one
        self._chooser: SharedChooser[Consumer] = SharedChooser()
        self._selector: AutoSplit[Consumer] | ConsistentRing[Consumer] | Sticky[Consumer] = AutoSplit()

    def attach(self, consumer: Consumer, kind: int) -> None:
        if self.consumers and self.type is not None and kind != self.type:
            raise ConsumerBusy(f"subscription {self.name} is {TYPE_NAMES[self.type]} while consumers are attached")
        if self.consumers and kind == EXCLUSIVE:
            raise ConsumerBusy("Exclusive consumer is already connected", subscription=self.name)
        self.type = kind
        if kind == KEY_SHARED:
            self._join_keyed(consumer)
        elif kind == SHARED:
            self._chooser.add(consumer)
        self.consumers.append(consumer)
        consumer.subscription = self  # type: ignore[assignment]
        if kind == FAILOVER:
            self._announce(consumer)

    def _join_keyed(self, consumer: Consumer) -> None:
        asked = consumer.key_shared
        if not self.consumers:
            settings = self.topic.settings
            if asked is not None and asked.sticky:
                self._selector = Sticky()
            else:
                self._selector = ConsistentRing(settings.key_shared_points) if settings.key_shared_ring else AutoSplit()
        if isinstance(self._selector, Sticky):
            self._selector.add(consumer, asked.ranges if asked is not None else [])
        else:
            self._selector.add(consumer, consumer.name)

    def detach(self, consumer: Consumer) -> None:
        consumer.closed = True
        consumer.subscription = None
        self.consumers.remove(consumer)
        self.messages_out += consumer.messages_out
        self.bytes_out += consumer.bytes_out
        if self.type == KEY_SHARED:
            self._selector.remove(consumer)
        elif self.type == SHARED:
            self._chooser.remove(consumer)
        elif self.type == FAILOVER:
            self._announce(None)

    def pump(self) -> None:
        """Permits arrived: there is never anything waiting for them."""

    def ack(self, consumer: Consumer | None, acks: object) -> None:
        """Nothing is kept, so nothing is acknowledged."""

    def ack_to(self, consumer: Consumer | None, position: Position, words: object) -> None:
        """As `ack`."""

    def redeliver(self, consumer: Consumer, positions: object) -> None:
        """Nothing can come again."""

    async def seek(self, position: Position) -> None:
        raise Refused("a non-persistent topic keeps nothing to seek in")

    async def seek_time(self, publish_time_ms: int) -> None:
        await self.seek(NOWHERE)

    def deliver(self, run: Run) -> int:
        """Every entry to one consumer that can take it; how many messages nobody could."""
        dropped = 0
        frames: dict[Consumer, list[bytes]] = {}
        if self.type == SHARED:
            targets: list[Consumer | None] = []
            for consumer, low, high in self._chooser.assign(run.counts):
                targets.extend([consumer] * (high - low))
            targets.extend([None] * (len(run) - len(targets)))
        elif self.type == KEY_SHARED:
            targets = [self._owner(run, index) for index in range(len(run))]
        else:
            targets = [self._active()] * len(run)
        for index, target in enumerate(targets):
            if target is None or not target.ready:
                dropped += run.counts[index]
                continue
            body = run.entry(index)
            frame = templates.message(target.id, 0, 0, body, partition=self.topic.partition, epoch=target.epoch)
            frames.setdefault(target, []).append(frame)
            target.permits -= run.counts[index]
            target.messages_out += run.counts[index]
            target.bytes_out += len(body)
        for consumer, parts in frames.items():
            consumer.outlet.write(b"".join(parts))
        return dropped

    def _owner(self, run: Run, index: int) -> Consumer | None:
        try:
            key_hash = entry.key_hash(run.body, run.offsets[index], run.offsets[index + 1])
        except Corrupt:
            return None
        return self._selector.select(self._selector.slot(key_hash))

    def _active(self) -> Consumer | None:
        # A non-partitioned one counts as partition 0: the first by name, not the ring (stock-clients C4).
        index = active.choose(
            [active.Candidate(item.name, item.priority, item.order) for item in self.consumers],
            str(self.topic.name),
            max(0, self.topic.partition),
            self.topic.settings.failover_consistent_hashing and self.topic.partition >= 0,
        )
        return None if index is None else self.consumers[index]

    def _announce(self, newcomer: Consumer | None) -> None:
        """To all when the active one changed, else to a newcomer alone."""
        before, self._chosen = self._chosen, self._active()
        for consumer in self.consumers:
            if consumer is newcomer or self._chosen is not before:
                consumer.outlet.write(commands.active_consumer_change(consumer.id, consumer is self._chosen))
