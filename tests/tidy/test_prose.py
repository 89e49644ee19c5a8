"""How a file reads: it opens with a paragraph, keeps under 500 lines or says why not, and leaves nothing half done."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator

import pytest

from tests.tidy.repository import ROOT, Rule, Source, findings, product, sources

LINES_MAX = 500
PARAGRAPH_CHARACTERS_MIN = 120  # a room's door: what lives here, what it refuses, what it trusts
SENTENCE_CHARACTERS_MIN = 30
VAGUE = re.compile(r"(.*_)?(utils?|helpers?|common|managers?|impl)|base_.*")
UNFINISHED = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]) + r")\b")
SPEAKING = ("src/magnetar/cli/", "benchmarks/", "examples/")  # their standard output is their product


def no_docstring(source: Source) -> Iterator[str]:
    text = ast.get_docstring(source.tree) or ""
    if len(text) < SENTENCE_CHARACTERS_MIN:
        yield source.found(1, "a module opens with a paragraph: what it is, what it refuses to do, what it trusts")
    elif source.is_folder and source.room and len(text) < PARAGRAPH_CHARACTERS_MIN:
        yield source.found(1, "a folder's paragraph says what lives here, what it refuses to do, what it trusts")


def too_long(source: Source) -> Iterator[str]:
    lines = source.text.count("\n")
    if lines > LINES_MAX and not re.match(r"# long: \S.{10,}", source.text):
        yield source.found(
            1, f"{lines} lines: a decision is hiding in an actor, or the first line says '# long: ' and why"
        )


def stale_mark(source: Source) -> Iterator[str]:
    if source.text.startswith("# long:") and source.text.count("\n") <= LINES_MAX:
        yield source.found(1, f"at most {LINES_MAX} lines need no reason: remove the line '# long: '")


def vague_name(source: Source) -> Iterator[str]:
    for part in source.parts[1:]:
        if VAGUE.fullmatch(part.removesuffix(".py")):
            yield source.found(1, f"{part}: a module has the conventional term of the field as its name")


def left_undone(source: Source) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING) and UNFINISHED.search(token.string):
            yield source.found(token.start[0], "finish it or file it; the tree holds no reminders")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name) and node.id == "NotImplementedError":
            yield source.found(node, "what is not there yet is refused with NotBuilt")


def prints(source: Source) -> Iterator[str]:
    for node, name in source.names:
        if name in ("?print", "?breakpoint", "pprint.pprint") and not source.path.startswith(SPEAKING):
            yield source.found(node, "facts go to the log, as nouns")


def broad_except(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            yield source.found(node, "except names what it expects")


def asserts_that_vanish(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Tuple):
            yield source.found(node, "a tuple is always true")


EVERYWHERE: list[Rule] = [
    no_docstring,
    too_long,
    stale_mark,
    vague_name,
    left_undone,
    prints,
    broad_except,
    asserts_that_vanish,
]


@pytest.mark.parametrize("rule", EVERYWHERE, ids=lambda rule: rule.__name__)
def test_tree_keeps(rule: Rule) -> None:
    assert findings(rule, sources()) == []


def test_every_folder_of_product_has_door() -> None:
    folders = {source.path.rsplit("/", 1)[0] for source in product()}
    assert folders - {source.path.rsplit("/", 1)[0] for source in product() if source.is_folder} == set()


DOC = '"""A module that says in a sentence what it is for."""\n'


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (no_docstring, "src/magnetar/topic/x.py", "x = 1\n"),
        (no_docstring, "src/magnetar/topic/x.py", '"""Stuff."""\n'),
        (no_docstring, "src/magnetar/topic/__init__.py", DOC),
        (too_long, "src/magnetar/topic/x.py", DOC + "x = 1\n" * 500),
        (too_long, "src/magnetar/topic/x.py", "# long:\n" + DOC + "x = 1\n" * 500),
        (stale_mark, "src/magnetar/topic/x.py", "# long: one table, read as a page\n" + DOC),
        (vague_name, "src/magnetar/topic/helpers.py", DOC),
        (vague_name, "src/magnetar/topic/topic_manager.py", DOC),
        (vague_name, "src/magnetar/topic/base_dispatcher.py", DOC),
        (vague_name, "src/magnetar/common/names.py", DOC),
        (left_undone, "src/magnetar/topic/x.py", DOC + "x = 1  # TO" + "DO: later\n"),
        (left_undone, "src/magnetar/topic/x.py", DOC + "def f():\n    raise NotImplementedError\n"),
        (prints, "src/magnetar/topic/x.py", DOC + "print('x')\n"),
        (broad_except, "src/magnetar/topic/x.py", DOC + "try:\n    f()\nexcept:\n    pass\n"),
        (asserts_that_vanish, "tests/unit/test_x.py", DOC + "assert (1 == 2, 'x')\n"),
    ],
)
def test_breach_is_caught(rule: Rule, path: str, text: str) -> None:
    assert findings(rule, [Source(path, text)])


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (
            too_long,
            "src/magnetar/topic/x.py",
            "# long: the whole table in one place, read as one\n" + DOC + "x = 1\n" * 500,
        ),
        (stale_mark, "src/magnetar/topic/x.py", "# long: one table, read as a page\n" + DOC + "x = 1\n" * 500),
        (vague_name, "src/magnetar/ledger/managed.py", DOC),
        (prints, "src/magnetar/cli/x.py", DOC + "print('x')\n"),
        (left_undone, "src/magnetar/topic/x.py", DOC + "todo = []\n"),
    ],
)
def test_what_is_right_is_let_through(rule: Rule, path: str, text: str) -> None:
    assert findings(rule, [Source(path, text)]) == []


def linted(snippet: str) -> str:
    """What ruff says of it, as of a file of the product."""
    options = ["--stdin-filename", "src/magnetar/topic/x.py", "--output-format", "concise", "-"]
    ruff = [sys.executable, "-m", "ruff", "check", *options]
    return subprocess.run(ruff, input=snippet, cwd=ROOT, capture_output=True, text=True, check=False).stdout


def test_commented_out_code_is_caught_by_linter() -> None:
    assert "ERA001" in linted(DOC + "def f(a: int) -> int:\n    # a = a + 1\n    return a\n")


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("S301", "pickle.loads(data)"),
        ("S307", "eval(data)"),
        ("S324", "hashlib.md5(data)"),
        ("S501", "httpx.get(data, verify=False)"),
        ("S602", "subprocess.run(data, shell=True)"),
        ("S608", 'cursor.execute(f"SELECT * FROM {data}")'),
    ],
)
def test_linter_finds_security_fault(rule: str, line: str) -> None:
    imports = "import hashlib\nimport pickle\nimport subprocess\n\nimport httpx\n\n\n"
    assert f" {rule} " in linted(f"{DOC}\n{imports}def f(data, cursor):\n    {line}\n")
