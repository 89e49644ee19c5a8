"""Watching: which verbs can be, how often, and what it survives. Time does not pass here: the pause is given."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from magnetar.base.errors import Misuse, NotReady, TopicNotFound
from magnetar.cli.exit_codes import Exit
from magnetar.cli.options import COMMON, Change, Common
from magnetar.cli.output.formats import KeyValues
from magnetar.cli.output.watch import can_watch, interval, watch_with, watchable
from magnetar.cli.output.watch_screen import WatchFrame


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("1s", 1), ("2m", 120), ("2min", 120), ("1h", 3600), ("3", 3), ("0.5", 0.5), ("1.5s", 1.5)],
)
def test_time_is_said_in_units_or_as_seconds(text: str, seconds: float) -> None:
    assert interval(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "1 s", "-1s", "1d", "0", "50ms", "25h", "1e3", "nan", "٣s", "1s1s"])
def test_time_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Misuse):
        interval(text)


def read(topic: str, /, *, limit: int = 3, common: Common = COMMON) -> None:
    common.out.show({"topic": topic, "limit": limit}, KeyValues({"topic": topic}))


def test_reading_command_can_be_watched_and_changing_one_cannot() -> None:
    def change(topic: str, /, *, change: Change, common: Common = COMMON) -> None: ...
    def follow(topic: str, /, *, follow: bool = False, common: Common = COMMON) -> None: ...
    def local() -> None: ...

    assert can_watch(read)
    assert not any(can_watch(one) for one in (change, follow, local))


def test_watched_command_keeps_options_and_runs_once_by_default(
    capsys: pytest.CaptureFixture[str],
) -> None:
    verb = watchable(read)
    assert list(inspect.signature(verb).parameters) == ["topic", "limit", "common", "watch"]
    verb("a", limit=4, common=Common(output="jsonl"))
    assert capsys.readouterr().out == '{"topic":"a","limit":4}\n'


def pauses(count: int) -> Callable[[float], None]:
    """So many, then Ctrl-C."""
    waited: list[float] = []

    def pause(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == count:
            raise KeyboardInterrupt

    return pause


def looking(*answers: Any) -> Callable[[WatchFrame], None]:
    """Each an answer, or the error instead of one."""
    left = list(answers)

    def look_into(look: WatchFrame) -> None:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        look.now_ms = 1000 * (len(answers) - len(left))
        look.show(answer, KeyValues({"value": answer}))

    return look_into


def test_it_goes_on_until_ctrl_c_which_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    common = Common(output="jsonl")
    assert watch_with(1.0, common, looking(1, 2, 3), pauses(3)) == Exit.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f'{{"at":"1970-01-01T00:00:0{n}.000Z","document":{n}}}' for n in (1, 2, 3)]


def test_temporarily_absent_broker_is_noted_once_and_asked_again(capsys: pytest.CaptureFixture[str]) -> None:
    away = NotReady("no broker answers")
    assert watch_with(1.0, Common(output="csv"), looking(1, away, away, 2), pauses(4)) == Exit.OK
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0] == "at,value"
    assert [line.split(",")[1] for line in shown.out.splitlines()[1:]] == ["1", "2"]
    assert shown.err.splitlines() == [
        "magnetar: no answer, retrying: no broker answers",
        "magnetar: the broker answers again",
    ]


def test_broker_without_any_answer_and_missing_object_end_watch() -> None:
    with pytest.raises(NotReady):
        watch_with(1.0, COMMON, looking(NotReady("no broker answers")), pauses(9))
    with pytest.raises(TopicNotFound):
        watch_with(1.0, COMMON, looking(1, TopicNotFound("gone")), pauses(9))
