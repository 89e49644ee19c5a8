"""Every error of the tree has one exit code, whatever command it ends."""

from __future__ import annotations

import pytest

from magnetar.base import errors
from magnetar.cli.exit_codes import CODES, Exit, code_for, exit_for, folded, tell_error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InvalidName("x"), 2),
        (errors.TopicNotFound("x"), 3),
        (errors.BadVersion("x"), 4),
        (errors.AlreadyExists("x"), 4),
        (errors.Sealed("x"), 4),
        (errors.Fenced("x"), 4),
        (errors.NotAuthorized("x"), 5),
        (errors.TimedOut("x"), 6),
        (errors.ConnectionLost("x"), 1),
        (errors.StorageFull("x"), 1),
        (errors.SessionLost("x"), 75),
    ],
)
def test_every_error_of_tree_has_its_exit_code(error: errors.MagnetarError, code: int) -> None:
    assert exit_for(error) == code


def test_every_error_has_code_that_belongs_to_its_exit_code() -> None:
    kinds = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.MagnetarError)]
    for kind in kinds:
        error = kind("x")
        assert code_for(error)[1:].startswith(str(exit_for(error).value)), kind
    assert len(set(CODES.values())) == len(CODES)


def test_error_shows_what_why_near_and_next_command(capsys: pytest.CaptureFixture[str]) -> None:
    error = errors.TopicNotFound("no such topic", call="GET /x")
    assert tell_error(error, near=["orders"], run="magnetar topic list") == Exit.NOT_FOUND
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        "magnetar: no such topic",
        "  why: no object has this name",
        "  detail: call=GET /x",
        "  near: orders",
        "  run: magnetar topic list",
        "  code: E301",
    ]


def test_misuse_with_facts_has_no_general_reason(capsys: pytest.CaptureFixture[str]) -> None:
    tell_error(errors.Misuse("the interval must be a time", watch="abc"))
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0].strip() for line in lines] == ["magnetar", "detail", "run", "code"]


def test_refusal_whose_words_name_nothing_is_told_with_name(capsys: pytest.CaptureFixture[str]) -> None:
    tell_error(errors.NotFound("Tenant does not exist"), name="acme", run="magnetar tenant list")
    assert capsys.readouterr().err.splitlines() == [
        "magnetar: Tenant does not exist: acme",
        "  why: no object has this name",
        "  run: magnetar tenant list",
        "  code: E300",
    ]


def test_every_error_has_four_parts(capsys: pytest.CaptureFixture[str]) -> None:
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, errors.MagnetarError):
            tell_error(kind("x"), command="magnetar topic list")
            parts = [line.partition(": ") for line in capsys.readouterr().err.splitlines()]
            assert [part[0].strip() for part in parts] == ["magnetar", "why", "run", "code"], kind
            assert all(part[2] for part in parts), kind


def test_long_line_is_wrapped_in_window_and_whole_in_pipe() -> None:
    long = "  why: there are " + ", ".join(f"command-{number}" for number in range(12))
    assert folded(long, 0) == folded(long, 200) == long
    lines = folded(long, 60).split("\n")
    assert len(lines) == 3
    assert all(len(line) <= 60 for line in lines)
    assert all(line.startswith("       command-") for line in lines[1:])
    assert "  " + " ".join(line.strip() for line in lines) == long
    assert folded("magnetar: " + "x" * 90, 60) == "magnetar:\n" + " " * 10 + "x" * 90, "a name is never cut"
