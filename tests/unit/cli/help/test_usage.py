"""Commands that are nearly right: what was meant is told whole, ready to be run."""

from __future__ import annotations

import shlex

import pytest

from magnetar.cli.exit_codes import Exit
from magnetar.cli.main import main

STANDALONE = "magnetar standalone --bind-address=h --http-port=1"


@pytest.mark.parametrize(
    ("given", "what", "run"),
    [
        ("topc lst", "unknown command 'topc'", "magnetar topic list"),
        ("topc lst public/default -o json", "unknown command 'topc'", "magnetar topic list public/default -o json"),
        ("topc list", "unknown command 'topc'", "magnetar topic list"),
        ("topic lst 'a b'", "unknown command 'topic lst'", "magnetar topic list 'a b'"),
        ("subscriptions shwo x y", "unknown command 'subscription shwo'", "magnetar subscription show x y"),
        ("frobnicate", "unknown command 'frobnicate'", "magnetar --help"),
        ("topic frobnicate", "unknown command 'topic frobnicate'", "magnetar topic --help"),
        ("topic list --limt=3", "unknown option --limt", "magnetar topic list --limit=3"),
        ("topic list --frobnicate", "unknown option --frobnicate", "magnetar topic list --help"),
        (
            "standalone --host h --web-port 1",
            "unknown option --host",
            "magnetar standalone --bind-address h --http-port 1",
        ),
        ("topic list --limt=3 --frobnicate", "unknown option --limt", "magnetar topic list --help"),
        ("--outptu json topic list", "unknown option --outptu", "magnetar --output json topic list"),
        ("topic list a b", "too many arguments: b", "magnetar topic list --help"),
        ("topic create", "TOPIC is missing", "magnetar topic create --help"),
        ("subscription seek a b", "--to is missing", "magnetar subscription seek --help"),
        ("subscription seek a b --to", "--to requires a value", "magnetar subscription seek --help"),
        ("topic split a b", "SEGMENT must be an integer, got 'b'", "magnetar topic split --help"),
        ("--timeout soon topic list", "--timeout must be a number, got 'soon'", "magnetar topic list --help"),
        ("topic list --frobnicate=1", "unknown option --frobnicate", "magnetar topic list --help"),
        ("topic list -z", "unknown option -z", "magnetar topic list --help"),
        ("topic list --limit 3 --limit 4", "--limit must be given only once", "magnetar topic list --help"),
        ("topic list --timeout 0", "--timeout must be greater than 0, got '0'", "magnetar topic list --help"),
        ("standalone --port 70000", "--port must be at most 65535, got '70000'", "magnetar standalone --help"),
        ("standalone --conf /no-file", '--conf is invalid: "/no-file" does not exist', "magnetar standalone --help"),
        ("api GTE /x", "METHOD must be one of GET, POST, PUT, DELETE, got 'GTE'", "magnetar api GET /x"),
        ("api X /x", "METHOD must be one of GET, POST, PUT, DELETE, got 'X'", "magnetar api --help"),
        ("standalne --port 0", "unknown command 'standalne'", "magnetar standalone --port 0"),
    ],
)
def test_wrong_command_line_is_answered_with_whole_command(
    given: str, what: str, run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(shlex.split(given)) == Exit.USAGE
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"magnetar: {what}"
    assert f"  run: {run}" in lines
    assert lines[-1] == "  code: E200"
    assert any(line.startswith(("  usage: magnetar ", "  detail: ")) for line in lines)


def test_how_command_is_used_is_told_with_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    main(["subscription", "seek", "a"])
    assert "  usage: magnetar subscription seek TOPIC NAME --to TO [OPTIONS]" in capsys.readouterr().err


def test_misspelt_choice_is_reported_with_similar_one(capsys: pytest.CaptureFixture[str]) -> None:
    main(["topic", "list", "--output", "jsno"])
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "magnetar: --output must be one of table, json, jsonl, yaml, csv, name, got 'jsno'"
    assert lines[2:4] == ["  near: json", "  run: magnetar topic list --output json"]


@pytest.mark.parametrize(
    "command",
    ["subscription seek a b --to soon", "subscription create a b --start soon", "message read a --start soon"],
)
def test_malformed_position_is_refused_before_connection(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    nowhere = ["--url", "pulsar://localhost:1", "--admin-url", "http://localhost:1"]
    assert main([*command.split(), *nowhere]) == Exit.USAGE
    assert "a position must be earliest, latest" in capsys.readouterr().err
