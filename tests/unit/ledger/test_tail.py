"""The newest runs of all topics under one bound, handed out without a copy."""

from __future__ import annotations

import weakref

from magnetar.base.ids import Position
from magnetar.base.limits import TAIL_UNREAD_RUNS_MAX
from magnetar.ledger.run import Run, run_of
from magnetar.ledger.tail import Tail, TailCache


def a_run(ledger: int, first: int, entries: int = 1, size: int = 100) -> Run:
    run = run_of([b"x" * size] * entries)
    run.ledger, run.first = ledger, first
    return run


def test_whole_run_is_handed_out_as_it_came():
    cache, tail = TailCache(10_000), Tail()
    run = a_run(1, 0, entries=4)
    cache.put(tail, run)
    assert tail.read(Position(1, 0), 1000, 100) is run


def test_part_is_slice_over_same_body():
    cache, tail = TailCache(10_000), Tail()
    run = a_run(1, 4, entries=5)
    cache.put(tail, run)
    part = tail.read(Position(1, 6), 250, 100)
    assert part is not None
    assert part.body is run.body
    assert (part.first, len(part)) == (6, 2)
    one = tail.read(Position(1, 6), 1, 100)
    assert one is not None
    assert len(one) == 1
    assert len(tail.read(Position(1, 4), 10_000, 3)) == 3


def test_what_is_not_there_is_none():
    cache, tail = TailCache(10_000), Tail()
    assert tail.read(Position(1, 0), 1, 1) is None
    cache.put(tail, a_run(3, 5, entries=2))
    cache.put(tail, a_run(6, 0, entries=2))
    for position in (Position(3, 4), Position(3, 7), Position(4, 0), Position(6, 2), Position(2, 0), Position(6, -1)):
        assert tail.read(position, 100, 100) is None


def test_oldest_run_of_all_topics_goes_first():
    cache, one, two = TailCache(2000), Tail(), Tail()
    for index in range(4):
        cache.put(one if index % 2 else two, a_run(1, index))
    assert (len(one), len(two)) == (2, 2)
    cache.put(one, a_run(1, 9))
    assert two.read(Position(1, 0), 100, 1) is None
    assert one.read(Position(1, 1), 100, 1) is not None
    assert cache.bytes <= 2000


def test_run_larger_than_cache_is_not_kept():
    cache, tail = TailCache(500), Tail()
    cache.put(tail, a_run(1, 0, size=5000))
    assert (cache.bytes, len(tail)) == (0, 0)


def test_closed_topic_gives_everything_back():
    cache, one, two = TailCache(1_000_000), Tail(), Tail()
    for index in range(1000):
        cache.put(one, a_run(1, index))
        cache.put(two, a_run(2, index))
    cache.clear(one)
    cache.clear(two)
    assert cache.bytes == 0
    assert not cache._order
    third = Tail()
    cache.put(third, a_run(3, 0))
    assert third.read(Position(3, 0), 1000, 1) is not None


def test_long_life_keeps_reading_right():
    cache, tail = TailCache(50 * 480), Tail()
    for index in range(5000):
        cache.put(tail, a_run(1, index))
        assert tail.read(Position(1, index), 1000, 1) is not None
    assert len(tail) == 50
    assert tail.read(Position(1, 4950), 1000, 1) is not None
    assert tail.read(Position(1, 4949), 1000, 1) is None


class Watched(Run):
    __slots__ = ("__weakref__",)


def test_popped_run_is_let_go_at_once():
    cache, tail = TailCache(2000), Tail()
    runs = [Watched(b"x" * 900, [0, 900], [1], 1, ledger=1, first=index) for index in range(10)]
    gone = [weakref.ref(run) for run in runs]
    for run in runs:
        cache.put(tail, run)
    del runs, run
    assert [one() is None for one in gone] == [True] * 9 + [False]
    assert tail.read(Position(1, 9), 1000, 1) is not None


def test_tail_that_nobody_wants_keeps_its_newest_runs_only():
    cache, tail, other = TailCache(1_000_000), Tail(), Tail()
    tail.wanted = False
    cache.put(other, a_run(9, 0))
    before = cache.bytes
    for first in range(TAIL_UNREAD_RUNS_MAX + 3):
        cache.put(tail, a_run(1, first, size=100 + first))
    gone = [tail.read(Position(1, first), 1000, 1) is None for first in range(TAIL_UNREAD_RUNS_MAX + 3)]
    assert gone == [True] * 3 + [False] * TAIL_UNREAD_RUNS_MAX
    cache.clear(tail)
    assert cache.bytes == before  # what was replaced was given back


def test_tail_keeps_all_runs_from_when_it_is_wanted_on():
    cache, tail = TailCache(1_000_000), Tail()
    tail.wanted = False
    count = TAIL_UNREAD_RUNS_MAX + 1
    for first in range(count):
        cache.put(tail, a_run(1, first))
    tail.wanted = True
    for first in range(count, 2 * count):
        cache.put(tail, a_run(1, first))
    assert [tail.read(Position(1, first), 1000, 1) is None for first in range(2 * count)] == [True] + [False] * (
        2 * count - 1
    )


def test_bound_of_all_topics_holds_for_tails_that_nobody_wants():
    cache, tails = TailCache(2000), [Tail() for _ in range(10)]
    for tail in tails:
        tail.wanted = False
    for first in range(100):
        cache.put(tails[first % 10], a_run(1, first))
        assert cache.bytes <= 2000
