"""The checkers of scalable topics: histories that are wrong in one way are found, legal ones are let through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from simulation import history as record
from simulation.check.suite import check_history
from simulation.history import FAIL, INVOKE, OK, UNKNOWN, History, Place, Value

TOPIC = "topic://public/default/t"
SUB = "s"
HALF, ALL = 0x8000, 0xFFFF

Rows = dict[str, list[Any]]
ROOT: Rows = {"0": [0, ALL, "ACTIVE", [], None]}
SPLIT: Rows = {
    "0": [0, ALL, "SEALED", [], [1, 9]],
    "1": [0, HALF - 1, "ACTIVE", [0], None],
    "2": [HALF, ALL, "ACTIVE", [0], None],
}
AGAIN: Rows = {
    **SPLIT,
    "1": [0, HALF - 1, "SEALED", [0], [2, -1]],
    "3": [0, HALF - 1, "ACTIVE", [1], None],
}


class Tale:
    """Message `n` stands at entry `n` of the ledger with the number of its segment plus one, unless said otherwise."""

    def __init__(self, *, once: bool = False) -> None:
        self.history = History()
        self.history.note("world", record.TOPIC, OK, TOPIC, deduplication=once, kept=True, scalable=True)
        self._next = 1

    def record(self, segments: Rows, *, epoch: int = 0, term: int = 1, **more: Any) -> Tale:
        self._next = max([self._next, *(int(id) + 1 for id in segments)])
        facts = {"incarnation": 1, "lifecycle": "LIVE", "next_id": self._next, "intent": "", "children": [], **more}
        self.history.note("world", record.RECORD, OK, TOPIC, epoch=epoch, term=term, segments=segments, **facts)
        return self

    def owned(self, segment: int, *, term: int = 1, end: list[int] | None = None) -> Tale:
        self.history.note("world", record.SEGMENT, OK, TOPIC, segment=segment, term=term, end=end)
        return self

    def stream(self, *latched: int, durable: dict[str, Any] | None = None, seeks: int = 0, **holds: int) -> Tale:
        self.history.note(
            "world",
            record.STREAM,
            OK,
            TOPIC,
            subscription=SUB,
            life=1,
            seeks=seeks,
            latched=list(latched),
            holds=[[segment, who] for who, segment in holds.items()],
            durable=durable or {},
        )
        return self

    def sub(self, session: int = 10, *, earliest: bool = True) -> Tale:
        for phase in (INVOKE, OK):
            self.history.note(
                "c",
                record.SUBSCRIBE,
                phase,
                TOPIC,
                subscription=SUB,
                session=session,
                type="Stream",
                earliest=earliest,
            )
        return self

    def send(self, n: int, segment: int = 0, *, phase: str = OK, at: Place | None = None, session: int = 1) -> Tale:
        value = Value("p", "k", n)
        facts = {"name": "p", "sequence": n}
        self.history.note("p", record.SEND, INVOKE, TOPIC, value=value, session=session, **facts)  # type: ignore[arg-type]
        return self.told(n, segment, phase=phase, at=at, session=session)

    def told(self, n: int, segment: int, *, phase: str = OK, at: Place | None = None, session: int = 1) -> Tale:
        place = (at or (segment + 1, n, 0)) if phase == OK else None
        value = Value("p", "k", n)
        self.history.note("p", record.SEND, phase, TOPIC, value=value, place=place, session=session, segment=segment)
        return self

    def get(self, n: int, segment: int = 0, *, session: int = 10, at: Place | None = None, key: str = "k") -> Tale:
        return self._of(record.RECEIVE, n, segment, session, at, Value("p", key, n))

    def ack(self, *numbers: int, segment: int = 0, session: int = 10) -> Tale:
        for n in numbers:
            self._of(record.ACK, n, segment, session, None, None)
        return self

    def moved(self) -> Tale:
        """Back to the beginning, by its consumer."""
        for phase in (INVOKE, OK):
            self.history.note("c", record.SEEK, phase, TOPIC, subscription=SUB, session=10)
        return self

    def settled(self) -> Tale:
        self.history.note("world", record.SETTLE, OK, TOPIC, subscription=SUB)
        return self

    def probe(self, segment: int, phase: str = OK) -> Tale:
        self.history.note("probe", record.PROBE, phase, TOPIC, segment=segment)
        return self

    def inventory(self, cursors: dict[str, list[str]], **more: Any) -> Tale:
        known = {"listed": [0, 7], "roots": [7], "intent": "", "lifecycle": "LIVE", "subscriptions": [SUB]}
        facts = {**known, "unready": ["u"], **more}
        self.history.note("world", record.INVENTORY, OK, TOPIC, cursors=cursors, **facts)
        return self

    def layout(self, *at: int, session: int = 1) -> Tale:
        for epoch in at:
            self.history.note("c", record.LAYOUT, OK, TOPIC, session=session, at=[epoch])
        return self

    def _of(self, operation: str, n: int, segment: int, session: int, at: Place | None, value: Value | None) -> Tale:
        self.history.note(
            "c",
            operation,
            INVOKE if operation == record.ACK else OK,
            TOPIC,
            subscription=SUB,
            value=value,
            place=at or (segment + 1, n, 0),
            session=session,
            segment=segment,
        )
        return self


def split() -> Tale:
    return Tale().record(ROOT).sub().send(0).record(SPLIT, epoch=1)


BAD: dict[str, tuple[int, Callable[[], Tale]]] = {
    # 1, 3: as for plain topics, over all segments
    "a live consumer never gets what is in a child": (1, lambda: split().get(0).ack(0).send(1, 1).settled()),
    "stored in the parent and in the child, with deduplication": (
        3,
        lambda: Tale(once=True).record(ROOT).sub().send(0).record(SPLIT, epoch=1).get(0).ack(0).get(0, 1, at=(2, 0, 0)),
    ),
    "stored twice where nothing was broken": (3, lambda: split().get(0).ack(0).get(0, 1, at=(2, 0, 0))),
    # 4: order through the generations
    "a younger one in the parent, the older one in the child": (
        4,
        lambda: Tale().record(ROOT).sub().send(0, phase=UNKNOWN).send(1).record(SPLIT, epoch=1).get(1).ack(1).get(0, 1),
    ),
    "a child's message before its parent's of the same key": (4, lambda: split().send(1, 1).get(1, 1).get(0)),
    "an older message is skipped": (4, lambda: Tale().record(ROOT).sub().send(0).send(1).get(1)),
    "the next consumer does not get what the last one left": (
        4,
        lambda: Tale().record(ROOT).sub().sub(11).send(0).send(1).get(0).get(1, session=11),
    ),
    # 5: cover
    "a hole in the keyspace": (5, lambda: Tale().record({"0": [1, ALL, "ACTIVE", [], None]})),
    "two segments for one hash": (
        5,
        lambda: Tale().record({"0": [0, HALF, "ACTIVE", [], None], "1": [HALF, ALL, "ACTIVE", [], None]}),
    ),
    "no child where its parent was sealed": (5, lambda: Tale().record({"0": [0, ALL, "SEALED", [], [1, 9]]})),
    "a range that takes nothing when all is healed": (5, lambda: Tale().record(ROOT).probe(0, FAIL)),
    "a range that nobody tried": (5, lambda: Tale().record(SPLIT).probe(1)),
    # 7: one leader
    "the record goes back to an older term": (7, lambda: Tale().record(ROOT, term=2).record(ROOT, epoch=1, term=1)),
    "the record goes back to an older epoch": (7, lambda: Tale().record(ROOT, epoch=2).record(ROOT, epoch=1)),
    "two layouts of one epoch": (7, lambda: Tale().record(ROOT).record(SPLIT)),
    "an owner obeys an older term": (7, lambda: Tale().record(ROOT).owned(0, term=3).owned(0, term=2, end=[1, 9])),
    # 8: sealed for ever
    "another end": (8, lambda: Tale().record(SPLIT).owned(0, end=[1, 8])),
    "an end that is gone": (8, lambda: Tale().record(ROOT).owned(0, end=[1, 8]).owned(0, term=2)),
    "active again": (8, lambda: Tale().record(SPLIT).record(ROOT, epoch=1)),
    "stored behind the end": (8, lambda: Tale().record(SPLIT).sub().send(0, at=(1, 10, 0))),
    # 10: latched is durable
    "latched before the disk knows": (10, lambda: Tale().record(SPLIT).stream(0, durable={"0": False})),
    "a latch taken back": (10, lambda: Tale().record(SPLIT).stream(0, durable={"0": True}).stream()),
    # 11: children wait
    "a child given before its parent is latched": (11, lambda: Tale().record(SPLIT).stream(c=1)),
    "a grandchild given before its grandparent is latched": (11, lambda: Tale().record(AGAIN).stream(1, c=3)),
    "a latched segment given again": (11, lambda: Tale().record(SPLIT).stream(0).stream(0, c=0)),
    "a child's message while another key of its parent is not acknowledged": (
        11,
        lambda: split().send(1, 1).sub(11).get(0).get(1, 1, session=11),
    ),
    "a child's message after a seek, and its parent's did not come again": (
        11,
        lambda: split().send(1, 1).get(0).ack(0).get(1, 1).ack(1, segment=1).moved().sub(11).get(1, 1, session=11),
    ),
    # 13: no orphan, no ghost, no id twice
    "a segment that the record does not list": (13, lambda: Tale().inventory({"0": [SUB], "1": [SUB]})),
    "a segment that is not there": (13, lambda: Tale().inventory({})),
    "a child without its cursor": (13, lambda: Tale().inventory({"0": []})),
    "a cursor without its subscription": (13, lambda: Tale().inventory({"0": [SUB, "ghost"]})),
    "a reshape that nobody finishes": (13, lambda: Tale().inventory({"0": [SUB]}, intent="split-1")),
    "a deletion that nobody finishes": (13, lambda: Tale().inventory({}, listed=[], lifecycle="DELETING")),
    "an id used twice": (
        13,
        lambda: Tale().record(ROOT).record({"0": [0, ALL, "ACTIVE", [], None]}, epoch=1, incarnation=2),
    ),
    "a counter that goes back": (13, lambda: Tale().record(ROOT, next_id=5).record(ROOT, epoch=1, next_id=4)),
    "an id beyond the counter": (13, lambda: Tale().record(SPLIT, next_id=2)),
    # 14: layouts only advance
    "an older layout": (14, lambda: Tale().layout(1, 3, 2)),
}

GOOD: dict[str, Callable[[], Tale]] = {
    "a split under load": lambda: (
        split().owned(0, end=[1, 9]).get(0).ack(0).stream(0, durable={"0": True}).send(1, 1).stream(0, c=1).get(1, 1)
    ),
    "a child's message to the consumer that received its parent's": lambda: split().send(1, 1).get(0).get(1, 1),
    "unacknowledged ones come again to the next": lambda: (
        Tale().record(ROOT).sub().sub(11).send(0).send(1).get(0).get(1).ack(0).get(1, session=11)
    ),
    "the same consumer goes back after a loss": lambda: (
        Tale().record(ROOT).sub().send(0).send(1).get(0).get(1).get(0).get(1).ack(0, 1).settled()
    ),
    "a consumer that was cut off goes on with what it had": lambda: (
        split().send(1, 1).sub(11).get(0, session=11).ack(0, session=11).get(1, 1, session=11).get(0)
    ),
    "a second copy in the child after a loss, without deduplication": lambda: (
        _broken(split()).get(0).ack(0).get(0, 1, at=(2, 0, 0))
    ),
    "whoever starts at the end need not have what was before": lambda: (
        Tale().record(ROOT).send(0).record(SPLIT, epoch=1).sub(earliest=False).send(1, 1).get(1, 1).ack(1, segment=1)
    ),
    "a late consumer through all generations": lambda: (
        Tale().record(ROOT).send(0).record(SPLIT, epoch=1).send(1, 1).sub().get(0).ack(0).get(1, 1).settled()
    ),
    "a subscription that nobody was told of": lambda: Tale().inventory({"0": [SUB, "u"]}),
    "all is tried, all is there": lambda: Tale().record(SPLIT).probe(1).probe(2).inventory({"0": [SUB]}),
    "a segment that is not drained is latched by nobody": lambda: Tale().record(SPLIT).stream(c=0),
    "a seek takes a latch back": lambda: Tale().record(SPLIT).stream(0, durable={"0": True}).stream(seeks=1),
    "everything comes again after a seek": lambda: (
        split().send(1, 1).get(0).ack(0).get(1, 1).moved().get(0).ack(0).get(1, 1).ack(1, segment=1).settled()
    ),
    "nobody knows what is on disk": lambda: Tale().record(SPLIT).stream(0, durable={"0": None}),
    "growing layouts of two clients": lambda: Tale().layout(1, 3).layout(2, 3, session=2),
    "the next life of a name goes on with the counters": lambda: (
        Tale()
        .record(ROOT)
        .record({}, epoch=1, lifecycle="GONE", next_id=1)
        .record({"1": [0, ALL, "ACTIVE", [], None]}, epoch=2, incarnation=2)
    ),
}


def _broken(tale: Tale) -> Tale:
    tale.history.note("world", record.FAULT, OK, what="lose")
    return tale


@pytest.mark.parametrize("name", BAD)
def test_breach_is_found(name: str) -> None:
    invariant, tell = BAD[name]
    findings = check_history(tell().history)
    assert invariant in {finding.invariant for finding in findings}, findings


@pytest.mark.parametrize("name", GOOD)
def test_what_is_legal_is_let_through(name: str) -> None:
    assert [str(finding) for finding in check_history(GOOD[name]().history)] == []


def test_history_from_file_gets_same_verdict() -> None:
    for _, tell in BAD.values():
        history = tell().history
        assert [str(finding) for finding in check_history(History.load(history.dump()))] == [
            str(finding) for finding in check_history(history)
        ]


def test_ranges_of_partitions_say_nothing_and_those_of_segments_stay() -> None:
    """Each partition of a migrated topic has keys of everywhere."""
    halves: Rows = {"0": [0, HALF - 1, "ACTIVE", [], None], "1": [HALF, ALL, "ACTIVE", [], None]}
    after: Rows = {
        "0": [0, ALL, "SEALED", [], [1, 9]],
        "1": [0, ALL, "SEALED", [], [2, 9]],
        "2": [0, HALF - 1, "ACTIVE", [0, 1], None],
        "3": [HALF, ALL, "ACTIVE", [0, 1], None],
    }
    migrated = Tale().record(halves, plain=[0, 1]).record(after, epoch=1, plain=[0, 1])
    assert check_history(migrated.history) == []
    assert 13 in {one.invariant for one in check_history(Tale().record(halves).record(after, epoch=1).history)}
