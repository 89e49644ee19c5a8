"""A queue consumer: the messages of a scalable topic, each for one of the subscription's consumers, in no order.

This is the public class. It attaches to every segment of the topic, active and sealed, and follows splits and merges
(`segments`). It receives over one bounded queue and acknowledges messages one by one. A message that is refused, or not
acknowledged in time, is redelivered to any consumer; after too many redeliveries it goes to the dead-letter topic. A
cancelled receive has taken no message. Every call belongs to one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from magnetar.base.errors import MagnetarError, Misuse, NotReady
from magnetar.base.ids import SegmentId
from magnetar.base.public import public
from magnetar.client.arguments import check_id, check_message, check_of
from magnetar.client.connection.lookup import Lookup
from magnetar.client.consumer.ack.dead_letter_publisher import DeadLetterPublisher, MakeOutbox
from magnetar.client.consumer.base import ConsumerBase
from magnetar.client.consumer.config import ConsumerConfig
from magnetar.client.consumer.scalable.queue.topic import QueueTopic
from magnetar.client.consumer.scalable.seek import SeekTo, sought
from magnetar.client.consumer.topic_consumer import TopicConsumer
from magnetar.client.lag import Lag, of_subscription
from magnetar.client.message import Message, MessageId
from magnetar.client.schema import Schema
from magnetar.observe.log import get

log = get("client.queue")

T = TypeVar("T")


@public("magnetar.aio")
class QueueConsumer(ConsumerBase[T], Generic[T]):
    """Created by `Client.queue_consumer`. `async for message in consumer` ends when the consumer is closed."""

    def __init__(
        self,
        lookup: Lookup,
        topic: str,
        config: ConsumerConfig,
        *,
        schema: Schema[T],
        make_outbox: MakeOutbox,
        closed: Callable[[Any], None] | None = None,
    ) -> None:
        facts = {"subscription": config.subscription}
        super().__init__(lookup, config, "queue", log=log, facts=facts, watches=config.watches, closed=closed)
        config = self.asked
        self.topic = topic
        self._undertaker: DeadLetterPublisher | None = None
        if config.buries:
            self._undertaker = DeadLetterPublisher(config, self._runtime, make_outbox, self.counters)
        self._shared = self._context(schema, self._undertaker)
        self._paused = config.paused
        self._limbs: dict[str, QueueTopic] = {}
        self._prepare()

    # Acknowledging

    async def acknowledge(self, message: Message[T] | MessageId, *, confirm: bool = False) -> None:
        """Acknowledge one message. `confirm` awaits the broker's reply; if that fails, the outcome is unknown, and the
        acknowledgement is sent again later. In a drained segment every message is acknowledged already.
        """
        part = self._source_of(message)
        self.counters.acks += 1
        if part is None:
            if confirm and self._comes_again(message):
                raise NotReady(
                    "the segment of the message is not attached: the broker redelivers the message", topic=self.topic
                )
            return
        if isinstance(message, Message):
            more = part.ack(message)
        else:
            part.ack_id(message)
            more = True
        if confirm:
            await part.confirm()
        elif more:
            part.acker.added()

    async def negative_acknowledge(self, message: Message[T] | MessageId) -> None:
        """Request redelivery to any consumer, after the delay of `nack`."""
        part = self._source_of(message)
        if part is None:
            return
        if isinstance(message, Message):
            part.redelivery.refuse(message)
        else:
            part.redelivery.refuse_id((message.ledger, message.entry), message.batch_index)

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
        for part in self._parts():
            part.redelivery.all()

    async def seek(self, to: SeekTo) -> None:
        """Move the subscription, for all of its consumers and segments: to the earliest or latest message, to the first
        message published at or after a time (a datetime, or milliseconds), or to a checkpoint. A consumer of a
        namespace moves all topics, or the topic of the checkpoint, but no retry topics. Messages received before and
        not taken are discarded. A message taken before can still be acknowledged, and is then not delivered again.
        `Conflict`: a later seek replaced this one.
        """
        self._check()
        await asyncio.gather(*(self._limbs[topic].seek(to) for topic in sought(to, self.topics)))

    async def lag(self) -> Lag:
        """The backlog of the subscription over all its consumers: the unacknowledged messages, their bytes, and the
        publish time and age of the oldest. Acknowledgements of this consumer are sent first. `Refused`: the broker is
        not a Magnetar broker."""
        self._check()
        return await of_subscription(self._lookup, self.topics, self.subscription, self._parts())

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
    def name(self) -> str:
        return self.asked.name

    @property
    def segments(self) -> list[int]:
        """The attached or attaching segments: all in which the subscription has messages left."""
        return [segment for one in self._limbs.values() for segment in one.segments]

    @property
    def topics(self) -> list[str]:
        """The topics that it reads or is about to read; for a namespace, those that exist now."""
        return sorted(self._limbs)

    @property
    def failing(self) -> Mapping[str, MagnetarError]:
        """Topics of its namespace that are not attached, and their errors: they are retried."""
        return {}

    @property
    def connected(self) -> bool:
        """Whether every segment is attached to its broker now."""
        return all(part.connection is not None for part in self._parts())

    # Lifecycle

    async def _start(self) -> None:
        """Attach to every segment; its creator calls it once."""
        try:
            await self._begin(self._lookup.timeout_s)
        except BaseException:
            await self.close()
            raise

    # Its topic; a consumer of a namespace overrides these

    def _prepare(self) -> None:
        self._limbs[self.topic] = self._limb(self.topic, self.asked, self._end)

    async def _begin(self, timeout_s: float) -> None:
        await self._limbs[self.topic].start(timeout_s)

    async def _leave(self) -> None:
        try:
            if self._undertaker is not None:
                await self._undertaker.close()
        finally:
            await self._finish()

    async def _finish(self) -> None:
        await self._limbs[self.topic].close()

    def _limb(
        self,
        topic: str,
        config: ConsumerConfig,
        ended: Callable[[MagnetarError], None],
        *,
        open_elsewhere: Callable[[], int] = lambda: 0,
        create: bool = True,
    ) -> QueueTopic:
        return QueueTopic(
            self._shared,
            topic,
            replace(config, paused=self._paused),
            ended=ended,
            open_elsewhere=open_elsewhere,
            create=create,
        )

    # Called by messages

    def _stream_id(self, message: Message[Any], plain: MessageId) -> MessageId:
        """Messages are acknowledged one by one: the id has only the position."""
        return plain

    def _source_of(self, message: Message[Any] | MessageId) -> TopicConsumer | None:
        """The consumer that is attached to the message's segment now; None: the segment is drained or reattaching."""
        self._check()
        if isinstance(message, Message):
            part: TopicConsumer = message._delivery.source
            if part.consumer is not self:
                raise Misuse("the message was received by another consumer: acknowledge it there", topic=message.topic)
            if not part.closed:
                return part
        else:
            check_id(message)
            if message.segment < 0:
                raise Misuse("the id does not name its segment: use the message itself", id=str(message))
            self._check_of(message)
        for topic in self._limbs.values():
            consumer = topic.part(*_place(message))
            if consumer is not None:
                return consumer
        return None

    # Internal

    def _check_of(self, id: MessageId) -> None:
        check_of(id, (branch.topic for one in self._limbs.values() for branch in one.branches))

    def _hand_out(self, messages: Sequence[Message[Any]]) -> Sequence[Message[Any]]:
        for message in messages:
            message._delivery.source.redelivery.taken(message)
        return messages

    def _parts(self) -> list[TopicConsumer]:
        return [part for one in self._limbs.values() for part in one.parts]

    def _pause(self, paused: bool) -> None:
        self._paused = paused
        for topic in self._limbs.values():
            topic.pause(paused)

    def _comes_again(self, message: Message[Any] | MessageId) -> bool:
        """Whether its segment is not drained: it was refused and will be attached again."""
        return any(one.comes_again(*_place(message)) for one in self._limbs.values())

    def _end(self, error: MagnetarError) -> None:
        log.warning("queue_consumer_ended", topic=self.topic, subscription=self.asked.subscription, why=error)
        self.receiver.end(error)


def _place(message: Message[Any] | MessageId) -> tuple[SegmentId, str]:
    """Its segment number, which other topics may have too, and its topic: "" if an id does not name it."""
    where = message._delivery.source if isinstance(message, Message) else message
    return SegmentId(where.segment), where.topic
