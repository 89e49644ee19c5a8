"""Standard output, in the form that was asked for. Standard error is not here: that is for people alone.

`json` is the document REST returned, `jsonl` the same cut into lines, `table` a table on a terminal and plain aligned
words in a pipe: no frames, no colours, no rounding. rich is loaded for a terminal only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Literal, Self

import msgspec

from magnetar.cli.cells import Cell, Lag, harmless, is_nothing, is_number, people, plain

if TYPE_CHECKING:
    from rich.console import Console

Form = Literal["table", "json", "jsonl"]
GAP = "  "


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table: its columns, its rows, a line above it for people. A column that is `optional` is left out for people
    where it says nothing; a pipe always has all of them.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    optional: frozenset[str] = frozenset()

    def telling(self) -> Sheet:
        """Without optional columns that are empty in every row."""
        kept = [
            place
            for place, name in enumerate(self.columns)
            if name not in self.optional or any(not is_nothing(row[place]) for row in self.rows)
        ]
        rows = [[row[place] for place in kept] for row in self.rows]
        return Sheet([self.columns[place] for place in kept], rows, self.title)


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one thing: a name and a value a line; `optional` as in a table."""

    values: dict[str, Cell] = field(default_factory=dict)
    title: str = ""
    optional: frozenset[str] = frozenset()

    def telling(self) -> Facts:
        kept = {
            name: value for name, value in self.values.items() if name not in self.optional or not is_nothing(value)
        }
        return Facts(kept, self.title)


class Output:
    def __init__(self, form: Form, *, colors: bool = True, stream: IO[str] | None = None) -> None:
        self.form = form
        self._stream = sys.stdout if stream is None else stream
        self._colors = colors
        self.terminal = self._stream.isatty()

    def show(
        self, document: Any, *parts: Sheet | Facts, lines: Iterable[Any] | None = None, now_ms: int | None = None
    ) -> None:
        """`document` is JSON as bytes, or what becomes JSON; `lines` are its rows for jsonl where it is no list."""
        match self.form:
            case "json":
                self._write(_pretty(document))
            case "jsonl":
                for line in _lines(document) if lines is None else lines:
                    self._write(_compact(line))
            case "table":
                self._table(parts, now_ms)

    def rows(self, word: Callable[[Any], str] = str, head: Callable[[Any], str] | None = None) -> Rows:
        """For what comes one by one: `word` is a row in a pipe, `head` stands before it on a terminal."""
        return Rows(self, word, head)

    def stream(self, rows: Iterable[Any]) -> None:
        """Rows as they come, never all in memory."""
        with self.rows() as told:
            for row in rows:
                told.add(row)

    def raw(self, data: bytes) -> None:
        """Bytes as they are."""
        self._stream.flush()
        below = getattr(self._stream, "buffer", None)
        if below is None:
            self._stream.write(data.decode(errors="replace"))
            return
        below.write(data)
        below.flush()

    def flush(self) -> None:
        self._stream.flush()

    def _write(self, line: str) -> None:
        self._stream.write(line + "\n")

    def _console(self) -> Console:
        from rich.console import Console

        return Console(file=self._stream, no_color=not self._colors, highlight=False)

    def _table(self, parts: Sequence[Sheet | Facts], now_ms: int | None) -> None:
        if self.terminal:
            self._rich(parts, now_ms)
            return
        for number, part in enumerate(parts):
            if number:
                self._write("")
            for line in aligned(part):
                self._write(line)

    def _rich(self, parts: Sequence[Sheet | Facts], now_ms: int | None) -> None:
        console = self._console()
        for number, part in enumerate(parts):
            if number:
                console.print()
            if part.title:
                console.print(harmless(part.title), style="bold", soft_wrap=True, markup=False)
            console.print(drawn(part.telling(), now_ms))


class Rows:
    """Rows as they come: a JSON list, JSON lines, or words. What was told is on its way before the next one comes."""

    def __init__(self, output: Output, word: Callable[[Any], str], head: Callable[[Any], str] | None) -> None:
        self._output = output
        self._word = word
        self._head = head
        self._console = output._console() if head is not None and output.terminal else None
        self.count = 0

    def add(self, row: Any) -> None:
        stream = self._output._stream
        if self._output.form == "json":
            stream.write(("[\n  " if not self.count else ",\n  ") + _compact(row))
        elif self._output.form == "jsonl":
            stream.write(_compact(row) + "\n")
        elif self._console is not None and self._head is not None:
            from rich.text import Text

            head, word = harmless(self._head(row)), harmless(self._word(row))
            self._console.print(Text.assemble((head, "dim"), "  ", word), soft_wrap=True)
        else:
            word = self._word(row)
            stream.write((harmless(word) if self._output.terminal else word) + "\n")
        self.count += 1

    def flush(self) -> None:
        self._output.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._output.form == "json" and (error is None or self.count):
            self._output._write("\n]" if self.count else "[]")
        self._output.flush()


def aligned(part: Sheet | Facts) -> Iterator[str]:
    """Plain text: columns padded, numbers to the right, no blanks at the end of a line."""
    if isinstance(part, Facts):
        width = max((len(name) for name in part.values), default=0)
        for name, value in part.values.items():
            yield f"{name:<{width}}{GAP}{plain(value)}".rstrip()
        return
    rows = [list(part.columns), *[[plain(cell) for cell in row] for row in part.rows]]
    right = _right(part)
    widths = [max(len(row[place]) for row in rows) for place in range(len(part.columns))]
    for row in rows:
        cells = zip(row, widths, right, strict=True)
        yield GAP.join(cell.rjust(width) if to_right else cell.ljust(width) for cell, width, to_right in cells).rstrip()


def drawn(part: Sheet | Facts, now_ms: int | None) -> Any:
    """A rich table."""
    from rich import box
    from rich.table import Table

    if isinstance(part, Facts):
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in part.values.items():
            table.add_row(name, _text(value, now_ms))
        return table
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for place, (name, to_right) in enumerate(zip(part.columns, _right(part), strict=True)):
        table.add_column(name, justify="right" if to_right else "left", no_wrap=place > 0 or to_right, overflow="fold")
    for row in part.rows:
        table.add_row(*[_text(cell, now_ms) for cell in row])
    return table


def _text(cell: Cell, now_ms: int | None) -> Any:
    from rich.text import Text

    style = ""
    if isinstance(cell, Lag):
        style = "bold yellow" if cell.messages else "green"
    elif is_nothing(cell):
        style = "dim"
    return Text(people(cell, now_ms), style=style)


def _right(part: Sheet) -> list[bool]:
    """A column is to the right if anything in it is a number, and nothing is words."""
    found = []
    for place in range(len(part.columns)):
        cells = [row[place] for row in part.rows if row[place] is not None]
        found.append(bool(cells) and all(is_number(cell) for cell in cells))
    return found


def _pretty(document: Any) -> str:
    return msgspec.json.format(_json(document), indent=2).decode()


def _compact(document: Any) -> str:
    return msgspec.json.format(_json(document), indent=-1).decode()


def _json(document: Any) -> bytes:
    return document if isinstance(document, bytes) else msgspec.json.encode(document)


def _lines(document: Any) -> Iterator[Any]:
    value = msgspec.json.decode(document) if isinstance(document, bytes) else document
    if isinstance(value, list):
        yield from value
    else:
        yield document
