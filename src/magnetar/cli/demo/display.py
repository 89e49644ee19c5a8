"""Shows the progress of the demo on standard error: rates, backlog and the current step.

A terminal gets one picture that is redrawn; a pipe gets a line per step and per second. It only reads the tally and has
no influence on the result.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from magnetar.cli.demo.delivery_check import DeliveryTally, Kind
from magnetar.testing.order import Arrival

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.panel import Panel
    from rich.table import Table

BARS = " ▁▂▃▄▅▆▇█"
WINDOW_S = 1.0  # period over which rates are measured
HISTORY = 40  # number of bars, so that the picture fits 80 columns
STEPS_SHOWN = 6
TREE_COLUMNS = 25  # width of the deepest branch of the demo's tree, so that the column beside it stays in place


class Display(Protocol):
    """Call `say` for each step, `draw` often, `tree` after a change of segments, and `progress` at the beginning of an
    act.
    """

    def say(self, step: str, now: float) -> None: ...

    def draw(self, now: float) -> None: ...

    def tree(self, branches: list[tuple[str, bool]]) -> None: ...

    def progress(self, act: int, acts: int) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Rates:
    """Turns counters of the tally into rates over the last second."""

    def __init__(self, tally: DeliveryTally) -> None:
        self._tally = tally
        self._read: deque[tuple[float, int, dict[Kind, int]]] = deque()
        self.published: deque[float] = deque([0.0] * HISTORY, maxlen=HISTORY)

    def read(self, now: float) -> tuple[float, dict[Kind, float]]:
        """Receipts per second, and arrivals per second by subscription, duplicates included."""
        tally = self._tally
        arrived = {kind: arrivals.total for kind, arrivals in tally.arrivals.items()}
        self._read.append((now, tally.acknowledged, arrived))
        while len(self._read) > 2 and self._read[1][0] <= now - WINDOW_S:
            self._read.popleft()
        then, acknowledged, before = self._read[0]
        past_s = max(now - then, 0.001)
        rate = (tally.acknowledged - acknowledged) / past_s
        return rate, {kind: (count - before[kind]) / past_s for kind, count in arrived.items()}


class NoDisplay:
    """Prints no progress: for users who want only the result."""

    def say(self, step: str, now: float) -> None: ...

    def draw(self, now: float) -> None: ...

    def tree(self, branches: list[tuple[str, bool]]) -> None: ...

    def progress(self, act: int, acts: int) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class LineDisplay(NoDisplay):
    """For a pipe: one line per step."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._told = 0.0

    def say(self, step: str, now: float) -> None:
        if self._began is None:
            self._began = self._told = now
        sys.stderr.write(f"{now - self._began:5.1f} s  {step}\n")
        sys.stderr.flush()


class Steps(LineDisplay):
    """For a pipe: one line per step and one per second."""

    def __init__(self, tally: DeliveryTally) -> None:
        super().__init__()
        self._tally = tally
        self._rates = Rates(tally)

    def draw(self, now: float) -> None:
        published, arriving = self._rates.read(now)
        if now - self._told < WINDOW_S:
            return
        self._told = now
        behind = max(self._tally.backlog(kind) for kind in self._tally.arrivals)
        self.say(
            f"{self._tally.acknowledged} acknowledged, {published:.0f}/s in, {sum(arriving.values()):.0f}/s out, "
            f"backlog {behind}",
            now,
        )


