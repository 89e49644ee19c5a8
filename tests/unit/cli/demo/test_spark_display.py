"""What people see of the demo's pipeline: lines in a pipe, one picture of eighty columns on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from magnetar.base.ids import SegmentId
from magnetar.cli.demo.reshaper import branches
from magnetar.cli.demo.spark_display import Counts, Lines, Rate, Screen
from magnetar.layout.layout import initial


def test_rates_are_over_last_seconds() -> None:
    rate = Rate()
    found = [rate.read(tick / 2, tick * (10 if tick < 20 else 50)) for tick in range(40)]
    assert found[10] == pytest.approx(20)
    assert found[-1] == pytest.approx(100)


def test_steps_and_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    counts = Counts()
    with Lines(counts) as lines:
        lines.say("broker 1 serves pulsar://localhost:1", 10.0)
        for tick in range(61):
            counts.published, counts.written, counts.query = tick * 10, tick, "running"
            lines.draw(10.0 + tick / 10)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        "  0.0 s  broker 1 serves pulsar://localhost:1",
        "  3.0 s  300 orders acknowledged, 30 in the topic, 0 in Parquet; query running, broker starting",
        "  6.0 s  600 orders acknowledged, 60 in the topic, 0 in Parquet; query running, broker starting",
    ]


def test_picture_shows_segments_and_splits_in_eighty_columns() -> None:
    layout = initial(1, now_ms=0)
    for id in (0, 1, 2):
        layout = layout.split(SegmentId(id), now_ms=0)
    layout = layout.merge((SegmentId(3), SegmentId(4)), now_ms=0).split(SegmentId(7), now_ms=0)
    counts = Counts(1_234_567, 1_200_000, 0, "running", "killed", {"taxes": 17})
    screen = Screen(counts, Console(file=io.StringIO(), width=80))
    screen.tree(branches(layout))
    screen.say("kill -9 of the query, in the middle of a batch; Spark starts again", 0.0)
    plain = Console(file=io.StringIO(), width=80)
    plain.print(screen.picture(1.0))
    assert isinstance(plain.file, io.StringIO)
    shown = plain.file.getvalue()
    assert max(len(line) for line in shown.splitlines()) <= 80
    for words in ("query killed", "1,234,567", "34,567", "17", "└─#2 8000-ffff", "#8 0000-3fff ●", "kill -9"):
        assert words in shown


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        (Counts(100, 0, 0, "running", "starting"), "Spark starts"),
        (Counts(100, 0, 0, "running", "running"), "processes its first batch"),
        (Counts(100, 100, 100, "running", "running"), ""),
    ],
)
def test_still_table_says_what_it_waits_for(counts: Counts, said: str) -> None:
    screen = Screen(counts, Console(file=io.StringIO(), width=100))
    plain = Console(file=io.StringIO(), width=100)
    plain.print(screen.picture(1.0))
    assert isinstance(plain.file, io.StringIO)
    shown = plain.file.getvalue()
    assert said in shown
    assert bool(said) == ("Spark" in shown)
