"""Counts idioms that hide the subject of a sentence, in the docstrings, comments and texts of every module.

`python -m tests.tidy.idioms > tests/tidy/idioms.tsv` writes the counts that `test_idioms.py` compares. A module may
have fewer than before; a new one has none.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from pathlib import Path

from tests.tidy.repository import Source, product, sources

_HIDDEN = (  # words that hide the subject
    r"who(?:ever|mever|soever)|what(?:ever|soever)|somebody|nobody|anew|meanwhile|told|tells?|for ever|for good"
    r"|of before|on (?:its|their|his) way|lets? go|is no|are no|(?:is|are) (?:not )?there|at once|so many|as far as"
)
_CLAUSES = r"what (?:is|was|are|were|a|an|the)|whose|decides only"  # a clause where a noun would do
IDIOMS = re.compile(rf"\b({_HIDDEN})\b", re.IGNORECASE)  # of pages
COUNTED = re.compile(rf"\b({_HIDDEN}|{_CLAUSES})\b", re.IGNORECASE)  # of modules
OUTSIDE = ("simulation", "benchmarks")  # counted like the product
TABLE = Path(__file__).with_name("idioms.tsv")


def texts(source: Source) -> list[str]:
    """Comments and string literals, docstrings among them; f-strings without their fields."""
    comments = [
        token.string
        for token in tokenize.generate_tokens(io.StringIO(source.text).readline)
        if token.type == tokenize.COMMENT
    ]
    return comments + [
        node.value for node in ast.walk(source.tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def count(source: Source) -> int:
    return sum(len(COUNTED.findall(" ".join(text.split()))) for text in texts(source))


def counts() -> dict[str, int]:
    """By path, of the modules that have any."""
    outside = [source for source in sources() if source.parts[0] in OUTSIDE]
    return {source.path: number for source in (*product(), *outside) if (number := count(source))}


def stored() -> dict[str, int]:
    rows = (line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines())
    return {path: int(number) for path, number in rows}


if __name__ == "__main__":
    sys.stdout.write("".join(f"{path}\t{number}\n" for path, number in sorted(counts().items())))
