"""Ending a topic for good: durable first, then everybody is told.

Sealing is asked for by operation and term. It is idempotent, a lower term than one seen before is Fenced, and once a
producer has been sent CLOSE_PRODUCER it gets no receipt any more, so a client knows that what it has no receipt for
must be sent elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.base.errors import Corrupt, Fenced, Sealed
from magnetar.base.ids import Position, Term
from magnetar.observe.log import get
from magnetar.wire import entry

if TYPE_CHECKING:
    from magnetar.topic.topic import Topic

log = get("seal")

TERM_PROPERTY = "magnetar.seal-term"  # of the managed ledger: the highest term that asked


@dataclass(frozen=True, slots=True)
class SealedTopic:
    """What a successor needs: the end, what was seen of producers, the fence, counts, and the bounds of publish time
    (0: empty).
    """

    end: Position
    dedup: bytes
    fence: int
    messages: int
    bytes: int
    first_publish_ms: int
    last_publish_ms: int


class Sealing:
    def __init__(self, topic: Topic) -> None:
        self._topic = topic

    async def seal(self, op: str, term: Term) -> SealedTopic:
        topic = self._topic
        known = int(topic.managed.properties.get(TERM_PROPERTY, "-1"))
        if term < known:
            raise Fenced(f"term {term} is over: term {known} has sealed or is sealing this topic", op=op, wire_code=6)
        if term > known:
            await topic.managed.set_properties({TERM_PROPERTY: str(term)})
        already = topic.managed.terminated is not None
        # Refused from here on, so that the end is near; the end itself is what the ledger makes durable.
        topic.refusal = Sealed("the topic is terminated: nothing can be published to it any more")
        end = await topic.managed.terminate()
        topic.refusal = Sealed("the topic is terminated: nothing can be published to it any more", end=str(end))
        if not already:
            log.info("sealed", topic=str(topic.name), end=str(end), term=term, op=op)
            topic.runtime.mark("sealed", topic=str(topic.name), end=end, term=term, op=op)
        topic.producers.close_all()
        for subscription in topic.subscriptions:
            subscription.dispatcher.pump()
            subscription.caught_up(subscription.cursor.mark)
        first_ms, last_ms = await self._bounds(end)
        return SealedTopic(
            end=end,
            dedup=topic.dedup.snapshot(end) if topic.dedup is not None else b"",
            fence=topic.producers.access.fence,
            messages=topic.managed.messages,
            bytes=topic.managed.bytes,
            first_publish_ms=first_ms,
            last_publish_ms=last_ms,
        )

    async def _bounds(self, end: Position) -> tuple[int, int]:
        managed = self._topic.managed
        if not managed.has(end):
            return 0, 0
        times = []
        for position in (managed.next_valid(managed.first), end):
            run = await managed.read(position, 1, 1)
            try:
                times.append(entry.publish_time(run.entry(0)) if run is not None else 0)
            except Corrupt:
                times.append(0)  # a client's broken metadata: no bound is known
        return times[0], times[1]
