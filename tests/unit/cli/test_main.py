"""The command line from outside: what it prints where, and how it ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from magnetar import __version__
from magnetar.cli.exit_codes import Exit
from magnetar.cli.main import NOUNS, SINGLE, TASKS, examples, in_order, main


def test_version_is_told_without_loading_anything_heavy() -> None:
    script = "import sys; from magnetar.cli.main import main; main(['--version']); print(*sorted(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    version, modules = ran.stdout.splitlines()
    assert version == f"magnetar {__version__}"
    heavy = {"asyncio", "cyclopts", "rich", "google.protobuf", "msgspec", "uvloop", "sqlite3", "starlette"}
    assert not heavy & set(modules.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["standalon"], "standalon"),
        (["standalone", "--prot", "6650"], "--prot"),
        (["standalone", "--port", "many"], "many"),
        (["standalone", "--port", "70000"], "65535"),
        (["standalone", "--conf", "there-is-no-such-file.conf"], "there-is-no-such-file.conf"),
        (["standalone", "--data"], "--data"),
    ],
)
def test_usage_mistake_says_what_and_what_to_run(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == Exit.USAGE
    shown = capsys.readouterr()
    assert shown.out == ""
    assert said in shown.err
    assert "run: magnetar" in shown.err
    assert "usage: magnetar standalone" in shown.err or "detail: the nouns are" in shown.err
    assert "code: E2" in shown.err
    assert "Traceback" not in shown.err


@pytest.mark.parametrize(
    ("given", "ordered"),
    [
        (["topic", "list"], ["topic", "list"]),
        (["topics", "list", "x"], ["topic", "list", "x"]),
        (["-o", "json", "topic", "list", "x"], ["topic", "list", "-o", "json", "x"]),
        (["--url=a", "-q", "topics", "list"], ["topic", "list", "--url=a", "-q"]),
        (["--timeout", "3", "api", "GET", "/x"], ["api", "--timeout", "3", "GET", "/x"]),
        (["spark", "offsets", "show", "x", "-q"], ["spark", "offsets", "show", "x", "-q"]),
        (["-q", "spark", "offsets", "x"], ["spark", "offsets", "-q", "show", "x"]),
        (["spark"], ["spark"]),
        (["-o", "json"], ["-o", "json"]),
        (["--help"], ["--help"]),
        ([], []),
    ],
)
def test_options_before_noun_and_words_left_out_find_their_place(given: list[str], ordered: list[str]) -> None:
    assert in_order(given) == ordered


def test_examples_are_lines_docstring_shows() -> None:
    assert examples("Text.\n\n    $ magnetar a b\n    $ other\n") == ["magnetar a b"]


@pytest.mark.parametrize("command", SINGLE)
def test_help_of_command_without_verbs_shows_each_example_once(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--help"]) == Exit.OK
    shown = capsys.readouterr().out
    assert "Examples:" in shown
    assert f"$ magnetar {command}" not in shown


def test_data_folder_that_is_file_is_refused_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = tmp_path / "file"
    taken.write_text("x")
    assert main(["standalone", "--data", str(taken)]) == Exit.USAGE
    assert str(taken) in capsys.readouterr().err


def test_help_goes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == Exit.OK
    assert "standalone" in capsys.readouterr().out
    assert main(["standalone", "--help"]) == Exit.OK
    shown = capsys.readouterr().out
    assert all(option in shown for option in ("--data", "--port", "--http-port", "--conf"))


@pytest.mark.parametrize("library", ["cyclopts", "rich"])
@pytest.mark.parametrize("arguments", [[], ["--help"], ["topic", "list"]])
def test_missing_library_is_told_with_extra(library: str, arguments: list[str]) -> None:
    """As after `pip install magnetar`, which brings the client alone."""
    script = f"import sys; sys.modules[{library!r}] = None; from magnetar.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", script, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (Exit.FAILURE, ""), ran.stderr
    assert f"the package {library} is missing" in ran.stderr
    assert "run: pip install 'magnetar[cli]'" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_root_help_lists_nouns_by_task_with_examples(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    main(["--help"])
    shown = capsys.readouterr().out
    panels = [f"─ {title} ─" for title in [*TASKS, "Options"]]
    order = ["Usage: magnetar [OPTIONS] NOUN VERB", "before the noun", *panels, "Examples:", "--output json"]
    places = [shown.index(text) for text in order]
    assert places == sorted(places)


def test_every_noun_and_command_has_task() -> None:
    names = [name for task in TASKS.values() for name in task]
    assert sorted(names) == sorted([*NOUNS, *SINGLE])


def test_help_text_breaks_at_width_of_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    main(["message", "consume", "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert "seconds. The exit code is 6 if fewer than COUNT messages arrived." in lines


def test_module_is_same_command_as_script():
    done = subprocess.run(
        [sys.executable, "-m", "magnetar", "--version"], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == f"magnetar {__version__}\n"
