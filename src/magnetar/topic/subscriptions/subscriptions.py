"""The subscriptions of a topic: loaded with it, created by the first consumer or by an administrator, deleted, expired.

Durable subscriptions are cursors with a record. A reader's subscription lives as long as its consumer, and a little
longer if the reader's own seek disconnected it. The start id of a SUBSCRIBE counts only if it creates the cursor:
clients repeat it after a seek, and the seek wins. A subscription is created only once: further requests for the same
name wait for the first one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from magnetar.base.errors import (
    AlreadyExists,
    Closed,
    Conflict,
    ConsumerBusy,
    NotReady,
    Refused,
    SubscriptionNotFound,
    Throttled,
)
from magnetar.base.ids import AFTER_ALL, Position
from magnetar.base.limits import CURSORS_AT_ONCE_MAX, EARLY_ACKS_WAIT_S, LOADED_SUBSCRIPTION_BYTES, READER_KEPT_S
from magnetar.ledger.cursor.cursor import Cursor
from magnetar.ledger.cursor.flusher import CursorFlusher
from magnetar.ledger.state_account import StateCharge
from magnetar.topic.client_channel import ClientChannel
from magnetar.topic.producers.admission import Admitted
from magnetar.topic.subscriptions.consumer import Consumer
from magnetar.topic.subscriptions.subscribe import Subscribe
from magnetar.topic.subscriptions.subscription import KEY_SHARED, SHARED, TYPE_NAMES, Subscription
from magnetar.wire import commands

if TYPE_CHECKING:
    from magnetar.topic.topic import Topic


class Subscriptions:
    def __init__(self, topic: Topic, flusher: CursorFlusher) -> None:
        self._topic = topic
        self._flusher = flusher
        self.by_name: dict[str, Subscription] = {}
        self._opening: dict[str, asyncio.Task[Subscription]] = {}
        self._settling: dict[str, asyncio.Task[None]] = {}  # deleted, or looked for in the store
        self._half_made: set[str] = set()  # the store did not say whether it has their records
        self._half_deleted: dict[str, Subscription] = {}  # the store did not say that their records are gone
        self._orders = 0
        self._charge = StateCharge(topic.managed.config.loaded)
        topic.managed.keep_tail(False)

    def __len__(self) -> int:
        return len(self.by_name)

    def __iter__(self) -> Iterator[Subscription]:
        return iter(list(self.by_name.values()))

    def get(self, name: str) -> Subscription | None:
        return self.by_name.get(name)

    async def recover(self) -> None:
        """All durable ones, as they were."""
        managed = self._topic.managed
        records = await Cursor.records(managed)
        for start in range(0, len(records), CURSORS_AT_ONCE_MAX):
            chunk = records[start : start + CURSORS_AT_ONCE_MAX]
            cursors = await asyncio.gather(
                *(Cursor.open(managed, name, durable=True, initial=None, record=node) for name, node in chunk),
                return_exceptions=True,  # no opening goes on behind a failed recovery
            )
            for (name, _), cursor in zip(chunk, cursors, strict=True):
                if isinstance(cursor, BaseException):
                    raise cursor
                self._adopt(name, cursor)

    async def close(self) -> None:
        """All acknowledgements are durable when this returns. It waits for creations and deletions in progress, because
        a record that is written after a deletion of the topic would stay.
        """
        await self.settled()
        self._charge.settle(0)
        cursors = [subscription.cursor for subscription in self]
        for subscription in self:
            subscription.release()
            self._flusher.discard(subscription.cursor)
        for start in range(0, len(cursors), CURSORS_AT_ONCE_MAX):
            await asyncio.gather(*(cursor.close() for cursor in cursors[start : start + CURSORS_AT_ONCE_MAX]))

    async def settled(self) -> None:
        """Until nothing is being made or deleted."""
        while pending := [*self._opening.values(), *self._settling.values()]:
            await asyncio.wait(pending)

    def abandon(self) -> None:
        """Another broker owns the topic: no cursor is written any more."""
        self._charge.settle(0)
        for subscription in self:
            self._flusher.discard(subscription.cursor)
            subscription.release()
            subscription.cursor.abandon()

    def _adopt(self, name: str, cursor: Cursor) -> Subscription:
        subscription = Subscription(self._topic, name, cursor)
        self.by_name[name] = subscription
        self._topic.managed.keep_tail()
        self._half_made.discard(name)
        self._half_deleted.pop(name, None)  # its record is this one's now
        if cursor.durable:
            self._flusher.add(cursor)
        self._settle_charge()
        return subscription

    def _settle_charge(self) -> None:
        """The first one is counted with its topic."""
        self._charge.settle(max(0, len(self.by_name) - 1) * LOADED_SUBSCRIPTION_BYTES)

    # Consumers come and go

    async def attach(self, request: Subscribe, outlet: ClientChannel) -> Consumer:
        """Attach a consumer, making its subscription if that is new."""
        topic = self._topic
        if TYPE_NAMES[request.kind] not in topic.settings.subscription_types:
            raise Refused(f"{TYPE_NAMES[request.kind]} subscriptions are not enabled (subscriptionTypesEnabled)")
        consumer = Consumer(
            request.consumer_id, request.consumer_name, outlet, priority=request.priority, order=self._orders
        )
        self._orders += 1
        consumer.key_shared = request.key_shared
        consumer.metadata = request.metadata
        consumer.epoch = request.epoch
        consumer.connected_ms = topic.runtime.wall()
        if request.kind in (SHARED, KEY_SHARED):
            consumer.unacked_max = topic.settings.unacked_per_consumer_max
        seen, admitted = await self._admitted(request)
        while True:
            # Looked up after every wait: with its last dead consumer a reader's subscription is deleted too.
            subscription = await self._find_or_make(request, recorded=admitted is not None)
            if subscription.seeking is not None:
                await subscription.seeking.wait()
                continue
            await topic.admission.attach(subscription, request)
            if topic.closing:
                raise Closed("the topic is being unloaded: look it up again")
            if subscription.admissions != seen:
                seen, admitted = await self._admitted(request)
                continue
            try:
                self._check_room(subscription)
                subscription.attach(consumer, request.kind)
                subscription.begin(admitted)
                return consumer
            except ConsumerBusy:
                if not await self._evict_dead(subscription):
                    raise

    async def _admitted(self, request: Subscribe) -> tuple[int, Admitted | None]:
        """What `Admission.consume` says, and which admission of the subscription that was."""
        subscription = self.by_name.get(request.subscription)
        seen = 0 if subscription is None else subscription.admissions
        return seen, await self._topic.admission.consume(request) if request.durable else None

    def remove(self, consumers: Collection[Consumer]) -> None:
        """Their connection is gone, or their client closed them. Those of one subscription leave it in one step."""
        by_subscription: dict[Subscription, list[Consumer]] = {}
        for consumer in consumers:
            if consumer.subscription is not None:
                by_subscription.setdefault(consumer.subscription, []).append(consumer)
        for subscription, leaving in by_subscription.items():
            self._remove(subscription, leaving)

    def _remove(self, subscription: Subscription, leaving: list[Consumer]) -> None:
        subscription.detach(leaving)
        self._topic.stir(subscription)
        if not subscription.durable and not subscription.consumers:
            if subscription.kept_for_seek:
                self._topic.later(READER_KEPT_S, self._drop_reader, subscription)
            else:
                self._drop_reader(subscription)

    async def leave(self, consumer: Consumer) -> None:
        """Closed by its client: what it acknowledged is durable when this returns. What it acknowledged before its
        ancestors are done is waited for, with a bound: they are done soon, unless a broker is away (H-F20)."""
        subscription = consumer.subscription
        self.remove([consumer])
        if subscription is None or not subscription.durable:
            return
        if subscription.early is not None:
            await subscription.early.settled(EARLY_ACKS_WAIT_S)
        if subscription.cursor.dirty:
            await subscription.cursor.flush()

    def close_consumer(self, consumer: Consumer) -> None:
        """Ask its client to come back."""
        self.close_consumers([consumer])

    def close_consumers(self, consumers: Collection[Consumer]) -> None:
        url, url_tls = self._topic.moved_to
        for consumer in consumers:
            if not consumer.closed:
                consumer.outlet.write(commands.close_consumer(consumer.id, url=url, url_tls=url_tls))
        self.remove(consumers)

    def _drop_reader(self, subscription: Subscription) -> None:
        if not subscription.consumers and self.by_name.get(subscription.name) is subscription:
            subscription.dispatcher.close()
            subscription.release()
            del self.by_name[subscription.name]
            self._settle_charge()
            self._topic.trim_wanted = True

    def _check_room(self, subscription: Subscription) -> None:
        settings = self._topic.settings
        limit = settings.consumers_max
        if limit and sum(len(item.consumers) for item in self) >= limit:
            raise ConsumerBusy(f"the topic has its maximum of {limit} consumers", topic=str(self._topic.name))
        limit = settings.consumers_per_subscription_max
        if limit and len(subscription.consumers) >= limit:
            raise ConsumerBusy(f"subscription {subscription.name} has its maximum of {limit} consumers")

    async def _evict_dead(self, subscription: Subscription) -> bool:
        """Ask those in the way whether they are still there; detach the dead. Whether there is room now. Consumers of
        one connection live and die together: it is asked once.
        """
        consumers = list(subscription.consumers)
        outlets = list({id(consumer.outlet): consumer.outlet for consumer in consumers}.values())
        alive = await asyncio.gather(*(outlet.alive() for outlet in outlets))
        dead = {id(outlet) for outlet, answered in zip(outlets, alive, strict=True) if not answered}
        self.remove([consumer for consumer in consumers if id(consumer.outlet) in dead])
        there = set(subscription.consumers)
        return any(consumer not in there for consumer in consumers)

    # Subscriptions come and go

    async def _find_or_make(self, request: Subscribe, *, recorded: bool = False) -> Subscription:
        """`recorded`: a record outside this topic says that the subscription exists."""
        name = request.subscription
        await self._settled(name)
        subscription = self.by_name.get(name)
        if subscription is None:
            opening = self._opening.get(name)
            if opening is None:
                self._admit(request, recorded=recorded)
                opening = self._open(name, request)
            subscription = await self._topic.managed.wait(opening)
        return self._found(subscription, request)

    async def _settled(self, name: str) -> None:
        """Until no subscription of this name is being deleted or looked for."""
        while (settling := self._settling.get(name)) is not None:
            await asyncio.wait([settling])

    def _admit(self, request: Subscribe, *, recorded: bool) -> None:
        name = request.subscription
        self._check_count()
        if request.durable:
            try:
                self._topic.admission.durable_cursor(name)
            except SubscriptionNotFound as error:
                if not recorded:
                    raise
                # Another broker owns the topic and has created the cursor (H-D15).
                raise NotReady(f"subscription {name} is not on this broker: look the topic up again") from error
            if not self._topic.settings.auto_subscription:
                raise SubscriptionNotFound(
                    f"subscription {name} does not exist and is not created automatically: create it first"
                )

    def _check_count(self) -> None:
        limit = self._topic.settings.subscriptions_max
        if limit and len(self) + len(self._opening) >= limit:
            raise ConsumerBusy(
                f"Exceed the maximum number of subscriptions of the topic: {self._topic.name} has {limit}, delete one "
                "or raise maxSubscriptionsPerTopic",
                wire_code=22,
                http_status=412,
            )
        if self._charge.full:
            raise Throttled(
                "the topics of this broker, with their subscriptions, take the maximum of memory: try later",
                wire_code=6,
            )

    def _found(self, subscription: Subscription, request: Subscribe) -> Subscription:
        if not subscription.durable and request.durable:
            raise Refused(f"{subscription.name} is a reader's cursor: choose another name for the subscription")
        if subscription.durable and not request.durable:
            raise Refused(
                f"{subscription.name} is a durable subscription, and a reader would move its cursor: "
                "choose another name"
            )
        return subscription

    def _open(self, name: str, request: Subscribe, mark: Position | None = None) -> asyncio.Task[Subscription]:
        """Runs as work of the topic: other requests may wait for it too if the first requester leaves."""
        task = self._topic.managed.start(self._make(name, request, mark))
        self._opening[name] = task
        return task

    async def _make(self, name: str, request: Subscribe, mark: Position | None) -> Subscription:
        try:
            initial = await self._initial(request) if mark is None else mark
            if request.durable:
                self._half_made.add(name)
            cursor = await Cursor.open(
                self._topic.managed, name, durable=request.durable, initial=initial, properties=request.properties
            )
            return self._adopt(name, cursor)
        finally:
            del self._opening[name]

    async def _initial(self, request: Subscribe) -> Position:
        """The mark-delete position a new cursor starts from."""
        managed = self._topic.managed
        if not request.durable and request.rollback_s:
            return managed.before(await managed.find(self._topic.runtime.wall() - request.rollback_s * 1000))
        if not request.durable and request.start is not None:
            return self._reader_start(request.start)
        return managed.before(managed.first) if request.earliest else managed.last

    def _reader_start(self, start: Position) -> Position:
        """Readers start AT the entry they name; behind the end means latest."""
        managed = self._topic.managed
        if start == AFTER_ALL or start > managed.last:
            return managed.last
        return managed.before(managed.next_valid(max(start, managed.first)))

    async def ensure(self, name: str) -> None:
        """A producer of a dead-letter topic names a subscription that must not miss its first message."""
        if name not in self.by_name:
            await self._find_or_make(Subscribe(name, SHARED, 0, "", earliest=True))

    async def create(
        self,
        name: str,
        position: Position,
        properties: Mapping[str, str] | None = None,
        *,
        admitted: bool = False,
    ) -> Subscription:
        """By an administrator: the first message delivered will be the one after `position`. `admitted`: the caller
        has already decided that the subscription is allowed."""
        await self._settled(name)
        if name in self.by_name or name in self._opening:
            raise AlreadyExists(f"Subscription already exists for topic {self._topic.name}")
        if not admitted:
            self._check_count()
            self._topic.admission.durable_cursor(name)
        request = Subscribe(name, SHARED, 0, "", properties=dict(properties or {}))
        return await self._topic.managed.wait(self._open(name, request, position))

    async def unsubscribe(self, consumer: Consumer, *, force: bool) -> None:
        """By a consumer, who must be the only one unless it insists."""
        subscription = consumer.subscription
        if subscription is None:
            raise SubscriptionNotFound("the consumer is no longer attached")
        others = [item for item in subscription.consumers if item is not consumer]
        if others and not force:
            raise Conflict(
                f"subscription {subscription.name} has {len(others)} other consumers: close them, or force the request"
            )
        subscription.detach([consumer])
        await self.delete(subscription.name, force=True)

    async def certain(self) -> None:
        """Settles creations with an unknown outcome: afterwards each subscription exists or does not."""
        managed = self._topic.managed
        for name in list(self._half_made):
            if (opening := self._opening.get(name)) is not None:
                await asyncio.wait([opening])
            await self._settled(name)
            if name in self._half_made and name not in self._opening:
                self._settling[name] = managed.start(self._look(name))
                await managed.wait(self._settling[name])

    async def _look(self, name: str) -> None:
        try:
            self._adopt(name, await Cursor.open(self._topic.managed, name, durable=True, initial=None))
        except SubscriptionNotFound:
            self._half_made.discard(name)
        finally:
            del self._settling[name]

    def half_deleted(self, name: str) -> Subscription | None:
        """A subscription that is hidden while the store may still have its record: `delete` continues with it."""
        return self._half_deleted.get(name)

    async def delete(self, name: str, *, force: bool) -> None:
        if name in self._half_made:
            await self.certain()
        subscription = self.by_name.get(name) or self._half_deleted.get(name)
        if subscription is None:
            raise SubscriptionNotFound(f"Subscription {name} not found on topic {self._topic.name}")
        if subscription.consumers and not force:
            raise Conflict("Subscription has active connected consumers", http_status=412)
        subscription.disconnect_all()
        subscription.dispatcher.close()
        self.by_name.pop(name, None)
        self._settle_charge()
        subscription.release()
        self._flusher.discard(subscription.cursor)
        managed = self._topic.managed
        self._settling[name] = managed.start(self._erase(subscription))
        await managed.wait(self._settling[name])

    async def _erase(self, subscription: Subscription) -> None:
        self._half_deleted[subscription.name] = subscription
        try:
            await subscription.cursor.delete()
            self._topic.trim_wanted = True
            del self._half_deleted[subscription.name]
        finally:
            del self._settling[subscription.name]
