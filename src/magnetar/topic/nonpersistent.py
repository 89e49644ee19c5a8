"""A topic that stores nothing: a message goes to the consumers that can take it now, and is dropped for all others.

Receipts and deliveries count entries of ledger 0 from the load of the topic on. The Go client drops a message with an
id that it has just acknowledged, so each entry has its own id. The topic has no cursor, no redelivery, no seek and
nothing to acknowledge; a subscription ends with its last consumer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from magnetar.base.errors import Closed, Conflict, ConsumerBusy, Corrupt, MagnetarError, Refused
from magnetar.base.ids import BEFORE_ALL, Position, Term
from magnetar.base.limits import NON_PERSISTENT_RUN_BYTES, NON_PERSISTENT_WAITING_BYTES_MAX, SHARED_PUSH_COST
from magnetar.base.names import TopicName
from magnetar.ledger.run import Run
from magnetar.runtime.runtime import Runtime
from magnetar.topic.client_channel import ClientChannel
from magnetar.topic.dedup.dedup import Dedup
from magnetar.topic.dispatch import failover
from magnetar.topic.dispatch.key_selectors import AutoSplit, ConsistentRing, Sticky
from magnetar.topic.dispatch.permits import SharedChooser
from magnetar.topic.producers.admission import Admission
from magnetar.topic.producers.producer import Producer
from magnetar.topic.producers.producers import Producers
from magnetar.topic.settings import TopicSettings
from magnetar.topic.subscriptions.consumer import Consumer
from magnetar.topic.subscriptions.subscribe import Subscribe
from magnetar.topic.subscriptions.subscription import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED, TYPE_NAMES
from magnetar.wire import broker_frames, commands, entry
from magnetar.wire.send_reader import SendRun

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
        self.recall = None
        self.producers = Producers(self, -1)
        self.subscriptions: dict[str, LooseSubscription] = {}
        self.refusal: MagnetarError | None = None
        self.moved_to = "", ""
        self.closed = False
        self.messages_in = 0
        self.bytes_in = 0
        self.entries_in = 0
        self.since_ms = runtime.wall()
        self.dropped = 0
        self.idle_since = runtime.monotonic()
        self._orders = 0
        # Each with the subscriptions that still get it, and its sender.
        self._undelivered: deque[tuple[Run, Iterator[LooseSubscription], ClientChannel]] = deque()
        self._undelivered_bytes = 0
        self._receivers: tuple[LooseSubscription, ...] | None = None  # None: the subscriptions have changed

    @property
    def closing(self) -> bool:
        """There is nothing to wait for between the two."""
        return self.closed

    @property
    def idle(self) -> bool:
        return not len(self.producers) and not any(item.consumers for item in self.subscriptions.values())

    def publish(self, producer: Producer, sends: SendRun) -> None:
        if producer.closed:
            producer.outlet.released(len(sends.body))
            return
        first = self.entries_in
        run = Run(sends.body, sends.offsets, sends.counts, sends.messages, 0, first)
        frames = [
            broker_frames.receipt(producer.id, sequence, highest, 0, first + index)
            for index, (sequence, highest) in enumerate(zip(sends.sequence_ids, sends.highest_ids, strict=True))
        ]
        producer.outlet.write(b"".join(frames))
        producer.messages_in += run.messages
        producer.bytes_in += len(sends.body)
        self.messages_in += run.messages
        self.bytes_in += len(sends.body)
        self.entries_in += len(run)
        self._deliver(run, producer.outlet)

    def _deliver(self, run: Run, sender: ClientChannel) -> None:
        """To every subscription, in order. Many take several turns of the loop; later messages wait,
        and are dropped beyond a bound, since nothing here is stored."""
        if self._receivers is None:
            self._receivers = tuple(self.subscriptions.values())
        kept_bytes = run.size + NON_PERSISTENT_RUN_BYTES
        if self._undelivered and self._undelivered_bytes + kept_bytes > NON_PERSISTENT_WAITING_BYTES_MAX:
            self.dropped += run.messages * len(self._receivers)
            sender.released(run.size)
            return
        self._undelivered.append((run, iter(self._receivers), sender))
        self._undelivered_bytes += kept_bytes
        if len(self._undelivered) == 1:
            self._deliver_some()

    def _deliver_some(self) -> None:
        turns = self.runtime.turns
        while self._undelivered:
            run, subscriptions, sender = self._undelivered[0]
            for subscription in subscriptions:
                self.dropped += subscription.deliver(run)
                turns.left -= len(run) * SHARED_PUSH_COST
                if turns.left <= 0:
                    turns.later(self._deliver_some)
                    return
            self._undelivered.popleft()
            self._undelivered_bytes -= run.size + NON_PERSISTENT_RUN_BYTES
            sender.released(run.size)

    async def subscribe(self, request: Subscribe, outlet: ClientChannel) -> Consumer:
        if self.closed:
            raise Closed("the topic is being unloaded: look it up again")
        subscription = self.subscriptions.get(request.subscription)
        if subscription is None:
            subscription = LooseSubscription(self, request.subscription)
        consumer = Consumer(
            request.consumer_id, request.consumer_name, outlet, priority=request.priority, order=self._orders
        )
        self._orders += 1
        consumer.key_shared = request.key_shared
        consumer.metadata = request.metadata
        consumer.epoch = request.epoch
        consumer.connected_ms = self.runtime.wall()
        subscription.attach(consumer, request.kind)
        self.subscriptions[request.subscription] = subscription
        self._receivers = None
        return consumer

    def activate(self, consumer: Consumer) -> None:
        """No message waits for it; of a Failover subscription it now hears whether it is the active one."""
        consumer.answered = True
        subscription: Any = consumer.subscription
        if subscription is not None and subscription.type == FAILOVER:
            subscription.announce(consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        self.remove_consumers([consumer])

    def remove_consumers(self, consumers: Collection[Consumer]) -> None:
        """Those of one subscription leave it in one step."""
        by_subscription: dict[LooseSubscription, list[Consumer]] = {}
        for consumer in consumers:
            attached: Any = consumer.subscription
            if attached is not None:
                by_subscription.setdefault(attached, []).append(consumer)
        for subscription, leaving in by_subscription.items():
            subscription.detach(leaving)
            if not subscription.consumers and self.subscriptions.get(subscription.name) is subscription:
                del self.subscriptions[subscription.name]
                self._receivers = None

    async def leave(self, consumer: Consumer) -> None:
        self.remove_consumer(consumer)

    async def unsubscribe(self, consumer: Consumer, *, force: bool) -> None:
        subscription: Any = consumer.subscription
        others = [] if subscription is None else [item for item in subscription.consumers if item is not consumer]
        if others and not force:
            raise Conflict(
                f"subscription {subscription.name} has {len(others)} other consumers: close them, or force the request"
            )
        self.remove_consumer(consumer)
        for other in others:
            other.outlet.write(commands.close_consumer(other.id))
        self.remove_consumers(others)

    async def ensure_subscription(self, name: str) -> None:
        """Nothing waits for a subscription without consumers."""

    def highest_sequence(self, producer: str) -> int:
        return -1

    async def last_message(self) -> tuple[Position, int]:
        return self.last_known()

    def last_known(self) -> tuple[Position, int]:
        return Position(-1, -1), -1

    async def configure(self, settings: TopicSettings) -> None:
        self.settings = settings

    async def seal(self, op: str, term: Term) -> Any:
        raise Refused("a non-persistent topic cannot be terminated, because it stores no messages: delete it instead")

    async def close(self, *, lost: bool = False) -> None:
        """There is nothing to write either way."""
        self.closed = True
        self.refusal = Closed("the topic is being unloaded: look it up again")
        self.producers.close_all()
        url, url_tls = self.moved_to
        for subscription in list(self.subscriptions.values()):
            for consumer in subscription.consumers:
                consumer.outlet.write(commands.close_consumer(consumer.id, url=url, url_tls=url_tls))
            subscription.detach(list(subscription.consumers))
        self.subscriptions.clear()
        self._receivers = None
        while self._undelivered:
            run, _, sender = self._undelivered.popleft()
            sender.released(run.size)
        self._undelivered_bytes = 0


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
        self.dispatcher = self  # a consumer calls its `pump` when permits arrive
        self.messages_out = 0  # to consumers that have left; those attached count for themselves
        self.bytes_out = 0
        self._chosen: Consumer | None = None  # the consumer that was last notified as the active one
        self._candidates = failover.Candidates(str(topic.name), max(0, topic.partition))
        self._by_order: dict[int, Consumer] = {}
        self._knowing: set[Consumer] | None = None  # who heard in this turn; in the next one all others do
        self._chooser: SharedChooser[Consumer] = SharedChooser()
        self._selector: AutoSplit[Consumer] | ConsistentRing[Consumer] | Sticky[Consumer] = AutoSplit()

    def attach(self, consumer: Consumer, kind: int) -> None:
        if self.consumers and self.type is not None and kind != self.type:
            raise ConsumerBusy(
                f"subscription {self.name} is {TYPE_NAMES[self.type]}: its type cannot change while it has consumers"
            )
        if self.consumers and kind == EXCLUSIVE:
            raise ConsumerBusy("Exclusive consumer is already connected", subscription=self.name)
        limit = self.topic.settings.consumers_per_subscription_max
        if limit and len(self.consumers) >= limit:
            raise ConsumerBusy(f"subscription {self.name} has its maximum of {limit} consumers")
        self.type = kind
        if kind == KEY_SHARED:
            self._join_keyed(consumer)
        elif kind == SHARED:
            self._chooser.add(consumer)
        else:
            self._candidates.add(_candidate(consumer))
            self._by_order[consumer.order] = consumer
        self.consumers.append(consumer)
        consumer.subscription = self  # type: ignore[assignment]
        if kind == FAILOVER:
            self.announce(None)

    def _join_keyed(self, consumer: Consumer) -> None:
        key_shared = consumer.key_shared
        if not self.consumers:
            settings = self.topic.settings
            if key_shared is not None and key_shared.sticky:
                self._selector = Sticky()
            else:
                self._selector = ConsistentRing(settings.key_shared_points) if settings.key_shared_ring else AutoSplit()
        if isinstance(self._selector, Sticky):
            self._selector.add(consumer, key_shared.ranges if key_shared is not None else [])
        else:
            self._selector.add(consumer, consumer.name)

    def detach(self, consumers: Collection[Consumer]) -> None:
        gone = set(consumers)
        self.consumers = [consumer for consumer in self.consumers if consumer not in gone]
        for consumer in consumers:
            consumer.closed = True
            consumer.subscription = None
            self.messages_out += consumer.messages_out
            self.bytes_out += consumer.bytes_out
            if self.type == KEY_SHARED:
                self._selector.remove(consumer)
            elif self._by_order.pop(consumer.order, None) is not None:
                self._candidates.remove(_candidate(consumer))
        if self.type == SHARED:
            self._chooser.remove(gone)
        elif self.type == FAILOVER:
            self.announce(None)

    def pump(self) -> None:
        """Permits arrived: there is never anything waiting for them."""

    def ack(self, consumer: Consumer | None, acks: object) -> None:
        """Nothing is kept, so nothing is acknowledged."""

    def ack_to(self, consumer: Consumer | None, position: Position, words: object) -> None:
        """As `ack`."""

    def redeliver(self, consumer: Consumer, positions: object) -> None:
        """Nothing can come again."""

    async def seek(self, position: Position) -> None:
        raise Refused("seek is not supported on non-persistent topics")

    async def seek_time(self, publish_time_ms: int) -> None:
        await self.seek(NOWHERE)

    def deliver(self, run: Run) -> int:
        """Sends every entry to one consumer that can take it; returns the number of messages that were dropped."""
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
            number = run.first + index
            frame = broker_frames.message(
                target.id, 0, number, body, partition=self.topic.partition, epoch=target.epoch
            )
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
        # A non-partitioned one counts as partition 0: the first by name, not the ring (SC-C4).
        consistent = self.topic.settings.failover_consistent_hashing and self.topic.partition >= 0
        active = self._candidates.active(consistent=consistent)
        return None if active is None else self._by_order[active.joined]

    def announce(self, newcomer: Consumer | None) -> None:
        """To all when the active consumer changed, else to a newcomer alone; never before the answer to its SUBSCRIBE.
        The old and the new one are notified immediately, the others in the next iteration of the event loop, once for
        all changes of this one.
        """
        before, self._chosen = self._chosen, self._active()
        affected = [newcomer] if self._chosen is before else [before, self._chosen, newcomer]
        changed = {one for one in affected if one is not None and one.order in self._by_order}
        for consumer in sorted(changed, key=lambda one: one.order):
            self._tell(consumer)
        if self._chosen is not before and self._knowing is None:
            self._knowing = set()
            asyncio.get_running_loop().call_soon(self._tell_others)
        if self._knowing is not None:
            self._knowing |= changed

    def _tell_others(self) -> None:
        knowing, self._knowing = self._knowing or set(), None
        for consumer in self.consumers:
            if consumer not in knowing:
                self._tell(consumer)

    def _tell(self, consumer: Consumer) -> None:
        if consumer.answered:
            consumer.outlet.write(commands.active_consumer_change(consumer.id, consumer is self._chosen))


def _candidate(consumer: Consumer) -> failover.Candidate:
    return failover.Candidate(consumer.name, consumer.priority, consumer.order)
