"""A consumer: messages of one topic, of its partitions, of several topics or of all that match a pattern.

This is the public class. Messages are received, iterated over or passed to a listener, and acknowledged one by one,
cumulatively, or negatively. A cancelled receive has taken no message. Acknowledgements are grouped and do not fail
unless `confirm` is set; an unacknowledged message is redelivered. Every call belongs to one event loop and does not
block.
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
from magnetar.client.consumer.context import TopicCallbacks
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
OnActive = Callable[["Consumer[Any]", str, bool], None]  # consumer, topic, whether it is the active one now


@public("magnetar.aio")
class Consumer(ConsumerBase[T], Generic[T]):
    """Created by `Client.subscribe`. `async for message in consumer` ends when the topic was terminated and all its
    messages are acknowledged, or when the consumer is closed.
    """

    _ends = (Sealed, Closed)

    def __init__(
        self,
        lookup: Lookup,
        topics: Topics,
        config: ConsumerConfig,
        *,
        schema: Schema[T],
        make_outbox: MakeOutbox | None = None,
        listener: Listener | None = None,
        on_active: OnActive | None = None,
        closed: Callable[[Any], None] | None = None,
    ) -> None:
        facts = {"subscription": config.subscription}
        super().__init__(lookup, config, "", log=log, facts=facts, watches=config.watches, closed=closed)
        config = self.asked
        self._named = topics
        self._listener = listener
        self._on_active = on_active
        self._undertaker: DeadLetterPublisher | None = None
        if make_outbox is not None and config.buries:
            self._undertaker = DeadLetterPublisher(config, self._runtime, make_outbox, self.counters)
        self._shared = self._context(schema, self._undertaker)
        self._callbacks = TopicCallbacks(self._told_end, self._told_failed, self._told_active)
        self._parts = TopicConsumers(lookup, config, self._new_part)
        self._discovery: Discovery | None = None
        self._owner = Owner(f"consumer {config.subscription}", self._crashed)
        self._paused = config.paused

    # Acknowledging

    async def acknowledge(self, message: Message[T] | MessageId, *, confirm: bool = False) -> None:
        """Acknowledge one message. `confirm` awaits the broker's reply (for a batch that is acknowledged as a whole,
        after its last message). If that fails, the outcome is unknown, and the acknowledgement is sent again later.
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
        """Acknowledge a message and all before it, of the same topic or partition. EXCLUSIVE and FAILOVER only. If a
        chunked message that began before it is incomplete, only messages before that one are acknowledged (H-R2)."""
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
        """Request redelivery, after the delay of `nack`."""
        if isinstance(message, Message):
            self._source_of(message).redelivery.refuse(message)
        else:
            self._part_of(message).redelivery.refuse_id((message.ledger, message.entry), message.batch_index)

    async def reconsume_later(
        self, message: Message[T], delay_s: float, *, properties: Mapping[str, str] | None = None
    ) -> None:
        """Defer a message through the retry topic; after too many deferrals it goes to the dead-letter topic. Requires
        `retry=True`."""
        if self._undertaker is None or not self.asked.retry:
            raise Misuse("reconsume_later requires a consumer with retry=True")
        check_message(message)
        self._source_of(message)
        await self._undertaker.put_off(message, delay_s, properties)

    async def redeliver_unacknowledged(self) -> None:
        """Request redelivery of every unacknowledged message now, including those that were not taken yet."""
        for part in list(self._parts.by_topic.values()):
            part.redelivery.all()

    # Positions

    async def seek(self, to: MessageId | int | datetime, *, inclusive: bool = False) -> None:
        """Move to after a message (with `inclusive`, to the message itself), or to the first message published at or
        after a time in milliseconds since 1970. All topics are moved, or only one if `to` is a message id.
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
        """The last message of the consumer's only topic; ledger and entry are -1 if the topic is empty."""
        ids = await self.last_message_ids()
        if len(ids) != 1:
            raise Misuse("last_message_id requires a consumer of one topic: use last_message_ids")
        return ids[0]

    async def last_message_ids(self) -> list[MessageId]:
        """The last message of every topic and partition; each id names its topic."""
        self._check()
        requests = (
            consumer_seek.last_message(part, self._runtime, self._lookup.timeout_s)
            for part in self._parts.by_topic.values()
        )
        return [last for last, _ in await asyncio.gather(*requests)]

    async def lag(self) -> Lag:
        """The backlog of the subscription over all its consumers: the unacknowledged messages, their bytes, and the
        publish time and age of the oldest. Acknowledgements of this consumer are sent first. `Refused`: the broker is
        not a Magnetar broker."""
        self._check()
        return await of_subscription(self._lookup, self._parts.topics, self.subscription, self._parts.by_topic.values())

    async def has_message_available(self) -> bool:
        """Whether there is a message after the last one taken."""
        if self._inbox.count:
            return True
        self._check()
        requests = (
            consumer_seek.has_message(part, self._runtime, self._lookup.timeout_s)
            for part in self._parts.by_topic.values()
        )
        return any(await asyncio.gather(*requests))

    def pause(self) -> None:
        """Request no more messages until `resume`; messages already requested still arrive."""
        self._pause(True)

    def resume(self) -> None:
        self._pause(False)

    # Properties

    @property
    def subscription(self) -> str:
        return self.asked.subscription

    @property
    def topics(self) -> list[str]:
        """The topics that it consumes now; a partitioned topic counts once."""
        return self._parts.topics

    @property
    def partitions(self) -> list[str]:
        """The topics and partitions to which it is attached."""
        return list(self._parts.by_topic)

    @property
    def connected(self) -> bool:
        """Whether every part is attached to its broker now."""
        return all(part.connection is not None for part in self._parts.by_topic.values())

    @property
    def is_active(self) -> bool:
        """For a FAILOVER subscription: whether this consumer receives the messages of at least one topic."""
        return any(part.is_active for part in self._parts.by_topic.values())

    @property
    def reached_end(self) -> bool:
        """Whether all its topics were terminated and all their messages are acknowledged."""
        parts = self._parts.by_topic.values()
        return bool(parts) and all(part.at_end for part in parts)

    # Lifecycle

    async def _start(self) -> None:
        """Attach to all topics; its creator calls it once."""
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

    # Internal

    def _hand_out(self, messages: Sequence[Message[Any]]) -> Sequence[Message[Any]]:
        for message in messages:
            message._delivery.source.redelivery.taken(message)
        return messages

    def _pause(self, paused: bool) -> None:
        self._paused = paused
        for part in self._parts.by_topic.values():
            part.pause(paused)

    def _new_part(self, topic: str, config: ConsumerConfig, queue_messages: int) -> TopicConsumer:
        return TopicConsumer(
            self._shared,
            topic,
            replace(config, paused=self._paused),
            queue_messages=queue_messages,
            callbacks=self._callbacks,
        )

    def _source_of(self, message: Message[Any]) -> TopicConsumer:
        part: TopicConsumer = message._delivery.source
        if part.consumer is not self:
            raise Misuse("the message was received by another consumer: acknowledge it there", topic=message.topic)
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
            except Exception as error:  # from the listener: redeliver its message and continue
                log.crashed("listener_crashed", error, id=message.id, topic=message.topic)
                await self.negative_acknowledge(message)

    def _told_active(self, part: TopicConsumer, is_active: bool) -> None:
        log.info(
            "consumer_activated" if is_active else "consumer_deactivated",
            topic=part.topic,
            subscription=self.asked.subscription,
        )
        if self._on_active is not None:
            self._on_active(self, part.topic, is_active)

    def _told_end(self, part: TopicConsumer) -> None:
        log.info("topic_end_reached", topic=part.topic, subscription=self.asked.subscription)
        if self.reached_end:
            self.receiver.end(Sealed("the topic is terminated and all its messages were received"))

    def _told_failed(self, part: TopicConsumer, error: MagnetarError) -> None:
        log.warning("consumer_ended", topic=part.topic, why=error)
        if all(other.failed is not None for other in self._parts.by_topic.values()):
            self.receiver.end(error)
