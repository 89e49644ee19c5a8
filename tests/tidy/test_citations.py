"""Each id that code, tests and documents cite is defined in `docs/`, and each proof that a definition names exists.

The forms of ids: `H-A2` (hazards; `_h_a2` in names of tests), `SC-A3` (stock clients), `invariant 4` (the simulator),
`D6` and `F20` (faults that were found), `Q15` (Pulsar's own cases). Only comments and docstrings are searched for the
last three, because code has such names of its own.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.tidy.repository import ROOT, Source, files, sources

DOCS = ROOT / "docs"
HAZARD = re.compile(r"(?<![\w-])H-[A-Z]\d+(?!\w)")
NAMED = re.compile(r"_h_([a-z]\d+)")
STOCK = re.compile(r"(?<![\w-])SC-[A-Z]\d+(?:\.\d+)?(?!\w)")
INVARIANT = re.compile(r"\b[Ii]nvariant (\d+)")
BARE = re.compile(r"(?<![\w./:*+=-])[A-Z]\d{1,2}(?![\w(*+=]|\.\w)")
WORDS = {"V5", "M1", "M2"}  # the Java client V5, milestones of Pulsar 5.0.0
PROOF = re.compile(r"\[`(test_\w+)`\]\(([^)#]+\.py)\)")
ROW = re.compile(r"^\| ([A-Z]\d+(?:(?:, | to )[A-Z]\d+)*) \|", re.MULTILINE)


def rows(text: str) -> set[str]:
    """The ids in the first column of tables: `D1`, `F19, F24`, `Q01 to Q05`."""
    found: set[str] = set()
    for cell in ROW.findall(text):
        for part in cell.split(", "):
            first, _, last = part.partition(" to ")
            letter, width = first[0], len(first) - 1
            numbers = range(int(first[1:]), int((last or first)[1:]) + 1)
            found |= {f"{letter}{number:0{width}}" for number in numbers}
    return found


@cache
def defined() -> frozenset[str]:
    hazards = (DOCS / "HAZARDS.md").read_text(encoding="utf-8")
    stock = (DOCS / "STOCK_CLIENTS.md").read_text(encoding="utf-8")
    return frozenset(
        set(re.findall(r"^\| (H-[A-Z]\d+) \|", hazards, re.MULTILINE))
        | {f"invariant {number}" for number in re.findall(r"^\| (\d+) \|", hazards, re.MULTILINE)}
        | set(re.findall(r"^### (SC-\S+):", stock, re.MULTILINE))
        | set(re.findall(r"^\| (SC-\S+) \|", stock, re.MULTILINE))
        | rows((DOCS / "FOUND.md").read_text(encoding="utf-8"))
        | rows((DOCS / "COMPATIBILITY.md").read_text(encoding="utf-8"))
    )


def cited(text: str) -> Iterator[str]:
    """Ids of forms that mean nothing else, in any text."""
    yield from HAZARD.findall(text)
    yield from STOCK.findall(text)
    yield from (f"invariant {number}" for number in INVARIANT.findall(text))


def prose(source: Source) -> Iterator[tuple[int, str]]:
    """(line, text) of each comment and docstring."""
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node, clean=False)
            if text is not None:
                yield getattr(node.body[0], "lineno", 1), text


def unresolved(source: Source, known: Iterable[str]) -> Iterator[str]:
    """What a Python file cites and no page defines."""
    known = set(known)
    for number, line in enumerate(source.text.splitlines(), 1):
        for id in cited(line):
            if id not in known:
                yield source.found(number, f"{id} is defined on no page")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for name in NAMED.findall(node.name):
                if f"H-{name.upper()}" not in known:
                    yield source.found(node, f"H-{name.upper()} is defined on no page")
    for number, text in prose(source):
        for id in BARE.findall(text):
            if id not in known and id not in WORDS:
                yield source.found(number, f"{id} is defined on no page")


def unproven(path: Path, text: str) -> Iterator[str]:
    """Links to tests that do not exist."""
    for name, target in PROOF.findall(text):
        file = (path.parent / target).resolve()
        if not file.exists() or not re.search(rf"def {name}\(", file.read_text(encoding="utf-8")):
            yield f"{path.name}: {name} is not in {target}"


def uncited(text: str, read: Callable[[str], str]) -> Iterator[str]:
    """Rows of defects found by review whose tests do not cite their number."""
    for id, rest in re.findall(r"^\| (D\d+) \|(.+)", text, re.MULTILINE):
        paths = [path for _, path in PROOF.findall(rest)]
        if not any(re.search(rf"\b{id}\b", read(path)) for path in paths):
            yield f"{id} is cited by none of {paths}"


def documents() -> list[str]:
    return [name for name in files() if name.endswith(".md") and name.split("/")[0] not in ("tests", "benchmarks")]


def test_every_citation_in_python_has_definition() -> None:
    searched = [source for source in sources() if source.path != "tests/tidy/test_citations.py"]
    assert sorted(finding for source in searched for finding in unresolved(source, defined())) == []


def test_every_citation_in_documents_has_definition() -> None:
    missing = [
        f"{name}: {id} is defined on no page"
        for name in documents()
        for id in cited((ROOT / name).read_text(encoding="utf-8"))
        if id not in defined()
    ]
    assert missing == []


def test_every_proof_in_documents_exists() -> None:
    assert [
        gap for name in documents() for gap in unproven(ROOT / name, (ROOT / name).read_text(encoding="utf-8"))
    ] == []


def test_every_defect_of_review_is_cited_by_its_test() -> None:
    text = (DOCS / "FOUND.md").read_text(encoding="utf-8")
    assert {f"D{number}" for number in range(1, 28)} <= rows(text)
    assert list(uncited(text, lambda path: (DOCS / path).read_text(encoding="utf-8"))) == []


def test_defect_whose_test_does_not_cite_it_is_found() -> None:
    row = "| D7 | seen | [`test_a`](../tests/unit/test_a.py) | cause | cure |"
    assert list(uncited(row, lambda path: "D7 and more")) == []
    assert list(uncited(row, lambda path: "D70")) == ["D7 is cited by none of ['../tests/unit/test_a.py']"]


def test_every_hazard_has_one_row_with_proof() -> None:
    lines = (DOCS / "HAZARDS.md").read_text(encoding="utf-8").splitlines()
    found = [line for line in lines if re.match(r"\| H-[A-Z]\d+ \|", line)]
    ids = [line.split(" ")[1] for line in found]
    assert len(ids) == len(set(ids))
    assert [line.split(" ")[1] for line in found if line.count(" | ") != 3 or "](../tests/" not in line] == []


def test_every_stock_client_section_names_test() -> None:
    text = (DOCS / "STOCK_CLIENTS.md").read_text(encoding="utf-8")
    sections = re.split(r"^### (SC-\S+):", text, flags=re.MULTILINE)[1:]
    without = [id for id, body in zip(sections[::2], sections[1::2], strict=True) if not PROOF.search(body)]
    assert without == []
    assert [line for line in text.splitlines() if line.startswith("| SC-") and not PROOF.search(line)] == []


@pytest.mark.parametrize(
    "text",
    [
        '"""A module, see H-Z99."""\n',
        "x = 1  # SC-Z9\n",
        '"""Checks invariant 99 of worlds."""\n',
        "def test_split_is_finished_h_z99():\n    pass\n",
        'def test_x():\n    """D99: too long."""\n',
        "x = 1  # as rule N7 says\n",
    ],
)
def test_citation_without_definition_is_found(text: str) -> None:
    assert len(list(unresolved(Source("tests/unit/test_x.py", text), defined()))) == 1


def test_resolved_citations_and_names_of_code_pass() -> None:
    text = '"""H-A2, SC-A3, SC-A0.5, invariant 4, D6, Q05: the Java V5 client M1."""\nS0, E9 = 1, 2\n'
    assert list(unresolved(Source("tests/unit/test_x.py", text), defined())) == []


def test_ranges_and_lists_of_rows_are_read() -> None:
    assert rows("| F19, F24 | x |\n| Q01 to Q03, Q09 | y |\n| x | Z1 |\n") == {"F19", "F24", "Q01", "Q02", "Q03", "Q09"}


def test_link_to_missing_test_is_found(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_there():\n    pass\n")
    text = "[`test_there`](test_a.py) [`test_gone`](test_a.py) [`test_there`](test_b.py)"
    assert list(unproven(tmp_path / "PAGE.md", text)) == [
        "PAGE.md: test_gone is not in test_a.py",
        "PAGE.md: test_there is not in test_b.py",
    ]
