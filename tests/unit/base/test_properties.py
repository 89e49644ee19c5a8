"""Java's properties as files have them, and whatever else somebody puts into one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import Misuse
from magnetar.base.properties import Entry, entries, escaped, parse

# UTF-8 files hold no lone surrogates.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("# comment\n! another\n\n   \n", {}),
        ("a=1", {"a": "1"}),
        ("  a = 1 ", {"a": "1 "}),
        ("a:1\nb 2\nc\t=\t3", {"a": "1", "b": "2", "c": "3"}),
        ("a==1", {"a": "=1"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=1", {"": "1"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b#c", {"a": "b#c"}),
        ("a=one, \\\n   two, \\\n   three\nb=1", {"a": "one, two, three", "b": "1"}),
        ("a=one\\\n\nb=1", {"a": "one", "b": "1"}),
        ("a=one\\\\\nb=1", {"a": "one\\", "b": "1"}),
        ("a=1\\", {"a": "1"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a\\ b=c", {"a b": "c"}),
        ("a=\\t\\n\\r\\f\\q", {"a": "\t\n\r\fq"}),
        ("a=\\u00e4\\ud83d\\ude00", {"a": "\u00e4\U0001f600"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("# ends in a backslash \\\na=1", {"a": "1"}),
        ("url=pulsar://host:6650", {"url": "pulsar://host:6650"}),
    ],
)
def test_file_is_read_as_java_reads_it(text: str, expected: dict[str, str]) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\u12g4", "\\uzzzz=1"])
def test_broken_escape_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(Misuse, match="line=2"):
        parse("x=1\n" + text)


@given(texts, texts)
def test_what_is_escaped_reads_back(key: str, value: str) -> None:
    assert parse(escaped(key, value) + "\nlast=1") == {key: value, "last": "1"} or key == "last"


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = parse(text)
    except Misuse:
        return
    assert all(isinstance(key, str) and isinstance(value, str) for key, value in found.items())


def test_entries_keep_their_order_and_first_line() -> None:
    assert entries("# x\na=1\nb=one\\\n two\n\na=2") == [
        Entry("a", "1", 2),
        Entry("b", "onetwo", 3),
        Entry("a", "2", 6),
    ]


def test_errors_and_entries_do_not_show_values() -> None:
    assert "secret" not in repr(entries("token=secret")[0])
    with pytest.raises(Misuse) as refused:
        parse("token=secret\\u12")
    assert "secret" not in str(refused.value)
