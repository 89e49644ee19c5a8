"""Counts the names of tests with more than ten words, module by module: `test_<condition>_<result>` is shorter.

The rule holds for new tests. The number of longer names in a module may only fall.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from tests.tidy.repository import Source, sources

WORDS_MAX = 10  # after test_
TABLE = Path(__file__).with_name("long_names.tsv")
REFRESH = "run python -m tests.tidy.test_names > tests/tidy/long_names.tsv"


def count(source: Source) -> int:
    return sum(
        len(node.name.removeprefix("test_").split("_")) > WORDS_MAX
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


def counts() -> dict[str, int]:
    numbers = {source.path: count(source) for source in sources() if source.path.startswith("tests/")}
    return {path: number for path, number in numbers.items() if number}


def stored() -> dict[str, int]:
    lines = [line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines()]
    return {path: int(number) for path, number in lines}


def test_no_module_has_more_long_names_than_before() -> None:
    before = stored()
    more = {path: number for path, number in counts().items() if number > before.get(path, 0)}
    assert more == {}, f"name these tests test_<condition>_<result>, in at most ten words; after a move {REFRESH}"


def test_table_of_long_names_falls_with_the_modules() -> None:
    now = counts()
    stale = {path: number for path, number in stored().items() if now.get(path, 0) < number}
    assert stale == {}, REFRESH


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("def test_a_b_c_d_e_f_g_h_i_j_k(): pass", 1),
        ("class X:\n    async def test_a_b_c_d_e_f_g_h_i_j_k(self): pass", 1),
        ("def test_a_b_c_d_e_f_g_h_i_j(): pass", 0),
        ("def helper_a_b_c_d_e_f_g_h_i_j_k(): pass", 0),
    ],
)
def test_names_with_more_than_ten_words_are_counted(text: str, number: int) -> None:
    assert count(Source("tests/unit/x.py", text)) == number


if __name__ == "__main__":
    sys.stdout.write("".join(f"{path}\t{number}\n" for path, number in sorted(counts().items())))
