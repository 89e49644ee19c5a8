"""YAML that cannot be read as anything else: a small strict reader of what the writer may write brings back the value.

The reader knows blocks, plain words and double quotes; whatever else it meets is a failure. Words that other readers
take for dates, numbers or truth values are listed.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.cli.yaml import document

ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [True, None, 1.5]}, "b: 1\na:\n  - true\n  - null\n  - 1.5\n"),
        ({"a": {}, "b": [], "c": {"d": {"e": "f"}}}, "a: {}\nb: []\nc:\n  d:\n    e: f\n"),
        ([{"a": 1, "b": 2}, [1, [2]]], "- a: 1\n  b: 2\n- - 1\n  - - 2\n"),
        ("persistent://public/default/orders", "persistent://public/default/orders\n"),
        (1e16, "1.0e+16\n"),
        (12345678901234567890, "12345678901234567890\n"),
    ],
)
def test_a_document_reads_as_people_write_it(value: Any, text: str) -> None:
    assert document(value) == text


WORDS = ["yes", "No", "ON", "null", "True", "~", "", " ", "a: b", "a:", "a #b", "- x", "?", "12:30:45", "2026-11-15"]
WORDS += ["1e3", "0x1f", "0o7", ".5", ".inf", "+1", "-1", "=", "<<", "&a", "*a", "!t", "|", ">", "[", "{", "%x", "@x"]
WORDS += ["`", "'", '"', "\\", "a\nb", "\t", "\x00", "\x7f", "\x85", "\u2028", "\ufeff", "é", "a b", "1_000"]


@pytest.mark.parametrize("word", WORDS)
def test_a_word_that_some_reader_takes_for_something_else_is_in_quotes(word: str) -> None:
    text = document({word: word})
    assert text.startswith('"')
    assert read(text) == {word: word}
    assert text.isascii() or word == "é"


def test_a_key_too_long_for_one_line_is_written_out() -> None:
    key = "persistent://" + "x" * 2000
    assert document({key: {"a": 1}}) == f"? {key}\n: a: 1\n"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(VALUES)
def test_whatever_json_can_say_comes_back(value: Any) -> None:
    assert read(document(value)) == value


# A reader that knows nothing but what may be written


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
