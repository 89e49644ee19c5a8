"""So many lines of one kind in a second, and a count of the others."""

from __future__ import annotations

from magnetar.observe.limiter import LineLimiter


def test_lines_beyond_bound_are_dropped_and_told_once() -> None:
    limiter = LineLimiter(2)
    assert [limiter.admit("a", 10.0 + step / 10) for step in range(5)] == [True, True, False, False, False]
    assert limiter.admit("b", 10.5)
    assert limiter.overdue(10.9) == []
    assert limiter.overdue(11.5) == [("a", 3)]
    assert limiter.overdue(11.6) == []
    assert limiter.admit("a", 11.7)


def test_clock_that_goes_back_begins_new_second() -> None:
    limiter = LineLimiter(1)
    assert limiter.admit("a", 100.0)
    assert not limiter.admit("a", 100.1)
    assert limiter.overdue(50.0) == [("a", 1)]
    assert limiter.admit("a", 50.0)
