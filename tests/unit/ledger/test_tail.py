"""The newest runs of all topics under one bound, handed out without a copy."""

from __future__ import annotations

from magnetar.base.ids import Position
from magnetar.ledger.run import Run, run_of
from magnetar.ledger.tail import Tail, TailCache


def a_run(ledger: int, first: int, entries: int = 1, size: int = 100) -> Run:
    run = run_of([b"x" * size] * entries)
    run.ledger, run.first = ledger, first
    return run


def test_a_whole_run_is_handed_out_as_it_came():
    cache, tail = TailCache(10_000), Tail()
    run = a_run(1, 0, entries=4)
    cache.put(tail, run)
    assert tail.read(Position(1, 0), 1000, 100) is run


def test_a_part_is_a_slice_over_the_same_body():
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


def test_the_oldest_run_of_all_topics_goes_first():
    cache, one, two = TailCache(2000), Tail(), Tail()
    for index in range(4):
        cache.put(one if index % 2 else two, a_run(1, index))
    assert (len(one), len(two)) == (2, 2)
    cache.put(one, a_run(1, 9))
    assert two.read(Position(1, 0), 100, 1) is None
    assert one.read(Position(1, 1), 100, 1) is not None
    assert cache.bytes <= 2000


def test_a_run_larger_than_the_cache_is_not_kept():
    cache, tail = TailCache(500), Tail()
    cache.put(tail, a_run(1, 0, size=5000))
    assert (cache.bytes, len(tail)) == (0, 0)


def test_a_closed_topic_gives_everything_back():
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


def test_a_long_life_keeps_reading_right():
    cache, tail = TailCache(50 * 480), Tail()
    for index in range(5000):
        cache.put(tail, a_run(1, index))
        assert tail.read(Position(1, index), 1000, 1) is not None
    assert len(tail) == 50
    assert tail.read(Position(1, 4950), 1000, 1) is not None
    assert tail.read(Position(1, 4949), 1000, 1) is None
