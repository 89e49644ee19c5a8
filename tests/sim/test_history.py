"""A history says what happened, no more: which outcome a line has, and the same lines again after a trip as text."""

from __future__ import annotations

import pytest

from magnetar.base.errors import Busy, ConnectionLost, TimedOut, TopicNotFound
from simulation import history as record
from simulation.history import FAIL, INVOKE, OK, UNKNOWN, History, Value, value_of

TOPIC = "persistent://public/default/t"


def a_history() -> History:
    times = iter(range(100))
    history = History(lambda: float(next(times)))
    history.note("world", record.TOPIC, OK, TOPIC, deduplication=True, kept=True)
    session = history.session()
    value = Value("p", "k", 3)
    history.note("p", record.SEND, INVOKE, TOPIC, value=value, session=session, name="p", sequence=3)
    history.note("p", record.SEND, OK, TOPIC, value=value, place=(1, 0, 2), session=session, epoch=1)
    history.failed("c", record.SUBSCRIBE, TopicNotFound("gone"), TOPIC, subscription="s", session=2)
    history.note("memory", record.SAMPLE, OK, measured=2, limit=3)
    return history


@pytest.mark.parametrize(
    ("error", "phase"),
    [
        (TopicNotFound("no"), FAIL),
        (Busy("no room"), FAIL),
        (TimedOut("late"), UNKNOWN),
        (ConnectionLost("cut"), UNKNOWN),
        (OSError("not of our tree"), UNKNOWN),
    ],
)
def test_only_error_that_says_so_is_definite_failure(error: Exception, phase: str) -> None:
    line = History().failed("p", record.SEND, error, TOPIC)
    assert (line.phase, line.error) == (phase, type(error).__name__)


def test_history_is_same_after_trip_as_text() -> None:
    history = a_history()
    text = history.dump()
    again = History.load(text)
    assert again.lines == history.lines
    assert again.dump() == text
    assert again.session() == history.lines[3].session + 1  # sessions go on behind those that were seen


@pytest.mark.parametrize(
    "spoil",
    [
        lambda rows: rows[1:],  # the first is missing
        lambda rows: [rows[0].replace('"ok"', '"fine"'), *rows[1:]],
        lambda rows: [rows[0].replace('"topic":', '"tropic":'), *rows[1:]],
        lambda rows: [rows[0][:-1], *rows[1:]],
        lambda rows: [*rows, "17"],
    ],
)
def test_text_that_is_no_history_is_refused(spoil: object) -> None:
    rows = a_history().dump().splitlines()
    with pytest.raises(ValueError):  # json's own for text that is none
        History.load("\n".join(spoil(rows)))  # type: ignore[operator]


def test_values_are_read_from_their_payload_and_noise_is_nobodys() -> None:
    value = Value("t-p0", "a", 17)
    assert value_of(value.payload) == value
    assert [value_of(noise) for noise in (b"", b"a|b", b"a|b|c", b"a|b|1|2", b"\xff|a|1")] == [None] * 5


def test_story_is_one_row_line_about_one_topic() -> None:
    history = a_history()
    history.note("p", record.SEND, INVOKE, "persistent://public/default/other")
    rows = list(history.story(TOPIC))
    assert len(rows) == len(history) - 1
    assert "p|k|3 1:0:2 session 1.1" in rows[2]
    assert "TopicNotFound" in rows[3]
