"""What people see of the demo: rates over a second, steps in a pipe, one picture on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from magnetar.base.ids import SegmentId
from magnetar.cli.demo.delivery_check import DeliveryTally, Kind
from magnetar.cli.demo.display import HISTORY, Rates, Steps, TrafficDisplay, bars
from magnetar.cli.demo.reshaper import branches
from magnetar.cli.demo.traffic import CONSUMERS
from magnetar.layout.layout import initial


def add(tally: DeliveryTally, count: int, *, arrive: bool = True) -> None:
    for number in range(tally.acknowledged, tally.acknowledged + count):
        tally.sending()
        tally.receipt(0, number)
        for found in tally.arrivals.values() if arrive else ():
            found.add(0, number)


def test_rates_are_over_last_second() -> None:
    tally = DeliveryTally([Kind.SHARED])
    rates = Rates(tally)
    for tick in range(40):
        add(tally, 10 if tick < 20 else 30)
        published, arriving = rates.read(tick * 0.1)
    assert published == pytest.approx(300)
    assert arriving[Kind.SHARED] == pytest.approx(300)


def test_what_comes_again_counts_in_rate() -> None:
    tally = DeliveryTally([Kind.SHARED])
    rates = Rates(tally)
    add(tally, 5)
    rates.read(0.0)
    for _ in range(2):
        tally.arrivals[Kind.SHARED].add(0, 0)
    assert rates.read(1.0) == (0.0, {Kind.SHARED: 2.0})


def test_steps_and_line_every_second(capsys: pytest.CaptureFixture[str]) -> None:
    tally = DeliveryTally([Kind.EXCLUSIVE])
    steps = Steps(tally)
    with steps:
        steps.say("starting a broker", 10.0)
        for tick in range(21):
            add(tally, 10, arrive=tick < 20)
            steps.draw(10.0 + tick / 10)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        "  0.0 s  starting a broker",
        "  1.0 s  110 acknowledged, 100/s in, 100/s out, backlog 0",
        "  2.0 s  210 acknowledged, 100/s in, 90/s out, backlog 10",
    ]


def test_picture_shows_every_subscription_and_fits_eighty_columns() -> None:
    tally = DeliveryTally(list(CONSUMERS))
    screen = io.StringIO()
    console = Console(file=screen, width=80, force_terminal=True, no_color=True, _environ={"TERM": "xterm"})
    board = TrafficDisplay(tally, CONSUMERS, console)
    add(tally, 1_234_567, arrive=False)
    for found in tally.arrivals.values():
        found.add(0, 1)
        found.add(0, 0)
        found.add(0, 0)
    layout = initial(1, now_ms=0)
    for id in (0, 1, 2):
        layout = layout.split(SegmentId(id), now_ms=0)
    board.tree(branches(layout.merge((SegmentId(3), SegmentId(4)), now_ms=0).split(SegmentId(7), now_ms=0)))
    board.say("broker 4711 is back on the same directory; the start took 0.51 s", 0.0)
    plain = Console(file=io.StringIO(), width=80)
    plain.print(board.picture(1.0))
    assert isinstance(plain.file, io.StringIO)
    lines = plain.file.getvalue().splitlines()
    rows = {line.split()[1]: line.split()[2:-1] for line in lines if len(line.split()) > 5}
    assert rows["Exclusive"] == ["1", "2", "0/s", "1,234,565", "1", "1"]
    assert rows["Shared"] == ["3", "2", "0/s", "1,234,565", "1", "any", "order"]
    assert "4711" in plain.file.getvalue()
    tree = [line.split("│", 1)[1][1:23].rstrip() for line in lines if "#" in line]
    assert tree[:4] == ["#0 0000-ffff", "├─#1 0000-7fff", "│ ├─#3 0000-3fff", "│ │ └─#7 0000-7fff"]
    assert "└─#9 4000-7fff ●" in "\n".join(lines), "it takes messages"
    assert "└─#4 4000-7fff ⤴ #7" in "\n".join(lines), "a merge has two parents"
    assert len(lines) <= 24, "a small terminal"
    assert all(len(line) <= 80 for line in lines)
    assert all(line.endswith(("│", "╮", "╯")) for line in lines)


def test_bars_are_as_high_as_highest() -> None:
    rates = Rates(DeliveryTally([Kind.SHARED])).published
    assert bars(rates) == " " * HISTORY
    rates.extend([100.0, 50.0, 0.0])
    assert bars(rates)[-3:] == "█▄ "


def test_frame_keeps_its_width_and_has_clock() -> None:
    board = TrafficDisplay(DeliveryTally(list(CONSUMERS)), CONSUMERS, Console(file=io.StringIO(), width=100))
    widths = set()
    for number, step in enumerate(("short", "a step that takes many more words to say than the first one did"), 1):
        board.progress(number, 7)
        board.say(step, number * 10.0)
        plain = Console(file=io.StringIO(), width=100)
        plain.print(board.picture(20.0))
        assert isinstance(plain.file, io.StringIO)
        lines = plain.file.getvalue().splitlines()
        widths |= {len(line) for line in lines}
    assert widths == {100}
    assert "magnetar demo · 10 s · step 2 of 7" in lines[0]


def test_last_frame_stays_when_demo_ends() -> None:
    screen = io.StringIO()
    console = Console(file=screen, width=80, force_terminal=True, no_color=True, _environ={"TERM": "xterm"})
    with TrafficDisplay(DeliveryTally(list(CONSUMERS)), CONSUMERS, console) as board:
        board.say("every acknowledged message has arrived", 1.0)
    assert "every acknowledged message has arrived" in screen.getvalue()
    assert "\x1b[2K" not in screen.getvalue().rsplit("every acknowledged message has arrived", 1)[1], "not erased"
