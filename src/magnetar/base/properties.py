"""Java's .properties, the form of broker.conf, standalone.conf and client.conf: one `key=value` a line.

Comments begin with `#` or `!`. A backslash at the end of a line continues it. `=`, `:` or blanks end the key. `\\t`,
`\\n`, `\\r`, `\\f` and `\\uXXXX` are escapes; any other escaped character is itself. Blanks at the end of a value are
part of it, as in Java. The parser accepts any text except a `\\u` without four hex digits. Errors never contain a
value, because a value may be a secret.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from magnetar.base.errors import Misuse

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Entry(NamedTuple):
    key: str
    value: str
    line: int  # where the entry begins

    def __repr__(self) -> str:
        """Without the value: it may be a token."""
        return f"<Entry {self.key} in line {self.line}>"


def entries(text: str) -> list[Entry]:
    """Every entry in the order of the file."""
    entries = []
    for number, line in _logical(text):
        key, value = _split(line)
        entries.append(Entry(_unescaped(key, number), _unescaped(value, number), number))
    return entries


def parse(text: str) -> dict[str, str]:
    """The value of each key. If a key occurs twice, its last value counts."""
    return {entry.key: entry.value for entry in entries(text)}


def escaped(key: str, value: str) -> str:
    """One line that `parse` reads back."""
    return f"{_escaped(key, key=True)}={_escaped(value, key=False)}"


def _logical(text: str) -> Iterator[tuple[int, str]]:
    """Lines with continuations joined, without comments and blank lines; each with the number of its first line."""
    pending: str | None = None
    start = 0
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, raw in enumerate(lines, start=1):
        line = raw.lstrip(_BLANKS)
        if pending is None:
            if not line or line[0] in "#!":
                continue
            pending, start = "", number
        pending += line
        if (len(pending) - len(pending.rstrip("\\"))) % 2 == 1 and number < len(lines):
            pending = pending[:-1]
            continue
        yield start, pending
        pending = None
    if pending is not None:
        yield start, pending


def _split(line: str) -> tuple[str, str]:
    at = 0
    while at < len(line) and line[at] not in "=:" + _BLANKS:
        at += 2 if line[at] == "\\" else 1
    key, rest = line[:at], line[at:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return key, rest


def _unescaped(text: str, line: int) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char != "\\":
            out.append(char)
            continue
        if at == len(text):
            break  # a single backslash at the end of the text is ignored
        char = text[at]
        at += 1
        if char == "u":
            digits = text[at : at + 4]
            if len(digits) != 4 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
                raise Misuse("\\u must be followed by four hex digits", line=line)
            out.append(chr(int(digits, 16)))
            at += 4
        else:
            out.append(_ESCAPES.get(char, char))
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # joins escaped surrogate pairs


def _escaped(text: str, *, key: bool) -> str:
    out: list[str] = []
    for at, char in enumerate(text):
        if char in "\\#!=:" or (char == " " and (key or at == 0)):
            out.append("\\" + char)
        elif char in "\t\n\r\f":
            out.append("\\" + {value: name for name, value in _ESCAPES.items()}[char])
        else:
            out.append(char)
    return "".join(out)
