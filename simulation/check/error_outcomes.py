"""Invariant 16: errors are true. A failed operation has no effect, ever; a successful one has its effect.

A value whose sends were all refused is never delivered. A subscription that no client ever got is in no list; one that
a client got, and no client began to delete, is in every later list. The same holds for topics and their deletion. That
a refused deletion left the messages alone is checked by invariant 1, which goes on expecting them. All brokers of a
healed world show the setting that an operator made last: the last successful one, or a later one with an unknown
outcome.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulation import history as record
from simulation.check.finding import Finding
from simulation.check.history_index import READER, index_history
from simulation.history import FAIL, INVOKE, OK, UNKNOWN, History, Line


def check(history: History) -> Iterator[Finding]:
    yield from _refused_sends(history)
    yield from _lists(history)
    yield from _settings(history)


def _refused_sends(history: History) -> Iterator[Finding]:
    for topic, subscription in index_history(history).observed():
        for line in subscription.lines:
            if line.operation != record.RECEIVE or line.value is None:
                continue
            send = topic.sends.get(line.value)
            if send is not None and send.refused:
                ended = send.attempts[-1].ended
                assert ended is not None
                what = f"{line.value} was refused for sure ({ended.error}), and is there"
                yield Finding(16, topic.name, what, (send.first, ended, line))


class Existence:
    """Whether one name may exist and whether it must, from the lines of its creation and deletion."""

    __slots__ = ("_deleting", "_making", "line", "may", "must")

    def __init__(self) -> None:
        self.may = False
        self.must = False
        self.line: Line | None = None  # the last that said something
        self._making: dict[str, bool] = {}  # by process, under way: was it impossible before?
        self._deleting: dict[str, bool] = {}  # by process, under way: was it certain before?

    def making(self, line: Line) -> None:
        if line.phase == INVOKE:
            self._making[line.process] = self.may
            self.may = True
        elif line.phase == FAIL:
            self.may = self._making.pop(line.process, self.may) or bool(self._making) or self.must
        else:
            self._making.pop(line.process, None)
            if line.phase == OK:
                self.must = not self._deleting
        self.line = line

    def deleting(self, line: Line) -> None:
        if line.phase == INVOKE:
            self._deleting[line.process] = self.must
            self.must = False
        elif line.phase == FAIL:
            self.must = self._deleting.pop(line.process, False) and not self._deleting
        elif line.phase == UNKNOWN:
            self._deleting.pop(line.process, None)
        else:
            self._deleting.pop(line.process, None)
            self.may = bool(self._making)
        self.line = line


def _lists(history: History) -> Iterator[Finding]:
    topics: dict[str, Existence] = {}
    subscriptions: dict[tuple[str, str], Existence] = {}
    for line in history.lines:
        if line.operation == record.LIST and line.phase == OK:
            if "topics" in line.facts:
                yield from _compare(line, "topic", line.facts["topics"], topics)
            if "subscriptions" in line.facts:
                existing = {name: found for (topic, name), found in subscriptions.items() if topic == line.topic}
                yield from _compare(line, "subscription", line.facts["subscriptions"], existing)
        elif line.operation == record.SUBSCRIBE and line.facts.get("type") != READER:
            subscriptions.setdefault((line.topic, line.subscription), Existence()).making(line)
        elif line.operation == record.UNSUBSCRIBE:
            subscriptions.setdefault((line.topic, line.subscription), Existence()).deleting(line)
        elif line.operation == record.CREATE:
            topics.setdefault(line.topic, Existence()).making(line)
        elif line.operation == record.DELETE:
            topics.setdefault(line.topic, Existence()).deleting(line)
            for (topic, _), existence in subscriptions.items():
                if topic == line.topic:
                    existence.deleting(line)


def _settings(history: History) -> Iterator[Finding]:
    """One operator makes one setting after another; a setting with an unknown outcome may take effect at any later
    time."""
    last: dict[str, Line] = {}
    unknown: dict[str, list[Line]] = {}
    heard: dict[str, Line] = {}
    for line in history.lines:
        if line.operation == record.SET:
            if line.phase == OK:
                last[line.facts["key"]] = line
            elif line.phase == UNKNOWN:
                unknown.setdefault(line.facts["key"], []).append(line)
        elif line.operation == record.TOLD:
            key, value = line.facts["key"], line.facts["to"]
            done = last.get(key)
            may = {None if done is None else done.facts["to"]}
            may |= {each.facts["to"] for each in unknown.get(key, [])}
            before = heard.setdefault(key, line)
            if value not in may:
                what = f"{key} is {value} for {line.process}, and was set to {sorted(map(str, may))}"
                yield Finding(16, "", what, (*([] if done is None else [done]), line))
            elif before.facts["to"] != value:
                what = f"{key} is {before.facts['to']} for {before.process} and {value} for {line.process}"
                yield Finding(16, "", what, (before, line))


def _compare(listed: Line, what: str, names: list[str], existing: dict[str, Existence]) -> Iterator[Finding]:
    for name, existence in existing.items():
        assert existence.line is not None
        if name in names and not existence.may:
            yield Finding(16, listed.topic, f"{what} {name} is there, and never came to be", (existence.line, listed))
        elif name not in names and existence.must:
            yield Finding(
                16, listed.topic, f"{what} {name} is not there, and nobody deleted it", (existence.line, listed)
            )
