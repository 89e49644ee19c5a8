"""Parses lines of text as messages. With `--key-separator` and `--header-separator`, a line has its own key and
properties.

source=web,region=eu|customer-1:{"id": 1}

With `|` after the headers and `:` after the key, this line is a message with two properties and a key. Pure. A line
without a required separator is rejected, because a message without its key would lose its order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from magnetar.base.errors import Misuse

_ESCAPES = {"\\t": "\t", "\\0": "\0", "\\\\": "\\"}


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to send. Its own key and properties override those of the command."""

    payload: bytes = field(repr=False)
    key: str | None = None
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LineFormat:
    """The format of a line: properties, key, payload. An empty separator is disabled."""

    key_separator: str = ""
    header_separator: str = ""

    @classmethod
    def of(cls, key_separator: str | None, header_separator: str | None) -> LineFormat:
        for name, text in (("--key-separator", key_separator), ("--header-separator", header_separator)):
            if text == "":
                raise Misuse(f"{name} must not be empty")
        return cls(_unescaped(key_separator or ""), _unescaped(header_separator or ""))

    @property
    def is_plain(self) -> bool:
        """Whether a line is the payload itself."""
        return not self.key_separator and not self.header_separator

    def parse(self, line: bytes, number: int) -> Outgoing:
        """`number`: the line number from 1, for error messages."""
        properties: dict[str, str] = {}
        key: str | None = None
        if self.header_separator:
            words, line = _cut(line, self.header_separator, number, "--header-separator")
            properties = _properties(words, number)
        if self.key_separator:
            key, line = _cut(line, self.key_separator, number, "--key-separator")
        return Outgoing(line, key, properties)


def _cut(line: bytes, separator: str, number: int, option: str) -> tuple[str, bytes]:
    before, match, after = line.partition(separator.encode())
    if not match:
        raise Misuse(f"line {number} has no {separator!r}, which {option} expects; the lines before it were sent")
    try:
        return before.decode(), after
    except UnicodeDecodeError:
        raise Misuse(f"line {number} has bytes before its {separator!r} that are not UTF-8") from None


def _properties(words: str, number: int) -> dict[str, str]:
    """`name=value,name=value`; empty without text before the separator."""
    values: dict[str, str] = {}
    for pair in words.split(",") if words.strip() else []:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise Misuse(f"line {number}: headers must be name=value,name=value, got {pair!r}")
        values[name.strip()] = value
    return values


def _unescaped(text: str) -> str:
    """Converts a typed `\t` to a tab."""
    for written, meant in _ESCAPES.items():
        text = text.replace(written, meant)
    return text
