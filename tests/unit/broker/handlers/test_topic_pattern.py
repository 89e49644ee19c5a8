"""Patterns that clients send (D25): whole names, bounded time, and a clear word about what is no pattern."""

from __future__ import annotations

import pytest

from magnetar.base.errors import Misuse
from magnetar.broker.handlers.topic_pattern import compiled

CHARS_MAX = 50


def test_pattern_is_on_name_without_its_domain() -> None:
    for text in ("persistent://public/default/x-.*", "public/default/x-.*"):
        found = compiled(text, CHARS_MAX)
        assert found is not None
        assert found.fullmatch("public/default/x-1") is not None
        assert found.fullmatch("public/default/y-1") is None
        assert found.fullmatch("public/default/x-\u00e9") is not None


@pytest.mark.parametrize(
    "text", ["(a+)+b", "(a|a)*b", "(a*)*(a*)*(a*)*b", "(.*)(.*)(.*)(.*)(.*)(.*)(.*)b", "((a{1,9}){1,9}){1,9}b"]
)
def test_pattern_made_to_run_for_ever_does_not(text: str) -> None:
    found = compiled(text, CHARS_MAX)
    assert found is not None
    assert found.fullmatch("a" * 4_000) is None


@pytest.mark.parametrize("text", ["(?!internal-).*", "(a)\\1", ".*(?<=x)"])
def test_pattern_beyond_budget_is_matched_by_its_client(text: str) -> None:
    assert compiled(text, CHARS_MAX) is None


@pytest.mark.parametrize("text", ["(", "[z-a]", "*", "x" * 51])
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(Misuse, match="pattern"):
        compiled(text, CHARS_MAX)


def test_pattern_of_large_program_is_left_to_client() -> None:
    for text in (r"public/default/(\pL|\pN){1,900}", "public/default/" + ".{1000}" * 3):
        assert compiled(text, 1_000) is None
    assert compiled(r"public/default/[\pL\pN_-]+\.orders", 1_000) is not None


def test_pattern_sent_again_is_not_compiled_again() -> None:
    text = "public/default/sent-again-.*"
    assert compiled(text, 100) is compiled(f"persistent://{text}", 100)
