"""Values are rounded for people and exact for programs."""

from __future__ import annotations

import pytest

from magnetar.cli.output.values import Cell, Duration, Lag, Moment, Rate, Size, is_nothing, moment, people, plain

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("cell", "eyes", "pipe"),
    [
        (None, "–", "-"),
        ("", "–", "-"),
        ("words", "words", "words"),
        (True, "yes", "yes"),
        (False, "no", "no"),
        (0, "0", "0"),
        (12410, "12,410", "12410"),
        (2.5, "2.5", "2.5"),
        (Lag(12410), "12,410", "12410"),
        (Size(0), "0 B", "0"),
        (Size(1023), "1023 B", "1023"),
        (Size(1536), "1.5 KiB", "1536"),
        (Size(5 * 1024**3), "5.0 GiB", "5368709120"),
        (Size(900 * 1024**5 * 1024), "921600 PiB", str(900 * 1024**6)),
        (Rate(0), "0/s", "0"),
        (Rate(8213.42), "8.2k/s", "8213.42"),
        (Rate(999), "999/s", "999"),
        (Rate(1.5), "1.5/s", "1.5"),
        (Rate(2048, size=True), "2.0 KiB/s", "2048"),
        (Duration(0.0042), "4 ms", "0.004"),
        (Duration(59), "59 s", "59"),
        (Duration(7200), "2 h", "7200"),
        (Moment(0), "never", "-"),
        (Moment(NOW - 90_000), "2 min ago", "2023-11-14T22:11:50.000Z"),
        (Moment(NOW + 5_000), "0 s ago", "2023-11-14T22:13:25.000Z"),
    ],
)
def test_value_as_people_and_programs_see_it(cell: Cell, eyes: str, pipe: str) -> None:
    assert people(cell, NOW) == eyes
    assert plain(cell) == pipe


def test_without_brokers_clock_moment_is_absolute() -> None:
    assert people(Moment(NOW)) == "2023-11-14T22:13:20.000Z"


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2023-11-14T22:13:20.123Z", NOW + 123),
        ("2023-11-14T23:13:20.123+01:00", NOW + 123),
        ("", 0),
        ("soon", 0),
    ],
)
def test_moment_is_read_from_iso(text: str, ms: int) -> None:
    assert moment(text) == Moment(ms)


def test_no_lag_is_something_and_nothing_is_nothing() -> None:
    assert not is_nothing(Lag(0))
    assert not is_nothing(False)
    assert all(is_nothing(cell) for cell in (None, "", 0, 0.0, Size(0), Rate(0), Rate(0, size=True), Moment(0)))
