"""The tests keep rules too: unit/ mirrors the product, nothing sleeps, nothing is patched, nothing is switched off."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.tidy.repository import ROOT, Rule, Source, findings, sources

SLEEPLESS = (
    "tests/unit/",
    "tests/contract/",
    "tests/model/",
    "tests/sim/",
    "tests/support/",
    "tests/tidy/",
    "tests/tools/",
)
SUITES = {
    "unit",
    "contract",
    "model",
    "sim",
    "process",
    "compat",
    "client",
    "cli",
    "fuzz",
    "tidy",
    "servers",
    "support",
    "vectors",
    "testing",
    "tools",
    "spark",
    "examples",
}


def no_mirror(source: Source) -> Iterator[str]:
    """tests/unit/wire/test_frames.py, or test_frames_<aspect>.py, stands for src/magnetar/wire/frames.py or frames/."""
    if not source.path.startswith("tests/unit/"):
        return
    folder = ROOT / "src" / "magnetar" / "/".join(source.parts[2:-1])
    if not folder.is_dir():
        yield source.found(1, "no such room: tests/unit mirrors src/magnetar")
        return
    name = source.parts[-1].removesuffix(".py")
    if not name.startswith("test_"):
        return
    words = name.removeprefix("test_").split("_")
    stems = ["_".join(words[:count]) for count in range(1, len(words) + 1)]
    if not any((folder / f"{stem}.py").exists() or (folder / stem).is_dir() for stem in stems):
        yield source.found(1, f"no module {words[0]} beside it in src: a unit test is named after the module it tries")


def no_such_suite(source: Source) -> Iterator[str]:
    if source.parts[0] == "tests" and len(source.parts) > 2 and source.parts[1] not in SUITES:
        yield source.found(1, f"house.md knows no suite tests/{source.parts[1]}")


def sleeps(source: Source) -> Iterator[str]:
    if not source.path.startswith(SLEEPLESS):
        return
    names = dict(source.names)
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        name = names.get(node.func, "")
        nothing = len(node.args) == 1 and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0
        if name == "time.sleep" or (name == "asyncio.sleep" and not nothing):
            yield source.found(node, "a unit test waits for an event or moves a clock; it does not sleep")


def patches(source: Source) -> Iterator[str]:
    if source.parts[0] != "tests":
        return
    for statement, _, target in source.imports:
        if target.startswith(("unittest.mock", "mock.", "pytest_mock")):
            yield source.found(statement, "no mock of our own code: give it a value, or a contract's other engine")
    for node, name in source.names:
        if name == "?monkeypatch.setattr":
            yield source.found(node, "no patching: what a test must replace is a parameter")


def switched_off(source: Source) -> Iterator[str]:
    for node, name in source.names:
        if name in ("pytest.mark.skip", "pytest.mark.xfail", "pytest.xfail", "unittest.skip"):
            yield source.found(node, "a test that is switched off tells nobody anything")


RULES: list[Rule] = [no_mirror, no_such_suite, sleeps, patches, switched_off]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_tests_keep(rule: Rule) -> None:
    assert findings(rule, sources()) == []


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (no_mirror, "tests/unit/attic/test_frames.py", ""),
        (no_mirror, "tests/unit/base/test_everything.py", ""),
        (no_such_suite, "tests/integration/test_x.py", ""),
        (sleeps, "tests/unit/base/test_x.py", "import time\ntime.sleep(0)"),
        (sleeps, "tests/unit/base/test_x.py", "import asyncio\nasync def f():\n    await asyncio.sleep(0.1)"),
        (patches, "tests/unit/base/test_x.py", "from unittest.mock import Mock"),
        (patches, "tests/unit/base/test_x.py", "def test_x(monkeypatch):\n    monkeypatch.setattr('a.b', 1)"),
        (switched_off, "tests/unit/base/test_x.py", "import pytest\n@pytest.mark.skip\ndef test_x():\n    pass"),
    ],
)
def test_breach_is_caught(rule: Rule, path: str, text: str) -> None:
    assert findings(rule, [Source(path, text)])


@pytest.mark.parametrize(
    "path", ["tests/unit/base/test_errors.py", "tests/unit/base/test_errors_wire.py", "tests/fuzz/test_any.py"]
)
def test_mirror_is_let_through(path: str) -> None:
    assert findings(no_mirror, [Source(path, "")]) == []
