"""Lines of text as messages: with `--key-separator` and `--header-separator` a line has its own key and properties.

    source=web,region=eu|customer-1:{"id": 1}

is, with `|` between headers and the rest and `:` behind the key, a message with two properties and a key. Values only;
a line that has no separator is refused, since a message without its key would lose its order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from magnetar.base.errors import Misuse

_ESCAPES = {"\\t": "\t", "\\0": "\0", "\\\\": "\\"}


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to send; a key or properties of its own win over those of the command."""

    payload: bytes
    key: str | None = None
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LineFormat:
    """How a line is read: properties, key, payload. A separator that is empty is not looked for."""

    key_separator: str = ""
    header_separator: str = ""

    @classmethod
    def of(cls, key_separator: str | None, header_separator: str | None) -> LineFormat:
        for name, given in (("--key-separator", key_separator), ("--header-separator", header_separator)):
            if given == "":
                raise Misuse(f"{name} must not be empty")
        return cls(_unescaped(key_separator or ""), _unescaped(header_separator or ""))

    @property
    def is_plain(self) -> bool:
        """Are lines messages as they are?"""
        return not self.key_separator and not self.header_separator

    def parse(self, line: bytes, number: int) -> Outgoing:
        """`number`: of the line, from 1, for the error."""
        properties: dict[str, str] = {}
        key: str | None = None
        if self.header_separator:
            words, line = _cut(line, self.header_separator, number, "--header-separator")
            properties = _properties(words, number)
        if self.key_separator:
            key, line = _cut(line, self.key_separator, number, "--key-separator")
        return Outgoing(line, key, properties)


def _cut(line: bytes, separator: str, number: int, option: str) -> tuple[str, bytes]:
    before, found, after = line.partition(separator.encode())
    if not found:
        raise Misuse(f"line {number} has no {separator!r}, which {option} expects; the lines before it were sent")
    try:
        return before.decode(), after
    except UnicodeDecodeError:
        raise Misuse(f"line {number} has bytes before its {separator!r} that are not UTF-8") from None


def _properties(words: str, number: int) -> dict[str, str]:
    """`name=value,name=value`; none where nothing stands before the separator."""
    found: dict[str, str] = {}
    for pair in words.split(",") if words.strip() else []:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise Misuse(f"line {number}: headers are name=value,name=value, got {pair!r}")
        found[name.strip()] = value
    return found


def _unescaped(text: str) -> str:
    """`\\t` as people type it is a tab."""
    for written, meant in _ESCAPES.items():
        text = text.replace(written, meant)
    return text
