"""Shows the progress of the demo's pipeline on standard error: the number of orders at each stage, and the segments.

A terminal gets one picture that is redrawn; a pipe gets a line per step and one every few seconds. It only reads
`Counts` and has no influence on the result.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from magnetar.cli.demo.display import LineDisplay, TerminalDisplay, bars

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WINDOW_S = 3.0  # a batch takes about a second: rates over a shorter period fluctuate
LINE_S = 3.0  # interval of lines in a pipe
HISTORY = 40
BAR_S = 0.5
TREE_COLUMNS = 27
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
SPIN_S = 0.125
STATES = {"starting": "yellow", "running": "green", "killed": "bold red", "done": "dim"}


@dataclass(slots=True)
class Counts:
    """Known row counts: acknowledged, in the other topic, and in committed files."""

    published: int = 0
    written: int = 0
    stored: int = 0
    broker: str = "starting"
    query: str = "starting"
    batches: dict[str, int] = field(default_factory=dict)


class Rate:
    """Turns a counter into a rate over the last seconds."""

    def __init__(self) -> None:
        self._read: deque[tuple[float, int]] = deque()

    def read(self, now: float, count: int) -> float:
        self._read.append((now, count))
        while len(self._read) > 2 and self._read[1][0] <= now - WINDOW_S:
            self._read.popleft()
        then, before = self._read[0]
        return (count - before) / max(now - then, 0.001)


class Lines(LineDisplay):
    """For a pipe: one line per step and one every few seconds."""

    def __init__(self, counts: Counts) -> None:
        super().__init__()
        self._counts = counts

    def draw(self, now: float) -> None:
        if now - self._told < LINE_S:
            return
        self._told = now
        counts = self._counts
        self.say(
            f"{counts.published} orders acknowledged, {counts.written} in the topic, {counts.stored} in Parquet; "
            f"query {counts.query}, broker {counts.broker}",
            now,
        )


class Screen(TerminalDisplay):
    name = "magnetar demo --spark"
    tree_columns = TREE_COLUMNS

    def __init__(self, counts: Counts, console: Console) -> None:
        super().__init__(console)
        self._counts = counts
        self._rates = {name: Rate() for name in ("published", "written", "stored")}
        self._bars: deque[float] = deque([0.0] * HISTORY, maxlen=HISTORY)

    def picture(self, now: float) -> Any:
        from rich.text import Text

        counts = self._counts
        rates = {name: rate.read(now, getattr(counts, name)) for name, rate in self._rates.items()}
        if now - self._bar_at >= BAR_S:
            self._bar_at = now
            self._bars.append(rates["written"])
        head = Text.assemble(
            ("broker ", "dim"), (f"{counts.broker:<10}", STATES.get(counts.broker, "")),
            ("query ", "dim"), (f"{counts.query:<10}", STATES.get(counts.query, "")),
            (bars(self._bars), "cyan"),
        )  # fmt: skip
        waiting = Text(self._waiting(now, rates["written"]), style="yellow")
        return self.framed(now, head, waiting, self._places(rates), Text(), self.below())

    def _waiting(self, now: float, rate: float) -> str:
        """Explains why the table does not change yet."""
        counts = self._counts
        spin = SPINNER[int(now / SPIN_S) % len(SPINNER)]
        if counts.query == "starting":
            return f"{spin} Spark starts: a JVM and Python workers, usually 20 to 40 s; orders wait in the topic"
        if counts.query == "running" and not rate and counts.written < counts.published:
            return f"{spin} Spark runs and processes its first batch"
        return ""

    def _places(self, rates: dict[str, float]) -> Table:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        counts = self._counts
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
        table.add_column("ORDERS", no_wrap=True, min_width=26)
        for name in ("ROWS", "RATE", "BEHIND", "BATCH"):
            table.add_column(name, justify="right", no_wrap=True, min_width=9)
        rows = (
            ("acknowledged to producers", "published", None),
            ("in the other topic", "written", "taxes"),
            ("in Parquet", "stored", "files"),
        )
        for words, name, query in rows:
            count = getattr(counts, name)
            behind = max(0, counts.published - count)
            table.add_row(
                words,
                f"{count:,}",
                Text(f"{rates[name]:,.0f}/s", style="cyan"),
                "" if query is None else Text(f"{behind:,}", style="yellow" if behind else "green"),
                "" if query is None else str(counts.batches.get(query, "-")),
            )
        return table
