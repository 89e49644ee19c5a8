"""A strict reader of the YAML that the command line may write: blocks, plain words and double quotes. Whatever else it
meets is a failure.
"""

from __future__ import annotations

import json
import re
from typing import Any

ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}


def read(text: str) -> Any:
    assert text.endswith("\n")
    lines = text[:-1].split("\n")
    value, rest = _block(lines, 0)
    assert rest == []
    return value


def _block(lines: list[str], indent: int) -> tuple[Any, list[str]]:
    first = lines[0][indent:]
    assert not first.startswith(" ")
    if first.startswith("- "):
        return _items(lines, indent)
    if _split(first) is not None:
        return _pairs(lines, indent)
    return _flat(first), lines[1:]


def _items(lines: list[str], indent: int) -> tuple[list[Any], list[str]]:
    found: list[Any] = []
    while lines and lines[0].startswith(" " * indent + "- "):
        inner = " " * (indent + 2) + lines[0][indent + 2 :]
        value, lines = _block([inner, *lines[1:]], indent + 2)
        found.append(value)
    return found, lines


def _pairs(lines: list[str], indent: int) -> tuple[dict[str, Any], list[str]]:
    found: dict[str, Any] = {}
    while lines and lines[0].startswith(" " * indent) and not lines[0][indent:].startswith((" ", "-")):
        cut = _split(lines[0][indent:])
        assert cut is not None
        key = _flat(cut[0])
        assert key not in found
        if cut[1]:
            found[key], lines = _flat(cut[1]), lines[1:]
        else:
            found[key], lines = _block(lines[1:], indent + 2)
    return found, lines


def _split(line: str) -> tuple[str, str] | None:
    """A key, and what stands behind it on its line."""
    match = re.fullmatch(r'("(?:[^"\\]|\\.)*"|[A-Za-z_/][^ ]*?):(?: (.*))?', line)
    return None if match is None else (match[1], match[2] or "")


def _flat(word: str) -> Any:
    if word.startswith('"'):
        return re.sub(r"\\(x..|u....|U........|.)", _unescaped, word[1:-1])
    if word in ("null", "true", "false", "{}", "[]") or re.fullmatch(r"-?\d+(\.\d+(e[+-]\d+)?)?", word):
        return json.loads(word)
    assert re.fullmatch(r"[A-Za-z_/][A-Za-z0-9_./@:+-]*", word), word
    return word


def _unescaped(match: re.Match[str]) -> str:
    mark = match[1]
    return ESCAPES[mark] if len(mark) == 1 else chr(int(mark[1:], 16))
