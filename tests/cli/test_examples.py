"""Every example of every help text does what it says, its words cut as a shell cuts them, against a real broker."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from magnetar.cli.main import NOUNS, SINGLE, examples, module_of
from tests.cli.conftest import Run
from tests.cli.stage import staged
from tests.servers.standalone import Standalone


def all_examples() -> list[str]:
    found: list[str] = []
    for noun in NOUNS:
        for verb, function in import_module(module_of(noun)).VERBS.items():
            shown = examples(function.__doc__)
            assert shown, f"magnetar {noun} {verb} shows no example"
            assert all(line.startswith(f"magnetar {noun} {verb}") for line in shown)
            found += shown
    for name in ("api", "completion"):
        found += examples(getattr(import_module(module_of(name)), name).__doc__)
    return found


@pytest.mark.parametrize("line", all_examples())
def test_every_example_works(
    magnetar: Run, broker: Standalone, own_home: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    words = staged(line, magnetar, broker, own_home, monkeypatch)
    ran = magnetar(*words[1:])
    assert ran.code == 0, f"{line}\n{ran.err}"
    assert "Traceback" not in ran.err


def test_every_single_command_says_what_it_is_for() -> None:
    for name in SINGLE:
        assert getattr(import_module(module_of(name)), name).__doc__
