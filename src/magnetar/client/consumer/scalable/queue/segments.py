"""The consumers that a queue consumer has on the segments of one scalable topic, through all of its layouts.

This is the actor around `queue/assignment`: it watches the layout, attaches to segments, closes them, reports results
and runs the back-off timers. Messages go to the queue consumer's one receive queue. The assignment decides what is
open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from magnetar.base.errors import Closed, MagnetarError, TimedOut
from magnetar.base.ids import SegmentId
from magnetar.base.names import topic_name
from magnetar.client.connection.lookup import Route
from magnetar.client.consumer.config import ConsumerConfig, InitialPosition
from magnetar.client.consumer.context import ConsumerContext, ScalableSegment
from magnetar.client.consumer.scalable.queue.assignment import (
    Effect,
    Event,
    OpenSegment,
    QueueAssignment,
    SubscriptionMoved,
    TimePassed,
)
from magnetar.client.consumer.scalable.seek import SeekTo, move, passed
from magnetar.client.consumer.scalable.segment_consumers import SegmentConsumers
from magnetar.client.consumer.scalable.segment_events import CloseSegment, EndConsumer, LayoutAdvanced, SegmentEnded
from magnetar.client.consumer.topic_consumer import TopicConsumer
from magnetar.client.layout_watch import LayoutView, LayoutWatch
from magnetar.layout.layout import Layout
from magnetar.observe.log import get

log = get("client.queue")


class QueueSegments(SegmentConsumers):
    """`ended` is called when no segment can continue. `open_elsewhere`: the number of other segments of its consumer,
    which share its queue. `home`: the topic of its consumer, if this one is the retry topic.
    """

    def __init__(
        self,
        context: ConsumerContext,
        topic: str,
        config: ConsumerConfig,
        *,
        ended: Callable[[MagnetarError], None],
        open_elsewhere: Callable[[], int] = lambda: 0,
        create: bool = True,
        home: str = "",
    ) -> None:
        super().__init__(context, f"queue {config.subscription} of {topic}")
        self.topic = topic
        self._home = home or topic
        self._asked = config
        self._ended = ended
        self._open_elsewhere = open_elsewhere
        self._paused = config.paused
        self._spread = QueueAssignment()
        self._layout: Layout | None = None
        self._seeks = -1
        self._watch = LayoutWatch(context.lookup, topic, heard=self._shown, gone=self._end, create=create)
        self._begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def start(self, timeout_s: float) -> None:
        """Wait until every segment is attached."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._watch.start(timeout_s)
                await self._begun
        except TimeoutError:
            raise TimedOut(f"not attached to every segment within {timeout_s:g} s", topic=self.topic) from None

    async def close(self) -> None:
        """Send the waiting acknowledgements and close every segment."""
        self.closed = True
        if not self._begun.done():
            self._end(Closed("the consumer was closed before it attached to every segment", topic=self.topic))
        try:
            await super().close()
        finally:
            await self._watch.close()

    async def seek(self, to: SeekTo) -> None:
        """Move the subscription; after the return no earlier message is delivered."""
        await move(self._lookup, self._leader, self.topic, self._asked.subscription, to)
        await passed(self.parts.values())

    def _leader(self) -> Route | None:
        seen = self._watch.seen
        return None if seen is None else seen.controller

    def pause(self, paused: bool) -> None:
        self._paused = paused
        for part in self.parts.values():
            part.pause(paused)

    # State machine

    def _shown(self, seen: LayoutView) -> None:
        self._layout = seen.layout
        self.handle(LayoutAdvanced(seen.layout))

    def handle(self, event: Event) -> None:
        if self.closed:
            return
        self._apply(self._spread.handle(event, self._runtime.monotonic()))
        if self._spread.begun and not self._begun.done():
            self._begun.set_result(None)
        self._rearm()

    def comes_again(self, segment: SegmentId, topic: str) -> bool:
        """Whether it is a segment of this topic that is neither drained nor deleted. `topic` as in
        `QueueTopic.part`."""
        return self._spread.comes_again(segment) and topic in ("", self.topic, self._name(segment))

    def _apply(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case OpenSegment(segment=segment, inherits=inherits):
                    self._open(segment, inherits)
                case CloseSegment(segment=segment):
                    self._runtime.spawn(self._owner, self._leave(segment))
                case EndConsumer(error=error):
                    self._end(error)

    def _end(self, error: MagnetarError) -> None:
        """Before the consumer has begun, the error goes to the caller of `start`."""
        if self._begun.done():
            self._ended(error)
        else:
            self._begun.set_exception(error)
            self._begun.exception()  # the caller may have stopped waiting

    # Segments

    def _open(self, segment: SegmentId, inherits: bool) -> None:
        config = self._asked
        part = TopicConsumer(
            self._context,
            self._name(segment),
            replace(
                config,
                name=f"{config.name}-seg-{segment}",
                initial_position=InitialPosition.EARLIEST if inherits else config.initial_position,
                paused=self._paused,
            ),
            queue_messages=config.queue_of(len(self._spread.segments) + self._open_elsewhere()),
            callbacks=self._callbacks(segment, lambda part: self.handle(SegmentEnded(segment))),
            segment=ScalableSegment(segment, self.topic, self._home),
            creates=not inherits,
        )
        part.on_seeks = self._sought
        self._add(segment, part)

    def _name(self, segment: SegmentId) -> str:
        assert self._layout is not None
        return str(self._layout.segment(segment).topic(topic_name(self.topic).scalable))

    def _sought(self, seeks: int) -> None:
        """Called at every attach with the number of seeks of the subscription that the segment knows."""
        if self._seeks < seeks:
            before, self._seeks = self._seeks, seeks
            if before >= 0:
                self.handle(SubscriptionMoved())
        self._seeks = max(self._seeks, 0)

    # Time

    def _rearm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._spread.due
        if due is not None and not self.closed:
            wait_s = max(0.0, due - self._runtime.monotonic())
            self._timer = asyncio.get_running_loop().call_later(wait_s, self.handle, TimePassed())

    def _crashed(self, name: str, error: BaseException) -> None:
        log.crashed("queue_consumer_crashed", error, name=name)
        self._end(Closed(f"the consumer failed with an unexpected error: {error!r}", topic=self.topic))
