"""The contract, asked of every command there is: the tree is walked from the app itself, so that none escapes.

A verb reads, changes, or is traffic; which one its own parameters say. Its first example is what it is tried with, on
a live broker, in every form of output.
"""

from __future__ import annotations

import csv
import inspect
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import cyclopts
import pytest

from magnetar.cli.exit_codes import Exit
from magnetar.cli.main import NOUNS, build, examples, module_of
from magnetar.cli.options import COMMON, Change, Traffic
from magnetar.cli.output.output import Form
from magnetar.cli.output.watch_screen import WatchFrame
from tests.cli import yamlreader
from tests.cli.conftest import Ran, Run
from tests.cli.stage import staged
from tests.servers.standalone import Standalone

FORMS: tuple[Form, ...] = get_args(Form)
# Neither read nor change in the sense of the contract, and why.
OTHERS = {
    "message read": "it follows by itself: --follow",
    "spark init": "it writes files of a project, and asks no broker",
    "standalone": "it is the broker",
    "demo": "it brings its own broker",
    "completion": "it prints a script",
}
EVERYWHERE = {"--output", "--timeout", "--no-color", "--no-input", "--quiet", "--url", "--admin-url", "--token"}


def leaves(app: cyclopts.App, path: tuple[str, ...] = ()) -> Iterator[tuple[str, cyclopts.App]]:
    for name in app:
        if not name.startswith("-"):
            if app[name].default_command is None:
                yield from leaves(app[name], (*path, name))
            else:
                yield " ".join((*path, name)), app[name]


def function_of(command: str) -> Callable[..., Any]:
    """As it was written, without what registration adds."""
    noun, _, verb = command.partition(" ")
    module = import_module(module_of(noun))
    found: Callable[..., Any] = module.VERBS[verb] if noun in NOUNS else getattr(module, noun)
    return found


def kind_of(command: str) -> str:
    taken = inspect.signature(function_of(command), eval_str=True).parameters
    change = taken["change"].annotation if "change" in taken else None
    if change is None:
        return "other" if command in OTHERS else "read"
    return "change" if issubclass(change, Change) else "traffic" if issubclass(change, Traffic) else "unknown"


APP = build("*")
COMMANDS = dict(leaves(APP))
READS = [command for command in COMMANDS if kind_of(command) == "read"]
CHANGES = [command for command in COMMANDS if kind_of(command) == "change"]
TRAFFIC = [command for command in COMMANDS if kind_of(command) == "traffic"]


def options_of(command: str) -> set[str]:
    return {name for one in COMMANDS[command].assemble_argument_collection() for name in one.names}


def test_every_command_has_what_its_kind_promises() -> None:
    assert set(COMMANDS) == {*READS, *CHANGES, *TRAFFIC, *OTHERS}
    assert len(READS) > 15
    assert len(CHANGES) > 15
    for command in READS:
        assert {"--watch", *EVERYWHERE} <= options_of(command), command
    for command in CHANGES:
        assert {"--dry-run", "--yes", "--wait", "--no-wait", *EVERYWHERE} <= options_of(command), command
    for command in TRAFFIC:
        assert {"--dry-run", *EVERYWHERE} <= options_of(command), command
    for command in CHANGES:
        if command.endswith((" create", " delete")):
            assert {"--if-not-exists", "--if-exists"} & options_of(command), command


def test_every_command_shows_example_in_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    for command, app in COMMANDS.items():
        shown = examples(function_of(command).__doc__)
        assert shown, command
        assert all(line.startswith(f"magnetar {command}") for line in shown), command
        assert f"  {shown[0]}" in (app.help_epilogue or ""), command


# On a live broker


@pytest.fixture
def stage(
    magnetar: Run, broker: Standalone, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], list[str]]:
    """The first example of a command, ready to be run, without a form of its own."""

    def stage(command: str) -> list[str]:
        words = staged(examples(function_of(command).__doc__)[0], magnetar, broker, own_home, monkeypatch)[1:]
        if "-o" in words:
            del words[words.index("-o") : words.index("-o") + 2]
        return words

    return stage


