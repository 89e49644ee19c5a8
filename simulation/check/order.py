"""Invariant 4: the messages of a key come in the order in which each producer sent them.

In the log: the receipts of one producer object name growing positions, and the first copies of its messages stand in
the order of their sends, inside batches too (for each key, where batches are by key). With deduplication this holds for
a producer name over all its objects.

In delivery, for Exclusive, Failover and Key_Shared subscriptions and for readers: when a consumer gets a message, every
older message of the same key (of any key, where one consumer gets everything) was delivered to the same consumer on the
same attachment before, or a client began to acknowledge it. So first deliveries are in order, and no redelivery
overtakes an older message without acknowledgement. A step back needs a reason: a new attachment or a negative
acknowledgement. With Failover it needs none, because other consumers that come and go can cause one, and the active
consumer is not notified.

Legal: a message with an unknown outcome stands anywhere or nowhere in the log of another producer object. Second copies
stand anywhere. A disconnected consumer goes on with its queue. An entry that a Key_Shared consumer refused comes again
behind the entries that were already in its queue. Shared has no order.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from magnetar.testing.order import KeyOrder
from simulation import history as record
from simulation.check.cursor_state import CursorState
from simulation.check.finding import Finding
from simulation.check.history_index import (
    READER,
    Send,
    Subscription,
    Topic,
    index_history,
)
from simulation.history import History, Line, Place


def check(history: History) -> Iterator[Finding]:
    story = index_history(history)
    for topic in story.topics.values():
        if topic.scalable:
            continue  # `generations` judges it
        yield from _receipts(topic)
        if topic.kept:
            yield from _log(topic)
    for subscription in story.subscriptions.values():
        if subscription.ordered:
            yield from Deliveries(subscription).check()


def _receipts(topic: Topic) -> Iterator[Finding]:
    newest: dict[object, Line] = {}  # by producer object
    attempts = [attempt for send in topic.sends.values() for attempt in send.attempts]
    for attempt in sorted(attempts, key=lambda attempt: attempt.invoked.number):
        line = attempt.ended
        if line is None or not attempt.ok or line.place is None:
            continue
        group = _kept_by(attempt.invoked, line.session)
        before = newest.get(group)
        if before is not None and before.place is not None and line.place <= before.place:
            what = f"{line.value} was sent behind {before.value} and has its receipt for a place before it"
            yield Finding(4, topic.name, what, (before, line))
        newest[group] = line


def _log(topic: Topic) -> Iterator[Finding]:
    """First copies. If an application sends a value several times without deduplication, the copies are its own."""
    order: KeyOrder[Line] = KeyOrder()  # of each producer
    firsts = sorted((places[0], value) for value, places in topic.copies.items())
    for place, value in firsts:
        send = topic.sends.get(value)
        if send is None or (len(send.attempts) > 1 and not topic.deduplication):
            continue
        line = topic.seen[place]
        group, rank = producer_of(topic, send)
        before = order.add(group, rank, line)
        if before is not None:
            what = f"{value} was sent before {before.value} and stands behind it"
            yield Finding(4, topic.name, what, (send.first, before, line))


def producer_of(topic: Topic, send: Send) -> tuple[Hashable, int]:
    """The producer whose order the message belongs to, and its place in that order."""
    name = send.first.facts.get("name")
    if topic.deduplication and name and send.first.facts.get("sequence") is not None:
        return _kept_by(send.first, name), send.first.facts["sequence"]
    return _kept_by(send.first, send.first.session), send.first.number


def _kept_by(sent: Line, producer: Hashable) -> Hashable:
    """Batches by key keep the order of each key only."""
    return (producer, sent.value.key) if sent.facts.get("by_key") and sent.value is not None else producer


class DeliverySequence:
    """What one consumer got on one attachment, since it last went back."""

    __slots__ = ("last", "moves", "nacked", "reached", "reasons", "taken")

    def __init__(self, moves: int) -> None:
        self.moves = moves
        self.last: dict[str, Line] = {}  # by key
        self.reached: dict[str, int] = {}  # by key: how many of its places were looked at
        self.taken: set[Place] = set()
        self.nacked: set[tuple[int, int]] = set()
        self.reasons = 0  # to go back

    def again(self) -> None:
        self.last.clear()
        self.reached.clear()
        self.taken.clear()


class Deliveries:
    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._topic = subscription.topic
        self._standing = CursorState()
        self._streams: dict[tuple[int, int], DeliverySequence] = {}
        self._delivered: set[Place] = set()
        self._told: set[tuple[Place, int]] = set()

    def check(self) -> Iterator[Finding]:
        for line in self._subscription.lines:
            self._standing.feed(line)
            if line.operation == record.RECEIVE and line.place is not None and line.value is not None:
                yield from self._received(line, line.place, line.value.key)
                self._delivered.add(line.place)
            elif line.operation == record.NACK and line.place is not None:
                stream = self._stream(line)
                stream.nacked.add(line.place[:2])
                stream.reasons += 1

    def _stream(self, line: Line) -> DeliverySequence:
        # A reader that comes back goes on behind what it took last: all its attachments are one stream.
        name = (line.session, 0 if self._subscription.type == READER else line.epoch)
        stream = self._streams.get(name)
        if stream is None or stream.moves != self._standing.moves:
            stream = self._streams[name] = DeliverySequence(self._standing.moves)
        return stream

    def _received(self, line: Line, place: Place, key: str) -> Iterator[Finding]:
        stream = self._stream(line)
        if self._standing.loose:
            stream.again()
            return
        keyed = self._subscription.keyed
        group = key if keyed else ""
        last = stream.last.get(group)
        if last is not None and last.place is not None and place <= last.place:
            if keyed:
                if place[:2] not in stream.nacked:
                    yield self._finding(f"{line.value} came behind a younger message of its key", last, line)
            elif stream.reasons or self._subscription.type == "Failover":
                stream.reasons = max(0, stream.reasons - 1)  # each of two refusals may have had its own redelivery
                stream.again()
            else:
                yield self._finding(f"{line.value} came behind a younger message", last, line)
        stream.last[group] = line
        stream.taken.add(place)
        places = self._topic.by_key[key] if keyed else self._topic.places
        until = self._topic.upto(places, place)
        for older in places[stream.reached.get(group, 0) : until]:
            if older in stream.taken or (older, line.session) in self._told or self._excused(older, line, stream):
                continue
            self._told.add((older, line.session))
            yield self._overtaken(older, line)
        stream.reached[group] = max(until, stream.reached.get(group, 0))

    def _excused(self, older: Place, line: Line, stream: DeliverySequence) -> bool:
        standing = self._standing
        value = self._topic.value_at(older)
        if value is None or standing.born is None or standing.is_acked(older):
            return True
        if self._subscription.keyed and older[:2] in stream.nacked:
            return True
        return self._subscription.owed(standing.born, value, line.number) is None

    def _overtaken(self, older: Place, line: Line) -> Finding:
        value = self._topic.value_at(older)
        if older in self._delivered:
            what = f"{line.value} was delivered, and the older {value}, not acknowledged, not again before it"
        else:
            what = f"{line.value} was delivered before the older {value} ever was"
        return self._finding(what, self._topic.seen[older], line)

    def _finding(self, what: str, *lines: Line) -> Finding:
        return Finding(4, self._topic.name, f"{self._subscription.name}: {what}", lines)
