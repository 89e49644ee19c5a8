"""The subscriptions of a topic: loaded with it, made by whoever attaches first or by an administrator, deleted,
forgotten.

Durable ones are cursors with a record; a reader's lives as long as its consumer, and a little longer when it was its
own seek that disconnected it. What is being made is made once: others who ask for the same name meanwhile wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from magnetar.base.errors import AlreadyExists, Closed, Conflict, ConsumerBusy, Refused, SubscriptionNotFound
from magnetar.base.ids import AFTER_ALL, Position
from magnetar.base.limits import READER_KEPT_S
from magnetar.ledger.cursor import Cursor
from magnetar.ledger.flusher import CursorFlusher
from magnetar.topic.consumer import Consumer
from magnetar.topic.outlet import Outlet
from magnetar.topic.subscribe import Subscribe
from magnetar.topic.subscription import KEY_SHARED, SHARED, TYPE_NAMES, Subscription
from magnetar.wire import commands

if TYPE_CHECKING:
    from magnetar.topic.topic import Topic


class Subscriptions:
    def __init__(self, topic: Topic, flusher: CursorFlusher) -> None:
        self._topic = topic
        self._flusher = flusher
        self._by_name: dict[str, Subscription] = {}
        self._opening: dict[str, asyncio.Task[Subscription]] = {}
        self._settling: dict[str, asyncio.Task[None]] = {}  # deleted, or looked for in the store
        self._half_made: set[str] = set()  # the store did not say whether it has their records
        self._half_deleted: dict[str, Subscription] = {}  # the store did not say that their records are gone
        self._orders = 0

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Subscription]:
        return iter(list(self._by_name.values()))

    def get(self, name: str) -> Subscription | None:
        return self._by_name.get(name)

    async def recover(self) -> None:
        """All durable ones, as they were."""
        for name in await Cursor.names(self._topic.managed):
            self._adopt(name, await Cursor.open(self._topic.managed, name, durable=True, initial=None))

    async def close(self) -> None:
        """What was acknowledged is durable when this returns. What is being made or deleted is waited for: a record
        written behind a deletion of the topic would stay.
        """
        await self.settled()
        for subscription in self:
            self._flusher.discard(subscription.cursor)
            await subscription.cursor.close()

    async def settled(self) -> None:
        """Until nothing is being made or deleted."""
        while pending := [*self._opening.values(), *self._settling.values()]:
            await asyncio.wait(pending)

    def abandon(self) -> None:
        """The topic is somebody else's: no cursor is written any more."""
        for subscription in self:
            self._flusher.discard(subscription.cursor)
            subscription.cursor.abandon()

    def _adopt(self, name: str, cursor: Cursor) -> Subscription:
        subscription = Subscription(self._topic, name, cursor)
        self._by_name[name] = subscription
        self._half_made.discard(name)
        self._half_deleted.pop(name, None)  # its record is this one's now
        if cursor.durable:
            self._flusher.add(cursor)
        return subscription

    # Consumers come and go

    async def attach(self, asked: Subscribe, outlet: Outlet) -> Consumer:
        """Attach a consumer, making its subscription if that is new."""
        topic = self._topic
        if TYPE_NAMES[asked.kind] not in topic.settings.subscription_types:
            raise Refused(f"{TYPE_NAMES[asked.kind]} subscriptions are switched off here (subscriptionTypesEnabled)")
        consumer = Consumer(asked.consumer_id, asked.consumer_name, outlet, priority=asked.priority, order=self._orders)
        self._orders += 1
        consumer.key_shared = asked.key_shared
        consumer.metadata = asked.metadata
        consumer.epoch = asked.epoch
        consumer.connected_ms = topic.runtime.wall()
        if asked.kind in (SHARED, KEY_SHARED):
            consumer.unacked_max = topic.settings.unacked_per_consumer_max
        if asked.durable:
            await topic.admission.consume(asked)
        while True:
            # Found anew after every wait: with its last dead consumer a reader's subscription is gone too.
            subscription = await self._find_or_make(asked)
            if subscription.seeking is not None:
                await subscription.seeking.wait()
                continue
            await topic.admission.attach(subscription, asked)
            if topic.closing:
                raise Closed("the topic is being unloaded: look it up again")
            try:
                self._check_room(subscription)
                subscription.attach(consumer, asked.kind)
                return consumer
            except ConsumerBusy:
                if not await self._evict_dead(subscription):
                    raise

    def remove(self, consumer: Consumer) -> None:
        """Its connection is gone, or its client closed it."""
        subscription = consumer.subscription
        if subscription is None:
            return
        subscription.detach(consumer)
        self._topic.stir(subscription)
        if not subscription.durable and not subscription.consumers:
            if subscription.kept_for_seek:
                self._topic.later(READER_KEPT_S, self._drop_reader, subscription)
            else:
                self._drop_reader(subscription)

    async def leave(self, consumer: Consumer) -> None:
        """Closed by its client: what it acknowledged is durable when this returns."""
        subscription = consumer.subscription
        self.remove(consumer)
        if subscription is not None and subscription.durable and subscription.cursor.dirty:
            await subscription.cursor.flush()

    def close_consumer(self, consumer: Consumer) -> None:
        """Ask its client to come back."""
        if not consumer.closed:
            consumer.outlet.write(commands.close_consumer(consumer.id))
        self.remove(consumer)

    def _drop_reader(self, subscription: Subscription) -> None:
        if not subscription.consumers and self._by_name.get(subscription.name) is subscription:
            subscription.dispatcher.close()
            del self._by_name[subscription.name]
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
        """Ask those in the way whether they are still there; detach the dead. Whether there is room now."""
        asked = list(subscription.consumers)
        alive = await asyncio.gather(*(consumer.outlet.alive() for consumer in asked))
        for consumer, answered in zip(asked, alive, strict=True):
            if not answered:
                self.remove(consumer)
        return any(consumer not in subscription.consumers for consumer in asked)

    # Subscriptions come and go

    async def _find_or_make(self, asked: Subscribe) -> Subscription:
        name = asked.subscription
        await self._settled(name)
        found = self._by_name.get(name)
        if found is None:
            opening = self._opening.get(name)
            if opening is None:
                self._admit(asked)
                opening = self._open(name, asked)
            found = await self._topic.managed.wait(opening)
        return self._found(found, asked)

    async def _settled(self, name: str) -> None:
        """Until no subscription of this name is being deleted or looked for."""
        while (settling := self._settling.get(name)) is not None:
            await asyncio.wait([settling])

    def _admit(self, asked: Subscribe) -> None:
        name = asked.subscription
        limit = self._topic.settings.subscriptions_max
        if limit and len(self) >= limit:
            raise ConsumerBusy(f"the topic has its maximum of {limit} subscriptions", wire_code=22)
        if asked.durable:
            self._topic.admission.durable_cursor(name)
            if not self._topic.settings.auto_subscription:
                raise SubscriptionNotFound(f"subscription {name} does not exist and is not created automatically here")

    def _found(self, found: Subscription, asked: Subscribe) -> Subscription:
        if not found.durable and asked.durable:
            raise Refused(f"{found.name} is a reader's cursor: choose another name for the subscription")
        if found.durable and not asked.durable:
            raise Refused(f"{found.name} is a durable subscription: a reader would move it, choose another name")
        if not found.durable and asked.start is not None and not found.consumers:
            found.cursor.reset(self._reader_start(asked.start))
            found.dispatcher.rewind()
        return found

    def _open(self, name: str, asked: Subscribe, mark: Position | None = None) -> asyncio.Task[Subscription]:
        """The topic's own work: others may wait for it too when whoever asked first goes away."""
        made = self._topic.managed.start(self._make(name, asked, mark))
        self._opening[name] = made
        return made

    async def _make(self, name: str, asked: Subscribe, mark: Position | None) -> Subscription:
        try:
            initial = await self._initial(asked) if mark is None else mark
            if asked.durable:
                self._half_made.add(name)
            cursor = await Cursor.open(
                self._topic.managed, name, durable=asked.durable, initial=initial, properties=asked.properties
            )
            return self._adopt(name, cursor)
        finally:
            del self._opening[name]

    async def _initial(self, asked: Subscribe) -> Position:
        """The mark-delete position a new cursor starts from."""
        managed = self._topic.managed
        if asked.durable:
            return managed.before(managed.first) if asked.earliest else managed.last
        if asked.rollback_s:
            return managed.before(await managed.find(self._topic.runtime.wall() - asked.rollback_s * 1000))
        return managed.last if asked.start is None else self._reader_start(asked.start)

    def _reader_start(self, start: Position) -> Position:
        """Readers start AT the entry they name; behind the end means latest."""
        managed = self._topic.managed
        if start == AFTER_ALL or start > managed.last:
            return managed.last
        return managed.before(managed.next_valid(max(start, managed.first)))

    async def ensure(self, name: str) -> None:
        """A producer of a dead-letter topic names a subscription that must not miss its first message."""
        if name not in self._by_name:
            await self._find_or_make(Subscribe(name, SHARED, 0, "", earliest=True))

    async def create(
        self,
        name: str,
        position: Position,
        properties: Mapping[str, str] | None = None,
        *,
        admitted: bool = False,
    ) -> Subscription:
        """By an administrator: the first message delivered will be the one after `position`. `admitted`: whoever says
        who may, says so itself."""
        await self._settled(name)
        if name in self._by_name or name in self._opening:
            raise AlreadyExists(f"Subscription already exists for topic {self._topic.name}")
        if not admitted:
            self._topic.admission.durable_cursor(name)
        asked = Subscribe(name, SHARED, 0, "", properties=dict(properties or {}))
        return await self._topic.managed.wait(self._open(name, asked, position))

    async def unsubscribe(self, consumer: Consumer, *, force: bool) -> None:
        """By a consumer, who must be the only one unless it insists."""
        subscription = consumer.subscription
        if subscription is None:
            raise SubscriptionNotFound("the consumer is not attached any more")
        others = [item for item in subscription.consumers if item is not consumer]
        if others and not force:
            raise Conflict(f"subscription {subscription.name} has {len(others)} other consumers: close them, or force")
        subscription.detach(consumer)
        await self.delete(subscription.name, force=True)

    async def certain(self) -> None:
        """What was being made when the store did not say whether it is made: it is there from now on, or it is not."""
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
        """One that nobody sees any more, and whose record the store may still have: `delete` goes on with it."""
        return self._half_deleted.get(name)

    async def delete(self, name: str, *, force: bool) -> None:
        if name in self._half_made:
            await self.certain()
        subscription = self._by_name.get(name) or self._half_deleted.get(name)
        if subscription is None:
            raise SubscriptionNotFound(f"Subscription {name} not found on topic {self._topic.name}")
        if subscription.consumers and not force:
            raise Conflict("Subscription has active connected consumers", http_status=412)
        subscription.disconnect_all()
        subscription.dispatcher.close()
        self._by_name.pop(name, None)
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
