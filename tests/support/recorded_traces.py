"""The recorded exchanges of tests/vectors/traces: what a real Pulsar 5.0.0-M1 and its Java client said to each other.

A line is read into the fields that were set on the wire. Request ids were renumbered when it was recorded, and times of
day are 0 here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tests.support.golden_vectors import FOLDER

_LINE = re.compile(r"\s*([\d.]+) (c\d) (->|<-) (\S+)\s*(.*)")
_TOKEN = re.compile(r"\s*([{}\[\],]|[^\s{}\[\],=]+=|[^\s{}\[\],]+)")


@dataclass(frozen=True)
class Said:
    at_s: float
    connection: str
    by_client: bool
    command: str
    fields: dict[str, Any]


def trace(name: str) -> list[Said]:
    found = []
    for line in (FOLDER / "traces" / f"{name}.txt").read_text().splitlines():
        match = _LINE.fullmatch(line)
        if match is None or match[4].startswith("("):
            continue
        text = re.split(r" \| metadata|   \(", match[5])[0]
        # A sentence is the last field: the only value with blanks in it.
        text, _, sentence = text.partition(" message=")
        if match[4] == "CONNECTED":
            text = text.replace("Pulsar Server", "Pulsar-Server")
        fields = _Reader(text).fields() if "..." not in text else {}
        if sentence:
            fields["message"] = sentence
        found.append(Said(float(match[1]), match[2], match[3] == "->", match[4], fields))
    return found


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._at = 0

    def fields(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while (token := self._peek()) is not None and token.endswith("="):
            self._at += 1
            found[token[:-1]] = self._value()
        return found

    def _value(self) -> Any:
        token = self._peek()
        if token == "{":
            self._at += 1
            inner = self.fields()
            self._at += 1
            return inner
        if token == "[":
            self._at += 1
            items = []
            while self._peek() != "]":
                items.append(self._value())
                if self._peek() == ",":
                    self._at += 1
            self._at += 1
            return items
        if token is None or token.endswith("="):
            return ""
        self._at += 1
        return _plain(token)

    def _peek(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None


def _plain(token: str) -> Any:
    if token in ("true", "false"):
        return token == "true"
    if re.fullmatch(r"-?\d+", token):
        return int(token)
    return 0 if token == "T" else token


def as_fields(message: Any) -> dict[str, Any]:
    """A protobuf message as a line of a trace shows it: what is set, enums by name, times of day as 0."""
    found: dict[str, Any] = {}
    for field, value in message.ListFields():
        values = [_shown(field, each) for each in value] if field.is_repeated else _shown(field, value)
        found[field.name] = 0 if field.name in ("created_at_ms", "sealed_at_ms") else values
    return found


def _shown(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return as_fields(value)
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name
    return value
