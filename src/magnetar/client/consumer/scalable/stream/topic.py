"""One topic of a stream consumer: its layout watched, its place with the controller, the segments it was given.

What a stream consumer has one of, and a consumer of a whole namespace one for every topic. It joins the three and ends
them in order; what is received goes to the consumer's one inbox, and what was handed out of it is in `positions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from magnetar.base.errors import MagnetarError
from magnetar.base.ids import SegmentId
from magnetar.client.connection.lookup import Lookup
from magnetar.client.consumer.config import ConsumerConfig
from magnetar.client.consumer.receive.receive_queue import ReceiveQueue
from magnetar.client.consumer.receive.waiters import ReceiveWaiters
from magnetar.client.consumer.scalable.seek import SeekTo, move, passed
from magnetar.client.consumer.scalable.stream.ack_position import AckPosition
from magnetar.client.consumer.scalable.stream.positions import Positions
from magnetar.client.consumer.scalable.stream.registration import Registration
from magnetar.client.consumer.scalable.stream.segments import StreamSegments
from magnetar.client.consumer.topic_consumer import TopicConsumer
from magnetar.client.counters import Counters
from magnetar.client.layout_watch import LayoutView, LayoutWatch
from magnetar.client.message import Message, MessageId
from magnetar.client.schema import Schema

Acks = list[tuple[SegmentId, AckPosition]]


class StreamTopic:
    """Made and closed by its consumer, `whole`. `stamps` gives every message of that consumer its turn. `ended` is told
    once it has begun and cannot go on.
    """

    def __init__(
        self,
        lookup: Lookup,
        topic: str,
        asked: ConsumerConfig,
        *,
        whole: Any,
        inbox: ReceiveQueue,
        receiver: ReceiveWaiters,
        counters: Counters,
        schema: Schema[Any],
        stamps: Iterator[int],
        ended: Callable[[MagnetarError], None],
        create: bool = True,
    ) -> None:
        self.topic = topic
        self.whole = whole
        self._lookup = lookup
        self._subscription = asked.subscription
        self._share = StreamSegments(
            lookup,
            topic,
            asked,
            inbox=inbox,
            receiver=receiver,
            counters=counters,
            consumer=self,
            schema=schema,
            stamps=stamps,
            ended=ended,
        )
        self._watch = LayoutWatch(lookup, topic, heard=self._shown, gone=ended, create=create)
        self._registration = Registration(
            lookup,
            topic,
            asked.subscription,
            asked.name,
            position=asked.initial_position,
            assigned=self._share.handle,
            ended=ended,
        )

    @property
    def positions(self) -> Positions[AckPosition]:
        return self._share.positions

    @property
    def parts(self) -> Mapping[SegmentId, TopicConsumer]:
        return self._share.parts

    @property
    def held_back(self) -> dict[SegmentId, int]:
        """Sealed segments whose children wait until the application acknowledges so many messages."""
        return self._share.held_back

    @property
    def unacknowledged(self) -> int:
        return sum(self.positions.unacked(segment) for segment in self.positions.segments)

    async def start(self, timeout_s: float) -> None:
        """Learn who leads and register."""
        await self._watch.start(timeout_s)
        await self._registration.start(timeout_s)

    def hurry(self) -> None:
        """Before a close because of an error: do not wait for a controller that is away."""
        self._registration.hurry()

    async def close(self) -> None:
        """Send the acknowledgements that wait, leave every segment, then the subscription's others take over."""
        try:
            await self._share.close()
            await self._registration.close()
        finally:
            await self._watch.close()

    # Acknowledging

    def acknowledge(self, acks: Acks) -> list[TopicConsumer]:
        """Remember them; the parts that have something to send now."""
        parts = []
        for segment, place in acks:
            part = self._share.parts.get(segment)
            if part is not None:
                part.ack_until(place)
                parts.append(part)
        return parts

    async def seek(self, to: SeekTo) -> None:
        """Move the subscription; nothing that was received before is handed out when this returns."""
        with self._share.moving():
            await move(self._lookup, lambda: self._registration.controller, self.topic, self._subscription, to)
            await passed(self.parts.values())
            self._share.moved()

    def settle(self) -> None:
        """After an acknowledgement was sent on its way: what was taken away may be done with."""
        self._share.settle()

    def _stream_id(self, message: Message[Any], plain: MessageId) -> MessageId:
        """What messages ask of it; their consumer knows what else was handed out."""
        found: MessageId = self.whole._stream_id(message, plain)
        return found

    def _shown(self, seen: LayoutView) -> None:
        self._share.shown(seen.layout)
        self._registration.led_by(seen.controller)
