"""Names of tests follow `test_<condition>_<result>`: at most ten words, without articles.

Identifiers of a hazard at the end (`_h_d3`) and of rows of another client's tests at the beginning (`q17_to_q20_`) are
not counted.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.tidy.repository import Source, sources

WORDS_MAX = 10  # after test_
ARTICLES = {"a", "an", "the"}
_IDENTIFIERS = re.compile(r"^(?:[a-z]\d\d_(?:to_(?=[a-z]\d\d))?)+|(?:_h_[a-z]\d+)+$")


def wrong_names(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            words = _IDENTIFIERS.sub("", node.name.removeprefix("test_")).split("_")
            if len(words) > WORDS_MAX:
                yield f"{source.path}: {node.name} has {len(words)} words, at most {WORDS_MAX}"
            if ARTICLES.intersection(words):
                yield f"{source.path}: {node.name} has an article"


def test_names_of_tests_are_short() -> None:
    tests = [source for source in sources() if source.path.startswith("tests/")]
    assert [wrong for source in tests for wrong in wrong_names(source)] == []


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("def test_b_c_d_e_f_g_h_i_j_k_l(): pass", 1),
        ("class X:\n    async def test_b_c_d_e_f_g_h_i_j_k_l(self): pass", 1),
        ("def test_b_c_d_e_f_g_h_i_j_k(): pass", 0),
        ("def test_b_c_d_e_f_g_h_i_j_k_h_d3_h_f19(): pass", 0),
        ("def test_q17_to_q20_b_c_d_e_f_g_h_i_j_k(): pass", 0),
        ("def test_the_broker_stops(): pass", 1),
        ("def helper_b_c_d_e_f_g_h_i_j_k_l(): pass", 0),
    ],
)
def test_long_names_and_articles_are_reported(text: str, number: int) -> None:
    assert len(list(wrong_names(Source("tests/unit/x.py", text)))) == number
