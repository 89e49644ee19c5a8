"""One topic of a queue consumer: its segments, and those of its retry topic.

A queue consumer has one, and a consumer of a whole namespace has one for every topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace

from magnetar.base.errors import MagnetarError
from magnetar.base.ids import SegmentId
from magnetar.base.names import topic_name
from magnetar.client.consumer.ack.dead_letters import retry_topic
from magnetar.client.consumer.config import ConsumerConfig, InitialPosition
from magnetar.client.consumer.context import ConsumerContext
from magnetar.client.consumer.scalable.queue.segments import QueueSegments
from magnetar.client.consumer.scalable.seek import SeekTo
from magnetar.client.consumer.topic_consumer import TopicConsumer


class QueueTopic:
    """`open_elsewhere` returns the number of segments of the consumer's other topics, which share its queue. `ended` is
    called when it cannot continue after it had begun. With `create` a missing topic is created.
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
    ) -> None:
        self.topic = topic
        self.branches: list[QueueSegments] = []
        topics = [(topic, config, create)]
        if config.retry:  # all deferred messages are for this subscription, from the first message
            again = str(topic_name(retry_topic(config, topic)))
            topics.append((again, replace(config, initial_position=InitialPosition.EARLIEST), True))
        for name, topic_config, makes in topics:
            segments = QueueSegments(
                context,
                name,
                topic_config,
                ended=ended,
                open_elsewhere=open_elsewhere,
                create=makes,
                home=topic,
            )
            self.branches.append(segments)

    async def start(self, timeout_s: float) -> None:
        """Wait until every segment is attached."""
        for segments in self.branches:
            await segments.start(timeout_s)

    async def close(self) -> None:
        """Send the waiting acknowledgements and close every segment."""
        await asyncio.gather(*(one.close() for one in self.branches))

    async def seek(self, to: SeekTo) -> None:
        """Move the subscription of the topic itself."""
        await self.branches[0].seek(to)

    def pause(self, paused: bool) -> None:
        for segments in self.branches:
            segments.pause(paused)

    @property
    def segments(self) -> list[SegmentId]:
        """The segments of the topic itself."""
        return sorted(self.branches[0].parts)

    @property
    def parts(self) -> Iterator[TopicConsumer]:
        return (part for one in self.branches for part in one.parts.values())

    def part(self, segment: SegmentId, topic: str) -> TopicConsumer | None:
        """The consumer of a segment now. `topic`: the segment's topic, or the topic it belongs to; "": any topic."""
        for segments in self.branches:
            part = segments.parts.get(segment)
            if part is not None and not part.closed and topic in ("", part.topic, segments.topic):
                return part
        return None

    def comes_again(self, segment: SegmentId, topic: str) -> bool:
        """Whether the segment is neither drained nor deleted, so it is attached again. `topic` as in `part`."""
        return any(one.comes_again(segment, topic) for one in self.branches)
