"""An index over a history of real clients: sends by value, the log as clients saw it, subscriptions.

It judges nothing. It is built once for a history of a given length and shared by all checkers. It also decides which
assumptions are legal: which messages a subscription must get (`Subscription.owed`), and when a message is exempt from
all checks because its topic may have been deleted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

from simulation import history as record
from simulation.history import FAIL, INVOKE, OK, History, Line, Place, Value

READER = "Reader"
SINGLE = ("Exclusive", "Failover", READER)  # one consumer gets everything, in order
KEYED = "Key_Shared"


@dataclass(slots=True)
class Attempt:
    """One call of send for a value."""

    invoked: Line
    ended: Line | None = None  # None: unknown

    @property
    def ok(self) -> bool:
        return self.ended is not None and self.ended.phase == OK

    @property
    def refused(self) -> bool:
        """It certainly had no effect."""
        return self.ended is not None and self.ended.phase == FAIL


@dataclass(slots=True)
class Send:
    value: Value
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def first(self) -> Line:
        return self.attempts[0].invoked

    @property
    def acked(self) -> Line | None:
        """The first receipt."""
        return next((attempt.ended for attempt in self.attempts if attempt.ok), None)

    @property
    def refused(self) -> bool:
        return all(attempt.refused for attempt in self.attempts)


@dataclass(slots=True)
class Topic:
    name: str
    deduplication: bool = False
    kept: bool = True  # nothing is ever trimmed: a start at the beginning gets everything
    scalable: bool = False
    sends: dict[Value, Send] = field(default_factory=dict)
    seen: dict[Place, Line] = field(default_factory=dict)  # the first receipt or delivery that named a place
    places: list[Place] = field(default_factory=list)  # the same, in the order of the log
    copies: dict[Value, list[Place]] = field(default_factory=dict)  # where a value was seen, in the order of the log
    deletions: list[int] = field(default_factory=list)  # numbers of the lines that began one that may have happened
    by_key: dict[str, list[Place]] = field(default_factory=dict)
    _before: dict[float, dict[int, Place]] = field(default_factory=dict)

    def value_at(self, place: Place) -> Value | None:
        return self.seen[place].value

    def segment(self, place: Place) -> int:
        """Of a scalable topic."""
        id: int = self.seen[place].facts["segment"]
        return id

    def _turn(self, place: Place) -> tuple[int, Place]:
        """A key goes through segments in the order of their ids; what else is in them has no order."""
        return (self.segment(place) if self.scalable else 0, place)

    def log(self) -> list[Place]:
        return sorted(self.seen, key=self._turn)

    def released(self, sent: int, number: int) -> bool:
        """Whether a message sent at one line may have been deleted with its topic at another."""
        return any(sent < deleted < number for deleted in self.deletions)

    def last_sent_before(self, at: float) -> dict[int, Place]:
        """In each segment the last place of what was sent before a time."""
        latest = self._before.get(at)
        if latest is None:
            latest = self._before[at] = {}
            for place in self.places:
                value = self.value_at(place)
                if value in self.sends and self.sends[value].first.at < at:
                    latest[self.segment(place)] = place
        return latest

    def upto(self, places: list[Place], place: Place) -> int:
        return bisect_left(places, place)


@dataclass(slots=True)
class Subscription:
    topic: Topic
    name: str
    type: str
    earliest: bool
    lines: list[Line] = field(default_factory=list)  # all about it, in order

    @property
    def keyed(self) -> bool:
        return self.type == KEYED

    @property
    def ordered(self) -> bool:
        return self.type in SINGLE or self.keyed

    def owed(self, born: int, value: Value, number: int) -> Line | None:
        """The line that began the sending of a value which a subscription, there since line `born`, must get or have
        got by line `number`, if it was stored at all; None if it need not.
        """
        send = self.topic.sends.get(value)
        if send is None or self.topic.released(send.first.number, number):
            return None
        if send.first.number > born or (self.earliest and self.topic.kept):
            return send.first
        return None


@dataclass(slots=True)
class HistoryIndex:
    topics: dict[str, Topic] = field(default_factory=dict)
    subscriptions: dict[tuple[str, str], Subscription] = field(default_factory=dict)
    faults: list[int] = field(default_factory=list)  # numbers of lines

    def observed(self) -> Iterator[tuple[Topic, Subscription]]:
        for subscription in self.subscriptions.values():
            yield subscription.topic, subscription


def index_history(history: History) -> HistoryIndex:
    length, index = history.digest
    if length == len(history.lines):
        assert isinstance(index, HistoryIndex)
        return index
    story = _index_history(history)
    history.digest = (len(history.lines), story)
    return story


def _index_history(history: History) -> HistoryIndex:
    story = HistoryIndex()
    under_way: dict[tuple[str, str, Value], Attempt] = {}
    refused = _definitely_failed(history, record.DELETE)
    for line in history.lines:
        if line.operation == record.FAULT:
            story.faults.append(line.number)
        if not line.topic:
            continue
        topic = story.topics.setdefault(line.topic, Topic(line.topic))
        if line.operation == record.TOPIC:
            topic.deduplication = line.facts.get("deduplication", False)
            topic.kept = line.facts.get("kept", True)
            topic.scalable = line.facts.get("scalable", False)
        elif line.operation == record.SEND:
            _send(topic, line, under_way)
        elif line.operation == record.DELETE and line.phase == INVOKE and line.number not in refused:
            topic.deletions.append(line.number)
        if line.subscription:
            _subscription(story, topic, line)
    for topic in story.topics.values():
        _log(topic)
    return story


def _send(topic: Topic, line: Line, under_way: dict[tuple[str, str, Value], Attempt]) -> None:
    if line.value is None:
        return
    name = (line.process, line.topic, line.value)
    if line.phase == INVOKE:
        attempt = under_way[name] = Attempt(line)
        topic.sends.setdefault(line.value, Send(line.value)).attempts.append(attempt)
        return
    begun = under_way.pop(name, None)
    if begun is not None:
        begun.ended = line
        if line.phase == OK and line.place is not None:
            topic.seen.setdefault(line.place, line)


def _subscription(story: HistoryIndex, topic: Topic, line: Line) -> None:
    name = (line.topic, line.subscription)
    subscription = story.subscriptions.get(name)
    if subscription is None:
        kind, earliest = line.facts.get("type", "Shared"), line.facts.get("earliest", True)
        subscription = story.subscriptions[name] = Subscription(topic, line.subscription, kind, earliest)
    subscription.lines.append(line)
    if line.operation == record.RECEIVE and line.place is not None:
        topic.seen.setdefault(line.place, line)


def _log(topic: Topic) -> None:
    topic.places = topic.log()
    for place in topic.places:
        value = topic.value_at(place)
        if value is not None:
            topic.copies.setdefault(value, []).append(place)
            topic.by_key.setdefault(value.key, []).append(place)


def _definitely_failed(history: History, operation: str) -> set[int]:
    """Numbers of the lines that began something which for sure did not happen."""
    open_lines: dict[tuple[str, str], int] = {}
    failed: set[int] = set()
    for line in history.lines:
        if line.operation == operation:
            name = (line.process, line.topic)
            if line.phase == INVOKE:
                open_lines[name] = line.number
            elif line.phase == FAIL and name in open_lines:
                failed.add(open_lines.pop(name))
    return failed
