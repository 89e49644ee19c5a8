"""Ends a topic permanently: the end becomes durable first, then producers and consumers are informed.

A seal request carries an operation and a term. It is idempotent; a lower term than one seen before is Fenced. A
producer that has been sent CLOSE_PRODUCER gets no more receipts, so a client knows that it must send messages without a
receipt elsewhere. CLOSE_PRODUCER of a segment follows the layout that names the children: Java V5 sends a message again
100 ms later, behind newer ones, if it has no segment for it. Messages that arrive in between are dropped, as after the
close.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from magnetar.base.errors import Corrupt, Fenced, MagnetarError, Sealed
from magnetar.base.ids import Position, Term
from magnetar.base.limits import SEALED_LAYOUT_S
from magnetar.ledger.properties import number
from magnetar.observe.log import get
from magnetar.wire import commands, entry

if TYPE_CHECKING:
    from magnetar.topic.producers.producer import Producer
    from magnetar.topic.topic import Topic

log = get("seal")

TERM_PROPERTY = "magnetar.seal-term"  # of the managed ledger: the highest term that asked


class SealResult(msgspec.Struct, frozen=True, tag=True):
    """The values that a child needs: the end, the sequence ids of producers, the fence, counts, and the bounds of
    publish time (0: empty).
    """

    end: Position
    dedup: bytes
    fence: int
    messages: int
    size_bytes: int
    first_publish_ms: int
    last_publish_ms: int


def sealed(topic: Topic, end: Position) -> Sealed:
    if topic.part_of is not None and not topic.name.is_segment:
        words = "the topic was migrated: use a client with support for scalable topics"
        return Sealed(f"{words} (magnetar, or Pulsar's V5 client) with {topic.part_of}", end=str(end))
    return Sealed("the topic is terminated and accepts no more messages", end=str(end))


class TopicSealer:
    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._lock = asyncio.Lock()  # two concurrent terms: the lower one must not overwrite the higher one
        self._detached: list[Producer] = []  # their clients have not been sent CLOSE_PRODUCER yet

    async def seal(self, op: str, term: Term) -> SealResult:
        async with self._lock:
            return await self._seal(op, term)

    async def _seal(self, op: str, term: Term) -> SealResult:
        topic = self._topic
        known_term = number(topic.managed.properties, TERM_PROPERTY, -1)
        if term < known_term:
            raise Fenced(
                f"term {term} has ended: term {known_term} has sealed or is sealing this topic", op=op, wire_code=6
            )
        end = topic.managed.terminated
        if end is None:
            end = await self._terminate(term)
            log.info("topic_sealed", topic=str(topic.name), end=str(end), term=term, op=op)
            topic.runtime.mark("topic.sealed", topic=str(topic.name), end=end, term=term, op=op)
        elif term > known_term:
            await topic.managed.set_properties({TERM_PROPERTY: str(term)})
        topic.refusal = sealed(topic, end)
        self._close_producers()
        for subscription in topic.subscriptions:
            subscription.dispatcher.pump()
            subscription.caught_up(subscription.cursor.mark)
        first_ms, last_ms = await self._bounds(end)
        return SealResult(
            end=end,
            dedup=topic.dedup.snapshot(end) if topic.dedup is not None else b"",
            fence=topic.producers.access.fence,
            messages=topic.managed.messages,
            size_bytes=topic.managed.bytes,
            first_publish_ms=first_ms,
            last_publish_ms=last_ms,
        )

    def _close_producers(self) -> None:
        topic = self._topic
        if topic.after_layout is None:
            topic.producers.close_all()
            return
        self._detached += topic.producers.detach_all()
        if self._detached:
            topic.later(SEALED_LAYOUT_S, self.tell)
            topic.after_layout(self.tell)

    def tell(self) -> None:
        """Closes the detached producers: their clients have the layout behind the seal, or it is late."""
        detached, self._detached = self._detached, []
        for producer in detached:
            producer.outlet.write(commands.close_producer(producer.id))

    async def _terminate(self, term: Term) -> Position:
        """Writes end and term in one write. Messages sent during the write wait in the ledger for its outcome: no
        producer hears of an end that may not come.
        """
        topic = self._topic
        try:
            return await topic.managed.terminate(properties={TERM_PROPERTY: str(term)})
        except MagnetarError as error:
            if topic.managed.failed is not None:  # the end may be written: only a recovery can find out
                topic.append_failed(error)
            raise

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
