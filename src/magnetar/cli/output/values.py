"""Values of a table: rounded and relative for people, exact and absolute in a pipe.

A command states the kind of a value (a size, a rate, a moment) and never its format. Moments are relative to the
broker's clock, because the broker set their timestamps.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_AGES = ((1, "s"), (60, "min"), (3600, "h"), (86400, "d"))


@dataclass(frozen=True, slots=True)
class Size:
    bytes: float


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate per second, of messages, or of bytes with `size`."""

    per_s: float
    size: bool = False


@dataclass(frozen=True, slots=True)
class Moment:
    """Milliseconds since 1970; 0 means never."""

    ms: int


@dataclass(frozen=True, slots=True)
class Duration:
    s: float


@dataclass(frozen=True, slots=True)
class Lag:
    """Unacknowledged messages: the number that users look for first."""

    messages: int


Cell = str | int | float | bool | Size | Rate | Moment | Duration | Lag | None


def is_number(cell: Cell) -> bool:
    return isinstance(cell, int | float | Size | Rate | Duration | Lag) and not isinstance(cell, bool)


def is_nothing(cell: Cell) -> bool:
    """Whether the value is unset, never, or zero."""
    match cell:
        case Size() | Rate() | Duration() | Moment():
            return cell in (Size(0), Rate(0), Rate(0, size=True), Duration(0), Moment(0))
        case Lag() | bool():
            return False
        case _:
            return not cell


def plain(cell: Cell) -> str:
    """For programs: one exact word per value."""
    match cell:
        case None | "":
            return "-"
        case bool():
            return "yes" if cell else "no"
        case float() | Rate() | Duration():
            value = cell if isinstance(cell, float) else cell.per_s if isinstance(cell, Rate) else cell.s
            return f"{value:.3f}".rstrip("0").rstrip(".")
        case Size():
            return str(int(cell.bytes))
        case Lag():
            return str(cell.messages)
        case Moment():
            return iso(cell.ms) if cell.ms else "-"
        case _:
            return str(cell)


def exact(cell: Cell) -> str | int | float | bool | None:
    """For programs that read values rather than words: bytes, seconds, ISO-8601; None for a missing value."""
    match cell:
        case Size():
            return int(cell.bytes) if cell.bytes % 1 == 0 else cell.bytes
        case Rate():
            return cell.per_s
        case Duration():
            return cell.s
        case Lag():
            return cell.messages
        case Moment():
            return iso(cell.ms) if cell.ms else None
        case _:
            return cell


def people(cell: Cell, now_ms: int | None = None) -> str:
    """For people: about three digits, and relative times."""
    match cell:
        case bool() | str() | None:
            return "–" if cell in (None, "") else harmless(plain(cell))
        case int():
            return f"{cell:,}"
        case Lag():
            return f"{cell.messages:,}"
        case float():
            return f"{cell:,.1f}"
        case Size():
            return size(cell.bytes)
        case Rate():
            return f"{size(cell.per_s) if cell.size else thousands(cell.per_s)}/s"
        case Duration():
            return age(cell.s)
        case Moment():
            if not cell.ms:
                return "never"
            return iso(cell.ms) if now_ms is None else f"{age(max(0, now_ms - cell.ms) / 1000)} ago"


def harmless(text: str) -> str:
    """For a terminal: untrusted names and messages must not move the cursor or change the direction of text."""
    if text.isprintable():
        return text
    return "".join(one if one in "\n\t" or not _is_control(one) else repr(one)[1:-1] for one in text)


def size(count: float) -> str:
    for unit in _SIZES[:-1]:
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{_three(count)} {unit}"
        count /= 1024
    return f"{_three(count)} {_SIZES[-1]}"


def thousands(count: float) -> str:
    for unit in ("", "k", "M"):
        if abs(count) < 1000:
            return f"{_three(count)}{unit}" if unit or count % 1 else f"{count:.0f}"
        count /= 1000
    return f"{_three(count)}G"


def age(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds else "0 s"
    length, unit = max((pair for pair in _AGES if pair[0] <= seconds), default=_AGES[0])
    return f"{seconds / length:.0f} {unit}"


def iso(ms: int) -> str:
    try:
        when = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return str(ms)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment(text: str | None) -> Moment:
    """Parses ISO-8601 from statistics."""
    if not text:
        return Moment(0)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return Moment(0)
    when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return Moment(round((when - _EPOCH) / timedelta(milliseconds=1)))


def pairs(values: Mapping[str, str]) -> str | None:
    """Properties in one line."""
    return ", ".join(f"{key}={value}" for key, value in sorted(values.items())) or None


def _is_control(letter: str) -> bool:
    return unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp") and letter != "\u200d"  # U+200D joins emoji


def _three(count: float) -> str:
    return f"{count:.1f}" if abs(count) < 100 else f"{count:.0f}"
