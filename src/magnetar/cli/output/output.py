"""Standard output, in the requested form. This module never writes to standard error, which is for people only.

`table` is a table on a terminal and plain aligned words in a pipe: no frames, no colours, no rounding. `formats` has
the other forms. rich is loaded only for a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Literal, Self

from magnetar.cli.output import formats
from magnetar.cli.output.formats import Document, KeyValues, Part, TableData
from magnetar.cli.output.tables import drawn, right_columns
from magnetar.cli.output.values import harmless, plain

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Form", "KeyValues", "Output", "Rows", "TableData", "aligned"]

Form = Literal["table", "json", "jsonl", "yaml", "csv", "name"]
GAP = "  "


class Output:
    def __init__(self, form: Form, *, colors: bool = True, stream: IO[str] | None = None) -> None:
        self.form = form
        self._stream = sys.stdout if stream is None else stream
        self._colors = colors
        self.terminal = self._stream.isatty()
        self.now_ms: int | None = None  # time of the broker's clock, after its first answer

    def show(
        self,
        document: Any,
        *parts: Part,
        lines: Iterable[Any] | None = None,
        names: Sequence[str] | None = None,
        table: Part | None = None,
    ) -> None:
        """`document` is JSON as bytes, or a value to encode as JSON. `lines` are its rows for jsonl if it is not a
        list. `table` is the table for CSV if it is not the first one. `names` replaces the first column for -o name.
        """
        rows = None if lines is None else list(lines)
        self.tell(Document(document, parts, lines=rows, names=names, table=table, now_ms=self.now_ms))

    def tell(self, shown: Document) -> None:
        match self.form:
            case "json":
                self._write(formats.pretty(shown.document))
            case "jsonl":
                for line in formats.lines_of(shown):
                    self._write(line)
            case "yaml":
                self._stream.write(formats.yaml_of(shown.document))
            case "csv":
                header, rows = formats.csv_of(shown)
                for row in (header, *rows):
                    self._csv(row)
            case "name":
                for name in formats.names_of(shown):
                    self._say(name)
            case "table":
                self._table(shown)

    def rows(
        self,
        word: Callable[[Any], str] = str,
        head: Callable[[Any], str] | None = None,
        *,
        name: Callable[[Any], str] | None = None,
        columns: Sequence[str] = ("value",),
    ) -> Rows:
        """For rows that arrive one by one. `word` formats a row for a pipe, and `head` formats its prefix on a
        terminal. `name` gives its name. `columns` are the header of CSV and the keys of a row that is an object.
        """
        return Rows(self, word, head, name or word, columns)

    def stream(self, rows: Iterable[Any], column: str) -> None:
        """Writes rows as they arrive, never all in memory."""
        with self.rows(columns=(column,)) as stream_rows:
            for row in rows:
                stream_rows.add(row)

    def raw(self, data: bytes) -> None:
        """Writes bytes unchanged."""
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

    def _say(self, line: str) -> None:
        """Writes untrusted text."""
        self._write(harmless(line) if self.terminal else line)

    def _csv(self, fields: Iterable[Any]) -> None:
        line = formats.csv_line(fields)
        self._stream.write(harmless(line.removesuffix("\r\n")) + "\r\n" if self.terminal else line)

    def _console(self) -> Console:
        from rich.console import Console

        return Console(file=self._stream, no_color=not self._colors, highlight=False)

    def _table(self, shown: Document) -> None:
        if self.terminal:
            paint(self._console(), shown)
            return
        for line in words(shown.parts):
            self._write(line)


class Rows:
    """Rows as they arrive: a list, lines, or words. Each row is flushed before the next one arrives."""

    def __init__(
        self,
        output: Output,
        word: Callable[[Any], str],
        head: Callable[[Any], str] | None,
        name: Callable[[Any], str],
        columns: Sequence[str],
    ) -> None:
        self._output = output
        self._word = word
        self._head = head
        self._name = name
        self._columns = columns
        self._console = output._console() if head is not None and output.terminal else None
        self.count = 0

    def add(self, row: Any) -> None:
        stream = self._output._stream
        match self._output.form:
            case "json":
                stream.write(("[\n  " if not self.count else ",\n  ") + formats.compact(row))
            case "jsonl":
                stream.write(formats.compact(row) + "\n")
            case "yaml":
                stream.write(formats.yaml_of([row]))
            case "csv":
                if not self.count:
                    self._output._csv(self._columns)
                self._output._csv([row.get(key) for key in self._columns] if isinstance(row, dict) else [row])
            case "name":
                self._output._say(self._name(row))
            case "table":
                self._say(row)
        self.count += 1

    def _say(self, row: Any) -> None:
        if self._console is not None and self._head is not None:
            from rich.text import Text

            head, word = harmless(self._head(row)), harmless(self._word(row))
            self._console.print(Text.assemble((head, "dim"), "  ", word), soft_wrap=True)
        else:
            self._output._say(self._word(row))

    def flush(self) -> None:
        self._output.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or self.count:
            self._end()
        self._output.flush()

    def _end(self) -> None:
        """Closes an empty list too; a CSV table without rows has its header."""
        match self._output.form:
            case "json":
                self._output._write("\n]" if self.count else "[]")
            case "yaml" if not self.count:
                self._output._write("[]")
            case "csv" if not self.count:
                self._output._csv(self._columns)


def words(parts: Sequence[Part]) -> Iterator[str]:
    """Tables as plain aligned text, with an empty line between them."""
    for number, part in enumerate(parts):
        if number:
            yield ""
        yield from aligned(part)


def aligned(part: Part) -> Iterator[str]:
    """Plain text: padded columns, numbers aligned to the right, no trailing blanks."""
    if isinstance(part, KeyValues):
        width = max((len(name) for name in part.values), default=0)
        for name, value in part.values.items():
            yield f"{name:<{width}}{GAP}{plain(value)}".rstrip()
        return
    rows = [list(part.columns), *[[plain(cell) for cell in row] for row in part.rows]]
    right = right_columns(part)
    widths = [max(len(row[index]) for row in rows) for index in range(len(part.columns))]
    for row in rows:
        cells = zip(row, widths, right, strict=True)
        yield GAP.join(cell.rjust(width) if to_right else cell.ljust(width) for cell, width, to_right in cells).rstrip()


def paint(console: Console, shown: Document) -> None:
    """Prints tables on a terminal."""
    for number, part in enumerate(shown.parts):
        if number:
            console.print()
        if part.title:
            console.print(harmless(part.title), style="bold", soft_wrap=True, markup=False)
        for line in drawn(part, shown.now_ms, console.width):
            console.print(line)