def check(form: Form, ran: Ran) -> None:
    """It is what it says it is, and nothing else."""
    match form:
        case "json":
            ran.json  # noqa: B018  # it raises
        case "jsonl":
            assert ran.lines is not None
        case "yaml":
            yamlreader.read(ran.out)
        case "csv":
            header, *rows = csv.reader(io.StringIO(ran.out, newline=""), strict=True)
            assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) for name in header), header
            assert len(set(header)) == len(header)
            assert {len(row) for row in rows} <= {len(header)}
        case "name":
            assert all(line.strip() == line and line for line in ran.out.splitlines())
        case "table":
            assert not ran.out.startswith(("{", "["))
    assert "\x1b" not in ran.out


@pytest.mark.parametrize("command", READS)
def test_read_output_can_be_parsed_in_every_form(
    magnetar: Run, stage: Callable[[str], list[str]], command: str, capfd: pytest.CaptureFixture[str]
) -> None:
    words = stage(command)
    found: dict[Form, Ran] = {}
    for form in FORMS:
        found[form] = magnetar(*words, "-o", form)
        assert found[form].code == 0, found[form].err
        check(form, found[form])
    written, read = found["json"].json, yamlreader.read(found["yaml"].out)
    assert type(written) is type(read)
    assert not isinstance(written, dict) or list(written) == list(read)
    assert found["csv"].out.splitlines()

    _, bound, _ = build("*").parse_args(words, exit_on_error=False, print_error=False)
    look = WatchFrame("json", terminal=False)
    given = {**bound.kwargs, "common": replace(bound.kwargs.get("common", COMMON), sink=look)}
    given.pop("watch", None)
    capfd.readouterr()
    function_of(command)(*bound.args, **given)
    assert look.shown is not None
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("command", [*CHANGES, *TRAFFIC])
def test_what_is_planned_and_what_is_done_can_be_parsed(
    magnetar: Run, stage: Callable[[str], list[str]], command: str
) -> None:
    words = [word for word in stage(command) if word not in ("--dry-run", "--yes")]
    for form in FORMS:
        ran = magnetar(*words, "--dry-run", "-o", form)
        assert ran.code == 0, ran.err
        check(form, ran)
    if command in TRAFFIC:
        return  # done in test_verbs, and by every example
    form = FORMS[CHANGES.index(command) % len(FORMS)]
    ran = magnetar(*words, "--yes", "-o", form)
    assert ran.code == 0, ran.err
    check(form, ran)
    if form not in ("table", "name"):
        assert ran.out, "a change that REST answers with nothing tells its steps"


def test_every_exit_code_is_met(magnetar: Run, name: str) -> None:
    """The other tests say of what; this one that none is only on paper."""
    unreachable = "http://localhost:1"
    met = {
        0: magnetar("tenant", "list"),
        1: magnetar("tenant", "list", "--admin-url", unreachable),
        2: magnetar("tenant", "list", "too much"),
        3: magnetar("tenant", "show", name),
        4: magnetar("tenant", "create", "public"),
        6: magnetar("message", "consume", name, "-s", "s", "--wait", "0.1"),
    }
    magnetar("context", "add", "nowhere", "--admin-url", unreachable, "--url", "pulsar://localhost:1")
    met[7] = magnetar("context", "test", "nowhere")
    assert {code: ran.code for code, ran in met.items()} == {code: code for code in met}
    # 5 is test_what_broker_refuses_has_its_exit_code in test_answers: nobody is refused here. 75 ends a broker whose
    # metadata is in ZooKeeper: test_every_error_of_tree_has_its_exit_code.
    assert {*met, Exit.NOT_ALLOWED, Exit.SESSION_LOST} == set(Exit)
