"""Lines as they are typed, and words written back so that a shell takes them for words."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.cli.completion.shell_line import ShellLine, for_bash, for_powershell, split


@pytest.mark.parametrize(
    ("line", "words", "quote"),
    [
        ("", [""], ""),
        ("magnetar", ["magnetar"], ""),
        ("magnetar ", ["magnetar", ""], ""),
        ("magnetar  topic\tli", ["magnetar", "topic", "li"], ""),
        ("m a\\ b", ["m", "a b"], ""),
        ("m 'a b", ["m", "a b"], "'"),
        ('m "a b', ["m", "a b"], '"'),
        ('m "a\\"b', ["m", 'a"b'], '"'),
        ("m 'a' ", ["m", "a", ""], ""),
        ("m ''", ["m", ""], ""),
        ("m '' x", ["m", "", "x"], ""),
        ("m topic://a", ["m", "topic://a"], ""),
        ("m a\\", ["m", "a\\"], ""),
    ],
)
def test_line_is_cut_even_where_it_ends_in_middle(line: str, words: list[str], quote: str) -> None:
    assert split(line) == ShellLine(words, quote)


def test_powershell_escapes_with_another_letter() -> None:
    assert split("m C:\\x a` b", escape="`").words == ["m", "C:\\x", "a b"]


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\x00"), min_size=1), min_size=1))
def test_whatever_shell_would_take_apart_is_cut_alike(words: list[str]) -> None:
    assert split(" ".join(shlex.quote(word) for word in words)).words == words


@given(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1))
def test_broker_text_is_one_word_for_bash(value: str) -> None:
    written = for_bash(value, "", quote="", breaks="")
    assert written is not None
    assert shlex.split(written) == [value]
    inside = for_bash(value, "", quote='"', breaks="")
    assert inside is None or split(f'"{inside}"').words == [value]
    single = for_bash(value, "", quote="'", breaks="")
    assert single is None or shlex.split(f"'{single}'") == [value]


@pytest.mark.parametrize(
    "value", ["a;rm -rf ~", "$(reboot)", "`reboot`", "a b", "a&b", "a|b", "a>b", "*", "~", "#x", "!x"]
)
def test_what_shell_would_act_upon_is_escaped(value: str) -> None:
    written = for_bash(value, "", quote="", breaks="")
    assert written is not None
    for at, letter in enumerate(written):
        if letter in ";$`&|><*~#!() ":
            assert written[at - 1] == "\\"
    assert for_powershell(value).startswith("'")
    assert for_powershell(value).endswith("'")


@pytest.mark.parametrize(
    ("value", "word", "breaks", "written"),
    [
        ("topic://public/", "topic://pu", " :=", "//public/"),
        ("topic://public/", "topic://pu", " ", "topic://public/"),
        ("--context=prod", "--context=p", " :=", "prod"),
        ("--url=pulsar://h", "--url=pulsar:", " :=", "//h"),
    ],
)
def test_bash_gets_what_follows_its_last_break(value: str, word: str, breaks: str, written: str) -> None:
    assert for_bash(value, word, quote="", breaks=breaks) == written


def test_plain_word_is_itself_to_powershell() -> None:
    assert for_powershell("--output=json") == "--output=json"
    assert for_powershell("topic://public/x") == "topic://public/x"
    assert for_powershell("it's") == "'it''s'"
    assert for_powershell("@x") == "'@x'"
