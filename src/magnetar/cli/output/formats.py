"""Results as text for programs: JSON, JSON lines, YAML, CSV, names. A command supplies its tables, and documents from
REST as bytes or as values.

CSV follows RFC 4180: a header, one row per line, CRLF. Its values are exact: bytes, seconds, ISO-8601 in UTC, an empty
field for a missing value. It contains one table: the first table of the command, or the document itself if the command
has none.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from magnetar.base.errors import Misuse
from magnetar.cli.output import yaml
from magnetar.cli.output.values import Cell, exact, is_nothing


@dataclass(frozen=True, slots=True)
class TableData:
    """A table: its columns, its rows, and a heading for people. An `optional` column is hidden from people if all its
    cells are empty; a pipe always contains it.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    optional: frozenset[str] = frozenset()

    def telling(self) -> TableData:
        """The table without optional columns that are empty in every row."""
        kept = [
            place
            for place, name in enumerate(self.columns)
            if name not in self.optional or any(not is_nothing(row[place]) for row in self.rows)
        ]
        rows = [[row[place] for place in kept] for row in self.rows]
        return TableData([self.columns[place] for place in kept], rows, self.title)


@dataclass(frozen=True, slots=True)
class KeyValues:
    """The properties of one object, one name and value per line; `optional` as in a table."""

    values: dict[str, Cell] = field(default_factory=dict)
    title: str = ""
    optional: frozenset[str] = frozenset()

    def telling(self) -> KeyValues:
        kept = {
            name: value for name, value in self.values.items() if name not in self.optional or not is_nothing(value)
        }
        return KeyValues(kept, self.title)


Part = TableData | KeyValues


@dataclass(frozen=True, slots=True)
class Document:
    """One result in all its forms: the document, its tables, its rows for JSON lines if it is not a list, the table for
    CSV if it is not the first, the names if they are not its first column, and the broker's clock.
    """

    document: Any
    parts: tuple[Part, ...] = ()
    lines: Sequence[Any] | None = None
    names: Sequence[str] | None = None
    table: Part | None = None
    now_ms: int | None = None

    @property
    def main(self) -> Part | None:
        return self.table or (self.parts[0] if self.parts else None)


# JSON and YAML


def pretty(document: Any) -> str:
    return msgspec.json.format(_json(document), indent=2).decode()


def compact(document: Any) -> str:
    return msgspec.json.format(_json(document), indent=-1).decode()


def value_of(document: Any) -> Any:
    """The values of a JSON text."""
    return msgspec.json.decode(_json(document))


def lines_of(shown: Document) -> Iterator[str]:
    if shown.lines is not None:
        yield from (compact(line) for line in shown.lines)
        return
    value = value_of(shown.document) if isinstance(shown.document, bytes) else shown.document
    if isinstance(value, list):
        yield from (compact(line) for line in value)
    else:
        yield compact(shown.document)


def yaml_of(document: Any) -> str:
    return yaml.document(value_of(document))


# CSV


def csv_of(shown: Document) -> tuple[list[str], list[list[Any]]]:
    """The header and the rows."""
    part = shown.main
    if part is None:
        return _csv_of_document(value_of(shown.document))
    if isinstance(part, KeyValues):
        return [heading(name) for name in part.values], [[exact(cell) for cell in part.values.values()]]
    return [heading(name) for name in part.columns], [[exact(cell) for cell in row] for row in part.rows]


def csv_line(fields: Iterable[Any]) -> str:
    """One CSV line with its line ending."""
    text = io.StringIO()
    csv.writer(text).writerow([csv_value(one) for one in fields])
    return text.getvalue()


def csv_value(value: Any) -> Any:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case dict() | list():
            return compact(value)
        case _:
            return value


def heading(name: str) -> str:
    """The name of a column for programs."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _csv_of_document(value: Any) -> tuple[list[str], list[list[Any]]]:
    rows = value if isinstance(value, list) else [value]
    if not all(isinstance(row, dict) for row in rows):
        return ["value"], [[row] for row in rows]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    return columns, [[row.get(key) for key in columns] for row in rows]


# Names


def names_of(shown: Document) -> list[str]:
    if shown.names is not None:
        return list(shown.names)
    part = shown.main
    if part is None:
        return _names_of_document(value_of(shown.document))
    if isinstance(part, KeyValues):
        return [str(exact(cell)) for cell in list(part.values.values())[:1]]
    return [str(exact(row[0])) for row in part.rows]


def _names_of_document(value: Any) -> list[str]:
    """The items of a list, or the keys of an object."""
    items = list(value) if isinstance(value, list | Mapping) else [value]
    if any(isinstance(one, dict | list) or one is None for one in items):
        raise Misuse("this result has no names: use -o json")
    return [one if isinstance(one, str) else compact(one) for one in items]


def _json(document: Any) -> bytes:
    return document if isinstance(document, bytes) else msgspec.json.encode(document)
