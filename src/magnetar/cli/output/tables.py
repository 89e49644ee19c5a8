"""Tables for a terminal of a given width. Names and numbers are never truncated.

Long texts become narrower first, the widest before the others, and break at separators. Then optional columns are
dropped, the last one first, and a line names them. A table that still does not fit is shown row by row, one name and
value per line. The layout is computed on plain values; rich only draws it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from magnetar.cli.output.formats import KeyValues, Part, TableData
from magnetar.cli.output.values import Cell, Lag, is_nothing, is_number, people

if TYPE_CHECKING:
    from rich.console import RenderableType

GAP = 2  # between columns
TEXT_LEAST = 16  # a narrower text would break at every separator
FACT_LEAST = 8  # minimum width of a value beside its name, even in a narrow window
JOINTS = "/-_.:,;=& "
# Fixed colours of the 256: colours of a theme may be unreadable on white or on black.
WAITING, NONE_WAITING = "bold color(166)", "color(28)"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    natural: int  # width of its widest cell or its heading
    least: int  # minimum width
    optional: bool = False


def fit(columns: Sequence[Column], room: int) -> list[int] | None:
    """The width of each column; None if they do not fit even at minimum width."""
    widths = [column.natural for column in columns]
    excess = sum(widths) + GAP * (len(widths) - 1) - room
    if sum(column.natural - column.least for column in columns) < excess:
        return None
    while excess > 0:
        spare = [width - column.least for width, column in zip(widths, columns, strict=True)]
        widest = max((place for place, left in enumerate(spare) if left), key=lambda place: (widths[place], -place))
        widths[widest] -= 1
        excess -= 1
    return widths


def chosen(columns: Sequence[Column], room: int) -> tuple[list[int], list[int]] | None:
    """The shown columns and their widths; None if the required columns do not fit."""
    kept = list(range(len(columns)))
    while (widths := fit([columns[place] for place in kept], room)) is None:
        optional = [place for place in kept if columns[place].optional]
        if not optional:
            return None
        kept.remove(optional[-1])
    return kept, widths


def broken(text: str, width: int) -> str:
    """Lines of at most this width, each as long as possible. A line ends after a separator, or inside a word that is
    too long.
    """
    lines = []
    for line in text.split("\n"):
        left = line
        while len(left) > width:
            place = max(left.rfind(joint, width // 2, width) for joint in JOINTS) + 1 or width
            lines.append(left[:place].rstrip(" "))
            left = left[place:]
        lines.append(left)
    return "\n".join(lines)


def drawn(part: Part, now_ms: int | None, room: int) -> Iterable[RenderableType]:
    """The renderables of rich, one below another."""
    if isinstance(part, KeyValues):
        yield _facts(part.telling().values, now_ms, room)
        return
    shown = part.telling()
    columns = [_column(shown, index, now_ms, part.optional) for index in range(len(shown.columns))]
    layout = chosen(columns, room)
    if layout is None:
        yield from _records(shown, now_ms, room)
        return
    kept, widths = layout
    yield _table(shown, kept, widths, now_ms)
    if not shown.rows:
        yield _dim("none")
    left_out = [column.name for index, column in enumerate(columns) if index not in kept]
    if left_out:
        yield _dim(broken(f"columns not shown: {', '.join(left_out)} (use a wider window or -o csv)", room))


def _column(part: TableData, place: int, now_ms: int | None, optional: frozenset[str]) -> Column:
    name = part.columns[place]
    cells = [people(row[place], now_ms) for row in part.rows]
    natural = max([len(name), *[len(line) for cell in cells for line in cell.split("\n")]])
    is_text = any(isinstance(row[place], str) for row in part.rows)
    least = min(natural, max(TEXT_LEAST, len(name))) if is_text else natural
    return Column(name, natural, least, name in optional)


def _table(sheet: TableData, kept: Sequence[int], widths: Sequence[int], now_ms: int | None) -> RenderableType:
    from rich import box
    from rich.table import Table

    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        header_style="bold",
        show_edge=False,
        collapse_padding=True,
        padding=(0, 1, 0, 0),
    )
    right = right_columns(sheet)
    for place, width in zip(kept, widths, strict=True):
        justify: Any = "right" if right[place] else "left"
        table.add_column(sheet.columns[place], justify=justify, no_wrap=True, min_width=width, max_width=width)
    for row in sheet.rows:
        table.add_row(*[_text(row[place], now_ms, width) for place, width in zip(kept, widths, strict=True)])
    return table


def _facts(values: dict[str, Cell], now_ms: int | None, room: int) -> RenderableType:
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, GAP, 0, 0), pad_edge=False)
    names = max((len(name) for name in values), default=0)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(no_wrap=True)
    for name, value in values.items():
        table.add_row(name, _text(value, now_ms, max(FACT_LEAST, room - names - GAP)))
    return table


def _records(sheet: TableData, now_ms: int | None, room: int) -> Iterable[RenderableType]:
    """Shows the table row by row."""
    for number, row in enumerate(sheet.rows):
        if number:
            yield ""
        yield _facts(dict(zip((name.lower() for name in sheet.columns), row, strict=True)), now_ms, room)


def _text(cell: Cell, now_ms: int | None, width: int) -> Any:
    from rich.text import Text

    style = ""
    if isinstance(cell, Lag):
        style = WAITING if cell.messages else NONE_WAITING
    elif is_nothing(cell):
        style = "dim"
    return Text(broken(people(cell, now_ms), width), style=style, no_wrap=True)


def _dim(text: str) -> Any:
    from rich.text import Text

    return Text(text, style="dim")


def right_columns(part: TableData) -> list[bool]:
    """A column is aligned to the right if it contains a number and no words."""
    columns = []
    for index in range(len(part.columns)):
        cells = [row[index] for row in part.rows if row[index] is not None]
        columns.append(bool(cells) and all(is_number(cell) for cell in cells))
    return columns
