"""YAML that cannot be read as anything else: a small strict reader of what the writer may write brings back the value.

Words that other readers
take for dates, numbers or truth values are listed.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.cli.output.yaml import document
from tests.cli.yamlreader import read


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
def test_document_reads_as_people_write_it(value: Any, text: str) -> None:
    assert document(value) == text


WORDS = ["yes", "No", "ON", "null", "True", "~", "", " ", "a: b", "a:", "a #b", "- x", "?", "12:30:45", "2026-11-15"]
WORDS += ["1e3", "0x1f", "0o7", ".5", ".inf", "+1", "-1", "=", "<<", "&a", "*a", "!t", "|", ">", "[", "{", "%x", "@x"]
WORDS += ["`", "'", '"', "\\", "a\nb", "\t", "\x00", "\x7f", "\x85", "\u2028", "\ufeff", "é", "a b", "1_000"]


@pytest.mark.parametrize("word", WORDS)
def test_ambiguous_word_is_quoted(word: str) -> None:
    text = document({word: word})
    assert text.startswith('"')
    assert read(text) == {word: word}
    assert text.isascii() or word == "é"


def test_key_too_long_for_one_line_is_written_out() -> None:
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
