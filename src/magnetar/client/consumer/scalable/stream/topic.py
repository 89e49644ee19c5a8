"""One topic of a stream consumer: its layout watch, its registration with the controller, its assigned segments.

A stream consumer has one, and a consumer of a whole namespace has one for every topic. It connects the three and closes
them in order. Messages go to the consumer's one receive queue; `positions` stores the handed-out ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from magnetar.base.errors import MagnetarError
from magnetar.base.ids import SegmentId
from magnetar.client.consumer.config import ConsumerConfig
from magnetar.client.consumer.context import ConsumerContext
from magnetar.client.consumer.scalable.seek import SeekTo, move, passed
from magnetar.client.consumer.scalable.stream.ack_position import AckPosition
from magnetar.client.consumer.scalable.stream.positions import Positions
from magnetar.client.consumer.scalable.stream.registration import Registration
from magnetar.client.consumer.scalable.stream.segments import StreamSegments
from magnetar.client.consumer.topic_consumer import TopicConsumer
from magnetar.client.layout_watch import LayoutView, LayoutWatch
from magnetar.client.message import Message, MessageId

Acks = list[tuple[SegmentId, AckPosition]]


class StreamTopic:
    """Created and closed by its consumer. `stamps` gives every message of that consumer its stamp. `ended` is
    called when it cannot continue after it had begun.
    """

    def __init__(
        self,
        context: ConsumerContext,
        topic: str,
        config: ConsumerConfig,
        *,
        stamps: Iterator[int],
        ended: Callable[[MagnetarError], None],
        create: bool = True,
    ) -> None:
        self.topic = topic
        self.whole = context.consumer
        self._lookup = lookup = context.lookup
        self._subscription = config.subscription
        self._share = StreamSegments(replace(context, consumer=self), topic, config, stamps=stamps, ended=ended)
        self._watch = LayoutWatch(lookup, topic, heard=self._shown, gone=ended, create=create)
        self._registration = Registration(lookup, topic, config, assigned=self._share.handle, ended=ended)

    @property
    def positions(self) -> Positions[AckPosition]:
        return self._share.positions

    @property
    def parts(self) -> Mapping[SegmentId, TopicConsumer]:
        return self._share.parts

    @property
    def held_back(self) -> dict[SegmentId, int]:
        """Sealed segments whose children wait, with the number of messages that the application must acknowledge."""
        return self._share.held_back

    @property
    def unacknowledged(self) -> int:
        return sum(self.positions.unacked(segment) for segment in self.positions.segments)

    async def start(self, timeout_s: float) -> None:
        """Find the controller and register."""
        await self._watch.start(timeout_s)
        await self._registration.start(timeout_s)

    def hurry(self) -> None:
        """Before a close because of an error: do not wait for an unreachable controller."""
        self._registration.hurry()

    async def close(self) -> None:
        """Send the waiting acknowledgements, close every segment, then unregister so that other consumers take over."""
        try:
            await self._share.close()
            await self._registration.close()
        finally:
            await self._watch.close()

    # Acknowledging

    def acknowledge(self, acks: Acks) -> list[TopicConsumer]:
        """Record them; returns the parts that must send now."""
        parts = []
        for segment, place in acks:
            part = self._share.parts.get(segment)
            if part is not None:
                part.ack_until(place)
                parts.append(part)
        return parts

    async def seek(self, to: SeekTo) -> None:
        """Move the subscription; after the return no earlier message is delivered."""
        with self._share.moving():
            await move(self._lookup, lambda: self._registration.controller, self.topic, self._subscription, to)
            await passed(self.parts.values())
            self._share.moved()

    def settle(self) -> None:
        """After an acknowledgement was passed on: revoked segments may be settled now."""
        self._share.settle()

    def _stream_id(self, message: Message[Any], plain: MessageId) -> MessageId:
        """Called by messages; their consumer knows the other handed-out messages."""
        id: MessageId = self.whole._stream_id(message, plain)
        return id

    def _shown(self, seen: LayoutView) -> None:
        self._share.shown(seen.layout)
        self._registration.led_by(seen.controller)
