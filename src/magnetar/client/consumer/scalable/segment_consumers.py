"""The segments that a consumer has open or is opening: attached, refused or closed.

The shared base of the stream, queue and checkpoint actors: it reports the events of a segment and decides nothing.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable

from magnetar.base.errors import MagnetarError
from magnetar.base.ids import SegmentId
from magnetar.client.connection.backoff import passing
from magnetar.client.consumer.context import ConsumerContext, TopicCallbacks
from magnetar.client.consumer.scalable.segment_events import Attachment, SegmentClosed, SegmentOpened, SegmentRefused
from magnetar.client.consumer.topic_consumer import TopicConsumer
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner

log = get("client.segment_consumers")


def segment_fatal(error: MagnetarError, first: bool) -> bool:
    """Every refusal goes to the deciding state machine, at the first attach and at every later one."""
    return not passing(error)


class SegmentConsumers(ABC):
    """`parts` are the open or opening segments."""

    def __init__(self, context: ConsumerContext, title: str) -> None:
        self.parts: dict[SegmentId, TopicConsumer] = {}
        self.closed = False
        self._context = context
        self._lookup = context.lookup
        self._runtime = context.lookup.pool.runtime
        self._timer: asyncio.TimerHandle | None = None
        self._owner = Owner(title, self._crashed)

    async def close(self) -> None:
        """Send the waiting acknowledgements and close every segment."""
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        await self._owner.close()
        parts, self.parts = self.parts, {}
        await asyncio.gather(*(part.close() for part in parts.values()))

    @abstractmethod
    def handle(self, event: Attachment) -> None:
        """Process an event of a segment."""

    @abstractmethod
    def _crashed(self, name: str, error: BaseException) -> None: ...

    def _callbacks(self, segment: SegmentId, ended: Callable[[TopicConsumer], None]) -> TopicCallbacks:
        return TopicCallbacks(ended, lambda part, error: self._refused(segment, part, error), fatal=segment_fatal)

    def _add(self, segment: SegmentId, part: TopicConsumer) -> None:
        self.parts[segment] = part
        self._runtime.spawn(self._owner, self._attach(segment, part))

    async def _attach(self, segment: SegmentId, part: TopicConsumer) -> None:
        try:
            await part.open(self._lookup.timeout_s)
        except MagnetarError as error:
            self._refused(segment, part, error)
            return
        if self.parts.get(segment) is part:
            self.handle(SegmentOpened(segment))

    def _refused(self, segment: SegmentId, part: TopicConsumer, error: MagnetarError) -> None:
        if self.parts.get(segment) is not part or self.closed:
            return
        log.info("segment_attach_refused", topic=part.topic, why=error)
        part.queue.drop()  # before the close runs: the application may take a message in this very turn (H-R1)
        part.put_away()
        self._runtime.spawn(self._owner, part.close())
        self._gone(segment)
        self._judged(segment, error)

    def _judged(self, segment: SegmentId, error: MagnetarError) -> None:
        self.handle(SegmentRefused(segment, error))

    async def _leave(self, segment: SegmentId) -> None:
        part = self.parts.get(segment)
        if part is not None:
            await part.close()
            if self.parts.get(segment) is part:
                self._gone(segment)
        self.handle(SegmentClosed(segment))

    def _gone(self, segment: SegmentId) -> None:
        self.parts.pop(segment, None)