class TerminalDisplay(ABC):
    """For a terminal: one picture that is redrawn, with the segments and the latest steps below."""

    name = "magnetar demo"
    tree_columns = TREE_COLUMNS

    def __init__(self, console: Console) -> None:
        from rich.live import Live

        self._steps: deque[tuple[float, str]] = deque(maxlen=STEPS_SHOWN)
        self._began: float | None = None
        self._bar_at = 0.0
        self._branches: list[tuple[str, bool]] = []
        self._act = (0, 0)
        # The last picture stays on the screen above the result.
        self._live: Live = Live(console=console, auto_refresh=False, redirect_stderr=False)

    @abstractmethod
    def picture(self, now: float) -> Any:
        """The current content of the picture."""

    def say(self, step: str, now: float) -> None:
        if self._began is None:
            self._began = now
        self._steps.append((now - self._began, step))
        self.draw(now)

    def draw(self, now: float) -> None:
        self._live.update(self.picture(now), refresh=True)

    def tree(self, branches: list[tuple[str, bool]]) -> None:
        self._branches = branches

    def progress(self, act: int, acts: int) -> None:
        self._act = (act, acts)

    def framed(self, now: float, *parts: RenderableType) -> Panel:
        """A panel as wide as the window, so that its width does not change. Its title shows a clock."""
        from rich.console import Group
        from rich.panel import Panel

        act, acts = self._act
        seconds = 0.0 if self._began is None else now - self._began
        step = f" · step {act} of {acts}" if acts else ""
        return Panel(Group(*parts), title=f"{self.name} · {seconds:.0f} s{step}", title_align="left", expand=True)

    def below(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        segments = Text("\n").join(
            Text.assemble((words, "bold cyan" if active else "dim"), (" ●" if active else "", "green"))
            for words, active in self._branches
        )
        steps = Table.grid(padding=(0, 2, 0, 0))
        steps.add_column(justify="right", no_wrap=True, style="dim")
        steps.add_column()
        for number, (at, step) in enumerate(self._steps):
            steps.add_row(f"{at:.1f} s", Text(step, style="bold" if number == len(self._steps) - 1 else ""))
        below = Table.grid(padding=(0, 3, 0, 0))
        below.add_column(no_wrap=True, min_width=self.tree_columns)
        below.add_column()
        below.add_row(Text("SEGMENTS", style="bold"), Text("STEPS", style="bold"))
        below.add_row(segments, steps)
        return below

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()


class TrafficDisplay(TerminalDisplay):
    def __init__(self, tally: DeliveryTally, consumers: dict[Kind, int], console: Console) -> None:
        super().__init__(console)
        self._tally = tally
        self._consumers = consumers
        self._rates = Rates(tally)

    def picture(self, now: float) -> Any:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        tally = self._tally
        published, arriving = self._rates.read(now)
        if now - self._bar_at >= 0.25:
            self._bar_at = now
            self._rates.published.append(published)
        head = Text.assemble(
            ("published ", "dim"), (f"{tally.acknowledged:>8,}", "bold"), (f"  {published:>8,.0f}/s  ", "cyan"),
            (bars(self._rates.published), "cyan"),
        )  # fmt: skip
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
        table.add_column("SUBSCRIPTION", no_wrap=True)
        for name in ("CONSUMERS", "ARRIVED", "RATE", "BACKLOG", "AGAIN", "DISORDERED"):
            table.add_column(name, justify="right", no_wrap=True)
        for kind, arrivals in tally.arrivals.items():
            behind = tally.backlog(kind)
            wrong = arrivals.counts[Arrival.DISORDERED] if kind.ordered else 0
            again = arrivals.counts[Arrival.REPEATED]
            table.add_row(
                kind.value,
                str(self._consumers[kind]),
                f"{arrivals.distinct:,}",
                Text(f"{arriving[kind]:,.0f}/s", style="cyan"),
                Text(f"{behind:,}", style="bold yellow" if behind else "green"),
                Text(f"{again:,}", style="yellow" if again else "dim"),
                Text(f"{wrong:,}" if kind.ordered else "any order", style="bold red" if wrong else "dim"),
            )
        return self.framed(now, head, Text(), table, Text(), self.below())


def bars(values: deque[float]) -> str:
    """A row of bars, scaled to the highest value."""
    top = max(values, default=0.0)
    if top <= 0:
        return " " * len(values)
    return "".join(BARS[min(len(BARS) - 1, int(value / top * (len(BARS) - 1) + 0.5))] for value in values)
