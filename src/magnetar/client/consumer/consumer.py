"""A consumer: messages of one topic, of its partitions, of several topics or of all that match a pattern.

What users hold. Messages are received, iterated over or handed to a listener, and acknowledged one by one, up to one,
or negatively. A receive that is cancelled has taken nothing. Acknowledging is grouped and cannot fail unless its
receipt is asked for; whatever was not acknowledged comes again. Every call belongs to one loop; nothing here blocks.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Generic, TypeVar

from magnetar.base.errors import Closed, MagnetarError, Misuse, Sealed
from magnetar.base.public import public
from magnetar.client.arguments import check_id, check_message, publish_ms
from magnetar.client.connection.lookup import Lookup
from magnetar.client.consumer import seek as consumer_seek
from magnetar.client.consumer.ack.dead_letter_publisher import DeadLetterPublisher, MakeOutbox
from magnetar.client.consumer.base import ConsumerBase
from magnetar.client.consumer.config import ConsumerConfig, Topics
from magnetar.client.consumer.multi_topic import TopicConsumers, full_names
from magnetar.client.consumer.pattern import Discovery, TopicPattern
from magnetar.client.consumer.scalable.stream.ack_position import place_of_id, place_of_message
from magnetar.client.consumer.start_position import StartPosition
from magnetar.client.consumer.topic_consumer import TopicConsumer
from magnetar.client.lag import Lag, of_subscription
from magnetar.client.message import Message, MessageId
from magnetar.client.schema import Schema
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner

log = get("client.consumer")

T = TypeVar("T")

Listener = Callable[["Consumer[Any]", Message[Any]], Awaitable[None] | None]
OnActive = Callable[["Consumer[Any]", str, bool], None]  # consumer, topic, is it the active one now


@public("magnetar.aio")
class Consumer(ConsumerBase[T], Generic[T]):
    """Made by `Client.subscribe`. `async for message in consumer` ends when the topic was terminated and everything in
    it is acknowledged, or when the consumer is closed.
    """

    _ends = (Sealed, Closed)

    def __init__(
        self,
        lookup: Lookup,
        topics: Topics,
        asked: ConsumerConfig,
        *,
        schema: Schema[T],
        make_outbox: MakeOutbox | None = None,
        listener: Listener | None = None,
        on_active: OnActive | None = None,
        closed: Callable[[Any], None] | None = None,
    ) -> None:
        facts = {"subscription": asked.subscription}
        super().__init__(lookup, asked, "", log=log, facts=facts, watches=asked.watches, closed=closed)
        asked = self.asked
        self._named = topics
        self._schema = schema
        self._listener = listener
        self._on_active = on_active
        self._undertaker: DeadLetterPublisher | None = None
        if make_outbox is not None and asked.buries:
            self._undertaker = DeadLetterPublisher(asked, self._runtime, make_outbox, self.counters)
        self._parts = TopicConsumers(lookup, asked, self._new_part)
        self._discovery: Discovery | None = None
        self._owner = Owner(f"consumer {asked.subscription}", self._crashed)
        self._paused = asked.paused

    # Acknowledging

    async def acknowledge(self, message: Message[T] | MessageId, *, confirm: bool = False) -> None:
        """This one is done. With `confirm` the broker's receipt is awaited (of a batch that is acknowledged as a whole:
        once the last of it is); if that fails it is not known whether it arrived, and it is sent again later.
        """
        if isinstance(message, Message):
            part: TopicConsumer = message._delivery.source
            if self.closed or part.consumer is not self:
                self._source_of(message)
            more = part.ack(message)
        else:
            part = self._part_of(message)
            part.ack_id(message)
            more = True
        self.counters.acks += 1
        if confirm:
            await part.confirm()
        elif more:
            part.acker.added()

    async def acknowledge_cumulative(self, message: Message[T] | MessageId, *, confirm: bool = False) -> None:
        """This one and all before it, of the same topic or partition. EXCLUSIVE and FAILOVER only. While a message in
        chunks that began before it is incomplete, only what lies before that one is covered (H-R2)."""
        if isinstance(message, Message):
            part, place = self._source_of(message), place_of_message(message)
        else:
            part, place = self._part_of(message), place_of_id(message)
        part.ack_until(place)
        self.counters.acks += 1
        if confirm:
            await part.confirm()
        else:
            part.acker.added()

    async def negative_acknowledge(self, message: Message[T] | MessageId) -> None:
        """Not done: deliver it again, after the wait that `nack` says."""
        if isinstance(message, Message):
            self._source_of(message).redelivery.refuse(message)
        else:
            self._part_of(message).redelivery.refuse_id((message.ledger, message.entry), message.batch_index)

    async def reconsume_later(
        self, message: Message[T], delay_s: float, *, properties: Mapping[str, str] | None = None
    ) -> None:
        """Put it off through the retry topic; after too many times it goes to the dead letters. Needs `retry=True`."""
        if self._undertaker is None or not self.asked.retry:
            raise Misuse("reconsume_later needs a consumer with retry=True")
        check_message(message)
        self._source_of(message)
        await self._undertaker.put_off(message, delay_s, properties)

    async def redeliver_unacknowledged(self) -> None:
        """Everything received and not acknowledged, again and now; messages not taken yet come again too."""
        for part in list(self._parts.by_topic.values()):
            part.redelivery.all()

    # Moving about

    async def seek(self, to: MessageId | int | datetime, *, inclusive: bool = False) -> None:
        """To behind a message (or to itself: `inclusive`), or to the first message published at or after a time, given
        in milliseconds since 1970. Of several topics all are moved, except by the id of a message of one of them.
        """
        parts = list(self._parts.by_topic.values())
        target: StartPosition | int
        if isinstance(to, MessageId):
            target = StartPosition(to, inclusive)
            if not target.open:
                parts = [self._part_of(to)]
        else:
            target = publish_ms(to)
        self._check()
        self.receiver.end(None)
        await asyncio.gather(
            *(consumer_seek.seek(part, self._runtime, target, self._lookup.timeout_s) for part in parts)
        )

    async def last_message_id(self) -> MessageId:
        """Of the one topic of this consumer; ledger and entry are -1 if there is none."""
        found = await self.last_message_ids()
        if len(found) != 1:
            raise Misuse("a consumer of several topics has several last messages: last_message_ids")
        return found[0]

    async def last_message_ids(self) -> list[MessageId]:
        """Of every topic and partition; each id says its topic."""
        self._check()
        asked = (
            consumer_seek.last_message(part, self._runtime, self._lookup.timeout_s)
            for part in self._parts.by_topic.values()
        )
        return [last for last, _ in await asyncio.gather(*asked)]

    async def lag(self) -> Lag:
        """How far the subscription is behind, of all its consumers together: messages that are not acknowledged, their
        bytes, and the publish time and age of the oldest. Acknowledgements of this consumer are sent first. `Refused`:
        the broker is not a Magnetar broker."""
        self._check()
        return await of_subscription(self._lookup, self._parts.topics, self.subscription, self._parts.by_topic.values())

    async def has_message_available(self) -> bool:
        """Is there anything behind what was taken last?"""
        if self._inbox.count:
            return True
        self._check()
        asked = (
            consumer_seek.has_message(part, self._runtime, self._lookup.timeout_s)
            for part in self._parts.by_topic.values()
        )
        return any(await asyncio.gather(*asked))

    def pause(self) -> None:
        """Ask brokers for nothing more until `resume`; what was asked for still comes."""
        self._pause(True)

    def resume(self) -> None:
        self._pause(False)

    # What it is

    @property
    def subscription(self) -> str:
        return self.asked.subscription

    @property
    def topics(self) -> list[str]:
        """The topics it consumes now; partitioned ones count once."""
        return self._parts.topics

    @property
    def partitions(self) -> list[str]:
        """What it is attached to, each partition by its own name."""
        return list(self._parts.by_topic)

    @property
    def connected(self) -> bool:
        """Is every part attached to its broker at this moment?"""
        return all(part.connection is not None for part in self._parts.by_topic.values())

    @property
    def is_active(self) -> bool:
        """Of a FAILOVER subscription: is it the one that gets messages, of at least one topic?"""
        return any(part.is_active for part in self._parts.by_topic.values())

    @property
    def reached_end(self) -> bool:
        """Were all its topics terminated, and is everything in them acknowledged?"""
        parts = self._parts.by_topic.values()
        return bool(parts) and all(part.at_end for part in parts)

    # Life

    async def _start(self) -> None:
        """Attach to everything; called once, by whoever made it."""
        timeout_s = self._lookup.timeout_s
        try:
            if isinstance(self._named, re.Pattern):
                pattern = TopicPattern.of(self._named)
                self._discovery = Discovery(self._lookup, pattern, self._parts, self.asked.discovery_s)
                await self._discovery.start(timeout_s)
            else:
                await self._parts.start(full_names(self._named, self.asked), timeout_s)
        except BaseException:
            await self.close()
            raise
        if self._listener is not None:
            self._runtime.spawn(self._owner, self._listen(self._listener))

    async def unsubscribe(self, *, force: bool = False) -> None:
        """Delete the subscription, and close."""
        self._check()
        for part in list(self._parts.by_topic.values()):
            await part.unsubscribe(force=force)
        await self.close()

    async def _leave(self) -> None:
        try:
            await self._owner.close()
            if self._undertaker is not None:
                await self._undertaker.close()
            if self._discovery is not None:
                await self._discovery.close()
        finally:
            await self._parts.close()

    # Inside

    def _hand_out(self, messages: Sequence[Message[Any]]) -> Sequence[Message[Any]]:
        for message in messages:
            message._delivery.source.redelivery.taken(message)
        return messages

    def _pause(self, paused: bool) -> None:
        self._paused = paused
        for part in self._parts.by_topic.values():
            part.pause(paused)

    def _new_part(self, topic: str, asked: ConsumerConfig, queue: int) -> TopicConsumer:
        return TopicConsumer(
            self._lookup,
            topic,
            replace(asked, paused=self._paused),
            inbox=self._inbox,
            receiver=self.receiver,
            counters=self.counters,
            consumer=self,
            schema=self._schema,
            schema_info=self._schema.info(),
            queue_messages=queue,
            on_active=self._told_active,
            on_end=self._told_end,
            on_failed=self._told_failed,
            graveyard=self._undertaker,
        )

    def _source_of(self, message: Message[Any]) -> TopicConsumer:
        part: TopicConsumer = message._delivery.source
        if part.consumer is not self:
            raise Misuse("the message was received by another consumer", topic=message.topic)
        self._check()
        return part

    def _part_of(self, message_id: MessageId) -> TopicConsumer:
        check_id(message_id)
        self._check()
        return self._parts.of(message_id)

    async def _listen(self, listener: Listener) -> None:
        async for message in self:
            try:
                answer = listener(self, message)
                if inspect.isawaitable(answer):
                    await answer
            except Exception as error:  # the listener's own: its message comes again, the others go on
                log.crashed("listener failed", error, id=message.id, topic=message.topic)
                await self.negative_acknowledge(message)

    def _told_active(self, part: TopicConsumer, is_active: bool) -> None:
        log.info("active" if is_active else "inactive", topic=part.topic, subscription=self.asked.subscription)
        if self._on_active is not None:
            self._on_active(self, part.topic, is_active)

    def _told_end(self, part: TopicConsumer) -> None:
        log.info("end of topic", topic=part.topic, subscription=self.asked.subscription)
        if self.reached_end:
            self.receiver.end(Sealed("the topic is terminated and everything in it was received"))

    def _told_failed(self, part: TopicConsumer, error: MagnetarError) -> None:
        log.warning("consumer ended", topic=part.topic, why=error)
        if all(other.failed is not None for other in self._parts.by_topic.values()):
            self.receiver.end(error)
