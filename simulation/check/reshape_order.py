"""Invariant 4 for scalable topics: the messages of a key keep their order through every split and merge.

In the log: a key passes through segments in the order of their ids. Along this way the first copies of one producer
object (with deduplication: of one producer name) stand in the order of their sends. In delivery: when a stream consumer
gets a message, every older one of the same key was delivered to the same consumer since its last step back in that key,
or a client began to acknowledge it. A step back is legal: a segment that is attached again begins at its cursor. A
disconnected consumer goes on with its queue; that affects only itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from magnetar.testing.order import KeyOrder
from simulation import history as record
from simulation.check.cursor_state import CursorState
from simulation.check.finding import Finding
from simulation.check.history_index import Subscription, Topic, index_history
from simulation.check.order import producer_of
from simulation.history import History, Line, Place
from simulation.world.workload import STREAM


def check(history: History) -> Iterator[Finding]:
    story = index_history(history)
    for topic in story.topics.values():
        if topic.scalable:
            yield from _log(topic)
    for subscription in story.subscriptions.values():
        if subscription.topic.scalable and subscription.type == STREAM:
            yield from _deliveries(subscription)


def _log(topic: Topic) -> Iterator[Finding]:
    order: KeyOrder[Line] = KeyOrder()
    firsts: set[object] = set()
    for place in topic.places:
        value = topic.value_at(place)
        send = None if value is None else topic.sends.get(value)
        if value is None or send is None or value in firsts:
            continue
        firsts.add(value)
        if len(send.attempts) > 1 and not topic.deduplication:
            continue  # the sender's own doing
        line = topic.seen[place]
        producer, rank = producer_of(topic, send)
        before = order.add((producer, value.key), rank, line)
        if before is not None:
            what = f"{value} was sent before {before.value} and stands behind it"
            yield Finding(4, topic.name, what, (send.first, before, line))


class DeliverySequence:
    """The messages of one key in one segment that one consumer got since its last step back. In a shared segment it
    takes over buckets from other consumers, with messages that may be older than its own."""

    __slots__ = ("last", "taken")

    def __init__(self) -> None:
        self.last: Place | None = None
        self.taken: set[Place] = set()


def _deliveries(subscription: Subscription) -> Iterator[Finding]:
    topic = subscription.topic
    turns = {place: turn for turn, place in enumerate(topic.places)}
    standing = CursorState()
    streams: dict[tuple[int, int, str], DeliverySequence] = {}
    delivered: set[tuple[Place, int]] = set()
    for line in subscription.lines:
        standing.feed(line)
        if line.operation != record.RECEIVE or line.place is None or line.value is None or standing.adrift:
            continue
        stream = streams.setdefault((line.session, line.facts["segment"], line.value.key), DeliverySequence())
        if stream.last is not None and line.place <= stream.last:
            stream.taken.clear()
        stream.last = line.place
        stream.taken.add(line.place)
        for older in topic.by_key[line.value.key]:
            if turns[older] >= turns[line.place]:
                break
            if older in stream.taken or standing.is_acked(older) or (older, line.session) in delivered:
                continue
            before = streams.get((line.session, topic.segment(older), line.value.key))
            if before is not None and older in before.taken:
                continue  # of an ancestor that it reads ahead of (H-F20)
            value = topic.value_at(older)
            if standing.born is None or value is None or subscription.owed(standing.born, value, line.number) is None:
                continue
            if standing.passes(topic, value):
                continue
            delivered.add((older, line.session))
            what = (
                f"{subscription.name}: {line.value} was delivered, and the older {value}, not acknowledged, not before"
            )
            yield Finding(4, topic.name, what, (topic.seen[older], line))
