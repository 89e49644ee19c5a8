"""Who is attached to the segments of a scalable topic, and how much is left of each: as their owners see it.

The record of a topic knows consumers that register: of streams and of groups of checkpoint consumers. Those of a queue
attach to every segment and tell the topic nothing, so the owners are asked, all of them, whenever somebody looks. One
that does not answer in time is left out and said to be unknown: nobody waits for it, nothing is guessed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from magnetar.base.errors import MagnetarError, TopicNotFound
from magnetar.base.ids import SegmentId
from magnetar.base.limits import ATTENDANCE_WAIT_S, CALLS_AT_ONCE_MAX
from magnetar.base.names import TopicName
from magnetar.cluster.peers import LookPlain, PlainFacts
from magnetar.layout.segment import Segment
from magnetar.observe.log import get
from magnetar.scalable.subscription import Subscription, Type

if TYPE_CHECKING:
    from magnetar.broker.node import Node
    from magnetar.scalable.record import Record

log = get("attendance")

_OF_SEGMENT = re.compile(r"-seg-\d+$")  # as consumers name what they attach to a segment


@dataclass(frozen=True, slots=True)
class Attendance:
    """Of one subscription. `left`: of each segment, none where its owner does not answer."""

    consumers: dict[str, list[SegmentId]] = field(default_factory=dict)
    left: dict[SegmentId, int | None] = field(default_factory=dict)

    @property
    def lag(self) -> int | None:
        """None: some owner does not answer."""
        counts = [count for count in self.left.values() if count is not None]
        return sum(counts) if len(counts) == len(self.left) else None


async def attendance(
    node: Node, name: TopicName, record: Record, found: Collection[Subscription]
) -> dict[str, Attendance]:
    """Of those that are queues; where there is none nobody is asked."""
    queues = {one.name: Attendance() for one in found if one.type is Type.QUEUE}
    segments = record.layout.segments if queues else ()
    for start in range(0, len(segments), CALLS_AT_ONCE_MAX):
        batch = segments[start : start + CALLS_AT_ONCE_MAX]
        for segment, facts in zip(batch, await _all(node, name, batch), strict=True):
            for queue, one in queues.items():
                _add(one, queue, segment.id, facts)
    return queues


def _add(one: Attendance, queue: str, segment: SegmentId, facts: PlainFacts | None) -> None:
    if facts is None:
        one.left[segment] = None
        return
    one.left[segment] = sum(each.backlog for each in facts.subscriptions if each.name == queue)
    for consumer in sorted({_OF_SEGMENT.sub("", each.name) for each in facts.clients if each.subscription == queue}):
        one.consumers.setdefault(consumer, []).append(segment)


async def _all(node: Node, name: TopicName, segments: Collection[Segment]) -> list[PlainFacts | None]:
    return await asyncio.gather(*(_look(node, one.topic(name)) for one in segments))


async def _look(node: Node, topic: TopicName) -> PlainFacts | None:
    try:
        async with asyncio.timeout(ATTENDANCE_WAIT_S):
            answer = await node.peers.owner(topic).ask(LookPlain(op="attendance"))
    except TopicNotFound:
        return PlainFacts()  # nobody has used it yet
    except (MagnetarError, TimeoutError) as error:
        log.info("no answer", topic=str(topic), error=str(error))
        return None
    assert isinstance(answer, PlainFacts)
    return answer
