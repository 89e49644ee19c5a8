"""One topic of a queue consumer: its segments, and those of the topic that its messages are put off to.

What a queue consumer has one of, and a consumer of a whole namespace one for every topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from magnetar.base.errors import MagnetarError
from magnetar.base.ids import SegmentId
from magnetar.base.names import topic_name
from magnetar.client.branches import Branches
from magnetar.client.counters import Counters
from magnetar.client.deadletter import retry_topic
from magnetar.client.inbox import Inbox
from magnetar.client.intake import Graveyard
from magnetar.client.lookup import Lookup
from magnetar.client.moving import SeekTo
from magnetar.client.part import Part
from magnetar.client.receive import Receiver
from magnetar.client.schemas import Schema
from magnetar.client.subscribing import InitialPosition, Subscribing


class Limb:
    """`open_elsewhere` says how many segments the consumer's other topics have: they share its queue. `ended` is told
    when it has begun and cannot go on. With `create` a topic that does not exist is made.
    """

    def __init__(
        self,
        lookup: Lookup,
        topic: str,
        asked: Subscribing,
        *,
        inbox: Inbox,
        receiver: Receiver,
        counters: Counters,
        consumer: Any,
        schema: Schema[Any],
        graveyard: Graveyard | None,
        ended: Callable[[MagnetarError], None],
        open_elsewhere: Callable[[], int] = lambda: 0,
        create: bool = True,
    ) -> None:
        self.topic = topic
        self.branches: list[Branches] = []
        topics = [(topic, asked, create)]
        if asked.retry:  # what was put off is all for this subscription, from its first message
            again = str(topic_name(retry_topic(asked, topic)))
            topics.append((again, replace(asked, initial_position=InitialPosition.EARLIEST), True))
        for name, wanted, makes in topics:
            made = Branches(
                lookup,
                name,
                wanted,
                inbox=inbox,
                receiver=receiver,
                counters=counters,
                consumer=consumer,
                schema=schema,
                graveyard=graveyard,
                ended=ended,
                open_elsewhere=open_elsewhere,
                create=makes,
                home=topic,
            )
            self.branches.append(made)

    async def start(self, timeout_s: float) -> None:
        """Until it is attached to every segment."""
        for one in self.branches:
            await one.start(timeout_s)

    async def close(self) -> None:
        """Send the acknowledgements that wait and leave every segment."""
        await asyncio.gather(*(one.close() for one in self.branches))

    async def seek(self, to: SeekTo) -> None:
        """Move the subscription of the topic itself."""
        await self.branches[0].seek(to)

    def pause(self, paused: bool) -> None:
        for one in self.branches:
            one.pause(paused)

    @property
    def segments(self) -> list[SegmentId]:
        """Of the topic itself."""
        return sorted(self.branches[0].parts)

    @property
    def parts(self) -> Iterator[Part]:
        return (part for one in self.branches for part in one.parts.values())

    def part(self, segment: SegmentId, topic: str) -> Part | None:
        """Whoever is attached to a segment now. `topic`: of the segment, or what it is a part of; "": of whatever."""
        for one in self.branches:
            found = one.parts.get(segment)
            if found is not None and not found.closed and topic in ("", found.topic, one.topic):
                return found
        return None

    def comes_again(self, segment: SegmentId, topic: str) -> bool:
        """It is neither drained nor gone: it is attached again soon. `topic` as in `part`."""
        return any(one.comes_again(segment, topic) for one in self.branches)
