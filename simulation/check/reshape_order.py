"""Invariant 4 for scalable topics: the messages of a key keep their order through every split and merge.

In the log: a key goes through segments in the order of their ids; along that way the first copies of what one producer
object sent (with deduplication: one producer name) stand in the order of their sending. In delivery: when a stream
consumer gets a message, every older one of the same key was given to the same consumer since it last went back in that
key, or somebody began to acknowledge it. Going back is legal: a segment that is attached anew begins where its cursor
stands. A consumer that was cut off goes on with what it had queued; that concerns nobody but itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulation import history as record
from simulation.check.cursor_state import Standing
from simulation.check.finding import Finding
from simulation.check.history_index import Subscription, Topic, tell
from simulation.check.order import producer_of
from simulation.history import History, Line, Place
from simulation.world.workload import STREAM


def check(history: History) -> Iterator[Finding]:
    story = tell(history)
    for topic in story.topics.values():
        if topic.scalable:
            yield from _log(topic)
    for subscription in story.subscriptions.values():
        if subscription.topic.scalable and subscription.type == STREAM:
            yield from _deliveries(subscription)


def _log(topic: Topic) -> Iterator[Finding]:
    newest: dict[object, tuple[int, Line]] = {}
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
        before = newest.get((producer, value.key))
        if before is not None and rank < before[0]:
            what = f"{value} was sent before {before[1].value} and stands behind it"
            yield Finding(4, topic.name, what, (send.first, before[1], line))
        else:
            newest[producer, value.key] = (rank, line)


class Stream:
    """What one consumer got of one key in one segment, since it last went back. Of a segment that it shares it gets
    buckets that others had, whose messages may be older than what it got of its own."""

    __slots__ = ("last", "taken")

    def __init__(self) -> None:
        self.last: Place | None = None
        self.taken: set[Place] = set()


def _deliveries(subscription: Subscription) -> Iterator[Finding]:
    topic = subscription.topic
    turns = {place: turn for turn, place in enumerate(topic.places)}
    standing = Standing()
    streams: dict[tuple[int, int, str], Stream] = {}
    told: set[tuple[Place, int]] = set()
    for line in subscription.lines:
        standing.feed(line)
        if line.operation != record.RECEIVE or line.place is None or line.value is None or standing.adrift:
            continue
        stream = streams.setdefault((line.session, line.facts["segment"], line.value.key), Stream())
        if stream.last is not None and line.place <= stream.last:
            stream.taken.clear()
        stream.last = line.place
        stream.taken.add(line.place)
        for older in topic.by_key[line.value.key]:
            if turns[older] >= turns[line.place]:
                break
            if older in stream.taken or standing.is_acked(older) or (older, line.session) in told:
                continue
            before = streams.get((line.session, topic.segment(older), line.value.key))
            if before is not None and older in before.taken:
                continue  # of an ancestor that it reads ahead of (H-F20)
            value = topic.value_at(older)
            if standing.born is None or value is None or subscription.owed(standing.born, value, line.number) is None:
                continue
            if standing.passes(topic, value):
                continue
            told.add((older, line.session))
            what = (
                f"{subscription.name}: {line.value} was delivered, and the older {value}, not acknowledged, not before"
            )
            yield Finding(4, topic.name, what, (topic.seen[older], line))
