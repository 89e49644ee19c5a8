"""Commands that are nearly right: what was meant is told whole, ready to be run."""

from __future__ import annotations

import shlex

import pytest

from magnetar.cli.exit_codes import Exit
from magnetar.cli.main import main


@pytest.mark.parametrize(
    ("given", "what", "run"),
    [
        ("topc lst", "unknown command 'topc'", "magnetar topic list"),
        ("topc lst public/default -o json", "unknown command 'topc'", "magnetar topic list public/default -o json"),
        ("topc list", "unknown command 'topc'", "magnetar topic list"),
        ("topic lst 'a b'", "topic has no verb 'lst'", "magnetar topic list 'a b'"),
        ("subscriptions shwo x y", "subscription has no verb 'shwo'", "magnetar subscription show x y"),
        ("frobnicate", "unknown command 'frobnicate'", "magnetar --help"),
        ("topic frobnicate", "topic has no verb 'frobnicate'", "magnetar topic --help"),
        ("topic list --limt=3", "unknown option --limt", "magnetar topic list --limit=3"),
        ("topic list --frobnicate", "Unknown option: --frobnicate.", "magnetar topic list --help"),
        ("--outptu json topic list", "unknown option --outptu", "magnetar --output json topic list"),
        ("topic list a b", "too many arguments: b", "magnetar topic list --help"),
        ("topic create", "TOPIC is missing", "magnetar topic create --help"),
        ("subscription seek a b", "--to is missing", "magnetar subscription seek --help"),
        ("subscription seek a b --to", "--to requires a value", "magnetar subscription seek --help"),
        ("topic split a b", "SEGMENT must be an integer, got 'b'", "magnetar topic split --help"),
        ("--timeout soon topic list", "--timeout must be a number, got 'soon'", "magnetar topic list --help"),
        ("standalne --port 0", "unknown command 'standalne'", "magnetar standalone --port 0"),
    ],
)
def test_what_was_perhaps_meant_is_told_whole(
    given: str, what: str, run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(shlex.split(given)) == Exit.USAGE
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"magnetar: {what}"
    assert f"  run: {run}" in lines
    assert lines[-1] == "  code: E200"
    assert any(line.startswith("  why: ") for line in lines)


def test_how_a_command_is_used_is_told_with_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    main(["subscription", "seek", "a"])
    assert "  why: usage: magnetar subscription seek TOPIC NAME --to TO [OPTIONS]" in capsys.readouterr().err
