"""One frame of a watched command, and where frames go: to a screen that is redrawn, or one after another to a pipe.

`WatchFrame` is the output that a command writes to; it keeps the result instead of writing it. On a terminal, a table
is drawn on a separate screen over the previous one, without clearing it first. The last frame stays visible at the end.
In a pipe, every frame is a document with its time by the broker's clock.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import IO, Any

import msgspec

from magnetar.cli.output import formats
from magnetar.cli.output.formats import Document, KeyValues, TableData
from magnetar.cli.output.output import Form, Output, Rows, paint, words
from magnetar.cli.output.values import harmless, iso

_ENTER = "\x1b[?1049h\x1b[?7l\x1b[?25l"  # alternate screen, no wrapping, no cursor
_LEAVE = "\x1b[?25h\x1b[?7h\x1b[?1049l"
_BEGIN, _END = "\x1b[?2026h\x1b[H", "\x1b[K\x1b[J\x1b[?2026l"  # one update, if the terminal supports it
_NEXT = "\x1b[K\r\n"


class WatchFrame(Output):
    """Keeps the result of one run."""

    def __init__(self, form: Form, *, terminal: bool) -> None:
        super().__init__(form, stream=io.StringIO())
        self.terminal = terminal
        self.shown: Document | None = None

    def tell(self, shown: Document) -> None:
        self.shown = shown

    def rows(
        self,
        word: Callable[[Any], str] = str,
        head: Callable[[Any], str] | None = None,
        *,
        name: Callable[[Any], str] | None = None,
        columns: Sequence[str] = ("value",),
    ) -> Rows:
        return FrameBuffer(self, word, head, name or word, columns)

    def raw(self, data: bytes) -> None:
        text = data.decode(errors="replace")
        self.tell(Document(text, (KeyValues({"answer": text.strip()}),)))


class FrameBuffer(Rows):
    """Collects rows into one result."""

    def __init__(
        self,
        look: WatchFrame,
        word: Callable[[Any], str],
        head: Callable[[Any], str] | None,
        name: Callable[[Any], str],
        columns: Sequence[str],
    ) -> None:
        self._look = look
        self._of = (word, head, name)
        self._keys = columns
        self._rows: list[Any] = []
        self.count = 0

    def add(self, row: Any) -> None:
        self._rows.append(row)
        self.count += 1

    def flush(self) -> None:
        """Writes nothing before the frame is complete."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            return
        word, head, name = self._of
        titles = [self._keys[0].upper()] if head is None else [self._keys[0].upper(), "MESSAGE"]
        people = TableData(titles, [(word(row),) if head is None else (head(row), word(row)) for row in self._rows])
        values = [[row.get(key) for key in self._keys] if isinstance(row, dict) else [row] for row in self._rows]
        names = [name(row) for row in self._rows]
        self._look.show(self._rows, people, names=names, table=TableData(self._keys, values))


class PipeOutput:
    """Writes frames to a pipe, one after another."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._headed = False
        self._names: frozenset[str] = frozenset()

    def show(self, look: WatchFrame) -> None:
        shown = look.shown or Document(None)
        at = None if look.now_ms is None else iso(look.now_ms)
        self._stream.write(self._text(look.form, at, shown))
        self._stream.flush()

    def note(self, text: str) -> None:
        sys.stderr.write(f"magnetar: {harmless(text)}\n")

    def close(self) -> None:
        self._stream.flush()

    def _text(self, form: Form, at: str | None, shown: Document) -> str:
        raw = msgspec.Raw(shown.document) if isinstance(shown.document, bytes) else shown.document
        envelope = {"at": at, "document": raw}
        match form:
            case "json":
                return formats.pretty(envelope) + "\n"
            case "jsonl":
                return formats.compact(envelope) + "\n"
            case "yaml":
                return "---\n" + formats.yaml_of(envelope)
            case "csv":
                return self._csv(at, shown)
            case "name":
                return self._new_names(shown)
            case "table":
                return "".join(f"{line}\n" for line in (f"# {at or '-'}", *words(shown.parts), ""))

    def _csv(self, at: str | None, shown: Document) -> str:
        header, rows = formats.csv_of(shown)
        lines = [formats.csv_line((at, *row)) for row in rows]
        if not self._headed:
            self._headed = True
            lines.insert(0, formats.csv_line(("at", *header)))
        return "".join(lines)

    def _new_names(self, shown: Document) -> str:
        """Names that the previous frame did not have: a reader of the pipe acts on each of them."""
        names = formats.names_of(shown)
        before, self._names = self._names, frozenset(names)
        return "".join(f"{name}\n" for name in names if name not in before)


class Screen:
    """Draws each frame over the previous one on a terminal."""

    def __init__(self, stream: IO[str], title: str, *, colors: bool) -> None:
        self._stream = stream
        self._title = title
        self._colors = colors
        self._last: WatchFrame | None = None
        self._note = ""
        self._entered = False

    def show(self, look: WatchFrame) -> None:
        self._last, self._note = look, ""
        self._draw()

    def note(self, text: str) -> None:
        """Shows a note under the last frame, which is out of date now. Also writes it to standard error if that is not
        this terminal.
        """
        self._note = text
        if not sys.stderr.isatty():
            sys.stderr.write(f"magnetar: {harmless(text)}\n")
        if self._entered:
            self._draw()

    def close(self) -> None:
        """Leaves the last frame on the terminal."""
        if self._entered:
            self._stream.write(_LEAVE)
            self._stream.write("\n".join(self._lines(self._last)) + "\n")
            self._stream.flush()

    def _draw(self) -> None:
        from rich.console import Console

        height = Console(file=self._stream).height
        lines = self._lines(self._last)
        if len(lines) > height:
            hidden = len(lines) - height + 1
            lines = [*lines[: height - 1], f"… {hidden} more lines: enlarge the window to see them"]
        enter = "" if self._entered else _ENTER
        self._entered = True
        self._stream.write(enter + _BEGIN + _NEXT.join(lines) + _END)
        self._stream.flush()

    def _lines(self, look: WatchFrame | None) -> list[str]:
        from rich.console import Console

        text = io.StringIO()
        width = Console(file=self._stream).width
        console = Console(
            file=text,
            width=width,
            force_terminal=True,
            no_color=not self._colors,
            highlight=False,
            legacy_windows=False,
        )
        at = "-" if look is None or look.now_ms is None else iso(look.now_ms)
        console.print(f"{self._title} · {at}", style="dim", markup=False, no_wrap=True, overflow="ellipsis")
        if self._note:
            console.print(harmless(self._note), style="bold red", markup=False, no_wrap=True, overflow="ellipsis")
        console.print()
        if look is not None and look.shown is not None and look.shown.parts:
            paint(console, look.shown)
        elif look is not None and look.shown is not None:
            console.print(harmless(formats.pretty(look.shown.document)), markup=False, soft_wrap=True)
        return text.getvalue().rstrip("\n").split("\n")
