"""The help of every command, as a terminal shows it."""

from __future__ import annotations

import re

import pytest

from magnetar.cli.exit_codes import Exit
from magnetar.cli.main import NOUNS, SINGLE, main, verbs_of

COMMANDS = [(noun, verb) for noun in NOUNS for verb in verbs_of(noun)] + [(name,) for name in SINGLE]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_has_no_raw_defaults_quotes_or_unnamed_arguments(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    assert main([*command, "--help"]) == Exit.OK
    shown = capsys.readouterr().out
    assert shown.startswith(f"Usage: magnetar {' '.join(command)}")
    assert not re.search(r"`|ARGS|default: (True|False|\"\")|\\\\", shown), shown


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        ("message produce", "magnetar message produce TOPIC [TEXTS...] [OPTIONS]"),
        ("topic verify-order", "magnetar topic verify-order [TOPIC] [OPTIONS]"),
        ("subscription seek", "magnetar subscription seek TOPIC NAME --to TO [OPTIONS]"),
        ("topic", "magnetar topic VERB [ARGUMENTS] [OPTIONS]"),
    ],
)
def test_usage_names_arguments_as_table_does(command: str, usage: str, capsys: pytest.CaptureFixture[str]) -> None:
    main([*command.split(), "--help"])
    assert capsys.readouterr().out.splitlines()[0] == f"Usage: {usage}"


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("standalone", "It is created if it does not exist. Only one broker at a time can use it. [default: data]"),
        ("subscription seek", "with its segment, 3/12:34), a publish time (2026-11-15T10:00:00Z) or an age (10m, 2h)."),
        ("subscription seek", "as soon as the broker has accepted it. [default: --wait]"),
    ],
)
def test_parameter_text_breaks_at_width_only(
    command: str, sentence: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    main([*command.split(), "--help"])
    assert any(sentence in line for line in capsys.readouterr().out.splitlines())
