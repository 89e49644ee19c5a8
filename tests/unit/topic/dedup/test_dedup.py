"""Deduplication: verdicts, chunks, ranges over split and merge, snapshots, and the bound."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from magnetar.base.errors import Corrupt, Misuse
from magnetar.base.ids import Position
from magnetar.base.ranges import FULL, HashRange
from magnetar.topic.dedup.dedup import Dedup, KeylessSpread, Verdict, cut, overlay, recorded
from tests.support.search_effort import examples

NEW, DUPLICATE, UNSURE = Verdict
HERE = Position(7, 42)
LEFT, RIGHT = FULL.split()


def stored(*sequences: int, producer: str = "p", dedup: Dedup | None = None) -> Dedup:
    dedup = Dedup() if dedup is None else dedup
    for sequence in sequences:
        dedup.pushed(producer, sequence)
        dedup.persisted(producer, sequence)
    return dedup


def test_id_is_new_unknown_or_duplicate_by_watermarks() -> None:
    dedup = stored(5)
    dedup.pushed("p", 8)
    assert [dedup.check("p", i, i) for i in (4, 5, 6, 8, 9)] == [DUPLICATE, DUPLICATE, UNSURE, UNSURE, NEW]
    assert dedup.highest("p") == 5
    dedup.persisted("p", 8)
    assert dedup.check("p", 8, 8) is DUPLICATE
    assert dedup.highest("p") == 8


def test_unknown_producer_has_nothing_and_asking_does_not_remember_it() -> None:
    dedup = Dedup()
    assert dedup.highest("p") == -1
    assert dedup.check("p", 0, 0) is NEW
    assert dedup.check_run("p", [0, 1], [0, 1]) is None
    assert dedup.producers == 0


def test_after_failed_write_same_ids_are_new_again() -> None:
    dedup = stored(5)
    dedup.pushed("p", 9)
    dedup.failed("p")
    assert [dedup.check("p", i, i) for i in (5, 6, 9)] == [DUPLICATE, NEW, NEW]
    dedup.failed("unknown")
    assert dedup.producers == 1


def test_batch_stored_in_part_is_neither_dropped_nor_stored_again() -> None:
    dedup = stored(6)
    assert dedup.check("p", 5, 6) is DUPLICATE
    assert dedup.check("p", 5, 9) is UNSURE
    assert dedup.check("p", 7, 9) is NEW


def test_producers_do_not_see_each_other() -> None:
    dedup = stored(5, producer="a")
    assert dedup.check("b", 5, 5) is NEW


def test_only_last_chunk_is_checked_and_recorded() -> None:
    dedup = stored(4)
    chunks = [False, False, True, True]
    assert dedup.check_run("p", [5, 5, 5, 6], [5, 5, 5, 6], chunks) is None
    assert recorded([5, 5, 5, 6], chunks) == 6
    assert recorded([5, 5], [False, False]) == -1
    dedup.pushed("p", recorded([5, 5], [False, False]))
    dedup.persisted("p", recorded([5, 5], [False, False]))
    assert dedup.check("p", 5, 5, False) is NEW
    assert dedup.check("p", 5, 5, True) is NEW, "two of three chunks do not make the message stored"
    stored(5, dedup=dedup)
    assert dedup.check_run("p", [5, 5, 5], [5, 5, 5], [False, False, True]) == [NEW, NEW, DUPLICATE]


def test_run_sees_its_own_entries_as_pushed() -> None:
    dedup = stored(3)
    assert dedup.check_run("p", [4, 4, 5, 2], [4, 4, 5, 2]) == [NEW, UNSURE, NEW, DUPLICATE]
    assert dedup.check_run("p", [4, 5, 9], [4, 8, 9]) is None
    assert dedup.check_run("p", [4, 8], [8, 9]) == [NEW, UNSURE]
    assert dedup.check_run("p", [], []) is None


IDS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3), st.booleans()), max_size=8)


@given(persisted=st.integers(-1, 8), ahead=st.integers(0, 4), entries=IDS, chunked=st.booleans())
def test_run_at_once_gets_verdicts_of_one_by_one(
    persisted: int, ahead: int, entries: list[tuple[int, int, bool]], chunked: bool
) -> None:
    run, single = stored(persisted), stored(persisted)
    for dedup in (run, single):
        dedup.pushed("p", persisted + ahead)
    firsts = [first for first, _, _ in entries]
    highests = [first + more for first, more, _ in entries]
    lasts = [last for _, _, last in entries] if chunked else None
    one_by_one = []
    for i, first in enumerate(firsts):
        last = lasts is None or lasts[i]
        one_by_one.append(single.check("p", first, highests[i], last))
        if one_by_one[-1] is NEW and last:
            single.pushed("p", highests[i])
    verdicts = run.check_run("p", firsts, highests, lasts)
    assert (verdicts or [NEW] * len(firsts)) == one_by_one
    assert verdicts is None or any(verdict is not NEW for verdict in verdicts)


def test_idle_producer_is_forgotten_and_connected_one_never() -> None:
    dedup = stored(5, producer="a")
    stored(6, producer="b", dedup=dedup)
    stored(7, producer="c", dedup=dedup)
    dedup.detached("a", 1000)
    dedup.detached("b", 2000)
    dedup.detached("ghost", 1)
    assert dedup.forget(1000) == []
    assert dedup.forget(1001) == ["a"]
    dedup.attached("b")
    assert dedup.forget(10_000) == []
    assert [dedup.highest(name) for name in "abc"] == [-1, 6, 7]


def test_producers_over_bound_are_forgotten_by_age_and_counted() -> None:
    dedup = Dedup(producers_max=3)
    for i, name in enumerate("abc"):
        stored(i, producer=name, dedup=dedup)
    dedup.detached("c", 1)
    dedup.detached("b", 2)
    stored(9, producer="d", dedup=dedup)
    assert sorted(dedup.marks()) == ["a", "b", "d"]
    stored(9, producer="e", dedup=dedup)
    assert sorted(dedup.marks()) == ["a", "d", "e"]
    dedup.pushed("a", 10)
    stored(9, producer="f", dedup=dedup)
    assert sorted(dedup.marks()) == ["a", "e", "f"]
    assert (dedup.producers, dedup.evicted) == (3, 3)


def test_producer_forgotten_in_flight_returns_at_confirmation() -> None:
    dedup = Dedup(producers_max=1)
    dedup.pushed("a", 5)
    dedup.pushed("b", 1)
    dedup.persisted("a", 5)
    assert dedup.highest("a") == 5
    assert dedup.producers == 1


def test_snapshot_holds_stored_ids_and_replay_adds_rest() -> None:
    dedup = stored(5, producer="a")
    dedup.pushed("a", 9)
    stored(2**64 - 1, producer="ü\ud800", dedup=dedup)
    stored(0, producer="n" * 70_000, dedup=dedup)
    dedup.detached("a", 1000)
    heir = Dedup()
    assert heir.load(dedup.snapshot(HERE), 5000) == HERE
    assert (heir.highest("a"), heir.highest("ü\ud800"), heir.range) == (5, 2**64 - 1, FULL)
    assert heir.check("a", 6, 6) is NEW
    heir.replay("a", 7)
    heir.replay("a", 6)
    heir.replay("new", 3)
    assert [heir.check("a", i, i) for i in (7, 8)] == [DUPLICATE, NEW]
    assert heir.highest("new") == 3
    assert heir.forget(1001) == ["a"], "idle since before the snapshot"
    assert heir.forget(5000) == []
    assert heir.forget(5001) == ["ü\ud800", "n" * 70_000], "connected at the snapshot: idle since the restart"


def test_loading_larger_map_keeps_bound_and_most_recent() -> None:
    dedup = Dedup()
    for i in range(5):
        stored(i, producer=f"p{i}", dedup=dedup)
        dedup.detached(f"p{i}", 100 - i)
    small = Dedup(producers_max=2)
    small.load(dedup.snapshot(HERE), 0)
    assert sorted(small.marks()) == ["p0", "p1"]


@given(where=st.integers(0, 200), bit=st.integers(0, 7))
def test_snapshot_with_any_bit_turned_is_refused(where: int, bit: int) -> None:
    data = bytearray(stored(5, producer="producer").snapshot(HERE))
    data[where % len(data)] ^= 1 << bit
    with pytest.raises(Corrupt):
        Dedup().load(bytes(data), 0)


@given(data=st.binary(max_size=80), cut_at=st.integers(0, 70))
def test_bytes_that_are_no_snapshot_are_refused(data: bytes, cut_at: int) -> None:
    good = stored(5, producer="producer").snapshot(HERE)
    for bad in (data, good[: cut_at % len(good)], good + b"\0", good[:6] + data):
        with pytest.raises(Corrupt):
            Dedup().load(bad, 0)


def test_newer_snapshot_is_refused_with_what_to_do() -> None:
    data = stored(5).snapshot(HERE)
    with pytest.raises(Corrupt, match="upgrade"):
        Dedup().load(data[:4] + b"\0\2" + data[6:], 0)


def test_after_merge_each_half_keeps_its_own_mark() -> None:
    left, right = Dedup(LEFT), Dedup(RIGHT)
    stored(10, dedup=left)
    stored(20, dedup=right)
    stored(3, producer="only-left", dedup=left)
    merged = left.unite([right])
    assert merged.range == FULL
    assert merged.marks() == {
        "p": [(LEFT, 10), (RIGHT, 20)],
        "only-left": [(LEFT, 3), (RIGHT, -1)],
    }
    assert merged.check("p", 15, 15, key_hash=5) is NEW, "the maximum would have dropped it"
    assert merged.check("p", 15, 15, key_hash=40_000) is DUPLICATE
    merged.pushed("p", 15, key_hash=5)
    assert merged.check("p", 15, 15, key_hash=5) is UNSURE
    merged.persisted("p", 15, key_hash=5)
    assert merged.check_run("p", [15, 16, 16], [15, 16, 16], key_hashes=[5, 5, 50_000]) == [DUPLICATE, NEW, DUPLICATE]
    assert merged.highest("p") == 20
    heir = Dedup()
    heir.load(merged.snapshot(HERE), 0)
    assert heir.marks() == merged.marks()


def test_partitions_with_equal_keys_know_common_stored_ids_only() -> None:
    first, second, third = Dedup(), Dedup(), Dedup()
    first.persisted("everywhere", 9)
    second.persisted("everywhere", 4)
    third.persisted("everywhere", 7)
    first.persisted("in one only", 9)
    child = first.unite([second, third]).restrict(HashRange(0, 99))
    assert child.highest("everywhere") == 4, "5 may be on its way to the second one: a higher mark would drop it"
    assert child.highest("in one only") == -1


def test_over_several_ranges_foreign_hash_is_callers_bug() -> None:
    merged = stored(1, dedup=Dedup(HashRange(0, 9))).unite([stored(2, dedup=Dedup(HashRange(10, 19)))])
    with pytest.raises(Misuse):
        merged.check("p", 5, 5, key_hash=20)


def test_hidden_keys_are_duplicate_only_if_every_range_agrees() -> None:
    merged = stored(3, dedup=Dedup(HashRange(0, 9))).unite([stored(8, dedup=Dedup(HashRange(10, 19)))])
    assert merged.ranged("p")
    assert merged.check("p", 1, 3) is DUPLICATE
    assert merged.check("p", 4, 8) is NEW, "one half never had it: dropping it would lose messages"
    assert merged.check("p", 2, 4) is UNSURE
    merged.pushed("p", 9)
    assert merged.check_run("p", [9, 10], [9, 10], key_hashes=[None, None]) == [UNSURE, NEW]
    merged.persisted("p", 9)
    assert merged.check("p", 9, 9, key_hash=5) is DUPLICATE
    assert merged.check("p", 9, 9, key_hash=15) is DUPLICATE


def test_equal_halves_are_one_range_again_and_need_no_hash() -> None:
    whole = stored(5)
    again = whole.restrict(HashRange(0, 99)).unite([whole.restrict(HashRange(100, 65535))])
    assert again.marks() == whole.marks() == {"p": [(FULL, 5)]}
    assert again.check("p", 5, 5) is DUPLICATE


def test_split_passes_idleness_and_merge_needs_both_idle() -> None:
    whole = stored(5, producer="a")
    stored(5, producer="b", dedup=whole)
    whole.detached("a", 10)
    whole.detached("b", 20)
    left, right = whole.restrict(HashRange(0, 99)), whole.restrict(HashRange(100, 65535))
    right.attached("b")
    merged = left.unite([right])
    assert merged.forget(100) == ["a"]


EDGES = st.integers(0, 30)
MARKS = st.lists(st.tuples(EDGES, EDGES, st.integers(-1, 5)).filter(lambda m: m[0] <= m[1]), max_size=6)


@given(marks=MARKS, first=EDGES, width=st.integers(0, 30))
def test_cutting_and_laying_over_keep_highest_mark_of_every_hash(
    marks: list[tuple[int, int, int]], first: int, width: int
) -> None:
    for tiled in (overlay(marks, HashRange(0, 40)), cut(marks, HashRange(first, first + width))):
        assert [s for s, _, _ in tiled[1:]] == [e + 1 for _, e, _ in tiled[:-1]]
        assert all(a[2] != b[2] for a, b in pairwise(tiled))
        for start, end, mark in tiled:
            for key_hash in range(start, end + 1):
                assert mark == max((m for s, e, m in marks if s <= key_hash <= e), default=-1)
    assert (tiled[0][0], tiled[-1][1]) == (first, first + width)


class EachIdIsStoredOnce(RuleBasedStateMachine):
    """Clients that resend anything at any time over a ledger that fails and a broker that restarts: no id twice, none
    lost.
    """

    def __init__(self) -> None:
        super().__init__()
        self.dedup = Dedup()
        self.log: list[tuple[str, int]] = []  # what the ledger keeps
        self.flight: list[tuple[str, int]] = []
        self.acked: set[tuple[str, int]] = set()
        self.snapshot: tuple[bytes, int] = (self.dedup.snapshot(Position(0, -1)), 0)

    @rule(producer=st.sampled_from("ab"), first=st.integers(0, 12), count=st.integers(1, 5))
    def send(self, producer: str, first: int, count: int) -> None:
        ids = list(range(first, first + count))
        verdicts = self.dedup.check_run(producer, ids, ids) or [NEW] * count
        for sequence, verdict in zip(ids, verdicts, strict=True):
            if verdict is NEW:
                self.flight.append((producer, sequence))
                self.dedup.pushed(producer, sequence)
            elif verdict is DUPLICATE:
                assert sequence <= max(s for p, s in self.log if p == producer)
                self.acked.add((producer, sequence))

    @rule(n=st.integers(1, 6))
    def stored(self, n: int) -> None:
        for producer, sequence in self.flight[:n]:
            self.log.append((producer, sequence))
            self.acked.add((producer, sequence))
            self.dedup.persisted(producer, sequence)
        self.flight = self.flight[n:]

    @rule()
    def the_writer_dies(self) -> None:
        self.flight = []
        for producer in "ab":
            self.dedup.failed(producer)

    @rule()
    def take_a_snapshot(self) -> None:
        self.snapshot = (self.dedup.snapshot(Position(0, len(self.log) - 1)), len(self.log))

    @rule(reached=st.integers(0, 6))
    def crash(self, reached: int) -> None:
        self.log += self.flight[:reached]  # stored, but nobody was told
        self.flight = []
        self.dedup = Dedup()
        position = self.dedup.load(self.snapshot[0], 0)
        assert position.entry + 1 == self.snapshot[1]
        for producer, sequence in self.log[position.entry + 1 :]:
            self.dedup.replay(producer, sequence)

    @invariant()
    def no_id_twice_and_order_kept(self) -> None:
        for producer in "ab":
            ids = [s for p, s in self.log if p == producer]
            assert ids == sorted(set(ids))
            assert self.dedup.highest(producer) == max(ids, default=-1)


EachIdIsStoredOnce.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
TestEachIdIsStoredOnce = EachIdIsStoredOnce.TestCase


def a_merged_map() -> Dedup:
    """Even numbers lie in the lower half, which has stored all up to 8; odd ones in the upper, up to 5."""
    lower, upper = Dedup(HashRange(0, 0x7FFF)), Dedup(HashRange(0x8000, 0xFFFF))
    lower.persisted("p", 8)
    upper.persisted("p", 5)
    return lower.unite([upper])


def half_of(sequence: int) -> int:
    return 0x8000 if sequence % 2 else 0


@pytest.mark.parametrize(
    ("first", "highest", "verdict"),
    [
        (0, 6, Verdict.DUPLICATE),
        (8, 8, Verdict.DUPLICATE),
        (6, 8, Verdict.NEW),  # 7 is not stored: all of it is, 6 and 8 twice
        (7, 7, Verdict.NEW),
        (9, 12, Verdict.NEW),
    ],
)
def test_batch_without_keys_is_judged_by_its_numbers(first: int, highest: int, verdict: Verdict) -> None:
    dedup = a_merged_map()
    found = dedup.check_run("p", [first], [highest], spread=KeylessSpread(half_of, [highest - first + 1]))
    assert (found or [Verdict.NEW]) == [verdict]


def test_batch_with_numbers_of_other_segments_takes_its_own() -> None:
    """Only even numbers belong here: a batch of three spans five."""
    dedup = a_merged_map()
    spread = KeylessSpread(lambda sequence: None if sequence % 2 else 0, [3])
    assert dedup.check_run("p", [4], [8], spread=spread) == [Verdict.DUPLICATE]


@pytest.mark.parametrize("count", [1, 4])
def test_inconsistent_batch_numbers_are_judged_by_lowest_mark(count: int) -> None:
    dedup = a_merged_map()
    spread = KeylessSpread(half_of, [count])
    assert dedup.check_run("p", [6], [8], spread=spread) is None
    assert dedup.check_run("p", [3], [5], spread=spread) == [Verdict.DUPLICATE]
