"""`magnetar context`: every verb on a file of its own, what it writes, what it says, how it ends."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from magnetar.cli.exit_codes import Exit
from magnetar.cli.main import main
from magnetar.cli.settings.context_document import HEAD, Contexts, added, using
from magnetar.cli.settings.context_file import load
from magnetar.cli.settings.resolve import KNOBS

Run = Callable[..., tuple[int, str, str]]
SECRET = "eyJ.secret.token"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for knob in KNOBS.values():
        for variable in knob.variables:
            monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "magnetar" / "contexts.toml"


@pytest.fixture
def run(path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def ran(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["context", *arguments])
        shown = capsys.readouterr()
        assert SECRET not in shown.out + shown.err, "a token was shown"
        assert "Traceback" not in shown.err
        return code, shown.out, shown.err

    return ran


@pytest.fixture
def stored(path: Path) -> Callable[[], Contexts]:
    """Two contexts, of which the first is current."""
    prod: dict[str, str | float] = {"url": "pulsar://p:6650", "admin_url": "http://p:8080", "token": SECRET}
    text = using(added(HEAD, "f", "prod", prod), "f", "prod")
    path.parent.mkdir()
    path.write_text(added(text, "f", "test", {"admin_url": "http://t:8080", "timeout": 5.0}))
    path.chmod(0o600)
    return lambda: load(str(path))


def test_what_flags_say_is_stored_and_nothing_else(
    path: Path, run: Run, stored: Callable[[], Contexts], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAGNETAR_URL", "pulsar://elsewhere")
    every = ["--url=pulsar://x", "--admin-url=http://x", f"--token={SECRET}", "--timeout=5"]
    assert run("add", "all", *every, "--use")[0] == Exit.OK
    assert run("add", "one", "--admin-url", "http://x")[0] == Exit.OK
    found = stored()
    assert found.current == "all"
    everything = {"url": "pulsar://x", "admin_url": "http://x", "token": SECRET, "timeout": 5.0}
    assert found.all["all"].fields == everything
    assert found.all["one"].fields == {"admin_url": "http://x"}
    assert list(found.all) == ["prod", "test", "all", "one"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_list_marks_one_in_use(run: Run, stored: Callable[[], Contexts], monkeypatch: pytest.MonkeyPatch) -> None:
    _, out, _ = run("list")
    assert [line.split()[:2] for line in out.splitlines()] == [["CONTEXT", "USED"], ["prod", "*"], ["test", "-"]]
    monkeypatch.setenv("MAGNETAR_CONTEXT", "test")
    _, out, _ = run("list", "-o", "json")
    assert [(one["name"], one["used"], one["adminUrl"]) for one in json.loads(out)] == [
        ("prod", False, "http://p:8080"),
        ("test", True, "http://t:8080"),
    ]
    assert run("list", "-o", "name")[1].split() == ["prod", "test"]


def test_one_is_shown_and_without_name_one_in_use(run: Run, stored: Callable[[], Contexts]) -> None:
    _, out, _ = run("show")
    assert "prod" in out
    assert "redacted" in out
    assert json.loads(run("show", "test", "-o", "json")[1])["timeout"] == 5.0


def test_another_one_is_used(run: Run, stored: Callable[[], Contexts], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("use", "test")[0] == Exit.OK
    assert stored().current == "test"
    monkeypatch.setenv("MAGNETAR_CONTEXT", "prod")
    assert "MAGNETAR_CONTEXT selects another context, prod" in run("use", "test")[2]


def test_edit_changes_what_it_says_and_leaves_rest(run: Run, stored: Callable[[], Contexts]) -> None:
    assert run("edit", "prod", "--admin-url", "http://new", "--unset", "token")[0] == Exit.OK
    assert stored().all["prod"].fields == {"url": "pulsar://p:6650", "admin_url": "http://new"}
    assert run("edit", "prod", "--token", SECRET)[0] == Exit.OK
    assert stored().all["prod"].fields["token"] == SECRET


def test_token_and_file_that_holds_one_take_each_others_place(
    run: Run, stored: Callable[[], Contexts], tmp_path: Path
) -> None:
    assert run("edit", "prod", "--token-file", str(tmp_path / "t"))[0] == Exit.OK
    assert stored().all["prod"].fields.get("token_file") == str(tmp_path / "t")
    assert "token" not in stored().all["prod"].fields
    assert run("edit", "prod", "--token", SECRET)[0] == Exit.OK
    assert "token_file" not in stored().all["prod"].fields
    assert run("edit", "prod", "--unset", "token")[0] == Exit.OK
    assert not {"token", "token_file"} & set(stored().all["prod"].fields)


def test_current_one_is_removed_and_none_is_current(run: Run, stored: Callable[[], Contexts]) -> None:
    code, _, err = run("remove", "prod", "--yes")
    assert code == Exit.OK
    assert "no context is current" in err
    found = stored()
    assert (found.current, list(found.all)) == ("", ["test"])


def test_removing_asks_and_without_terminal_refuses(run: Run, stored: Callable[[], Contexts]) -> None:
    code, out, err = run("remove", "prod")
    assert (code, out) == (Exit.USAGE, "")
    assert "--yes" in err
    assert list(stored().all) == ["prod", "test"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["add", "new", "--url", "pulsar://n", f"--token={SECRET}", "--use"],
        ["edit", "prod", f"--token={SECRET}x"],
        ["use", "test"],
        ["remove", "prod"],
    ],
)
def test_dry_run_says_what_would_be_written_and_writes_nothing(
    run: Run, path: Path, stored: Callable[[], Contexts], arguments: list[str]
) -> None:
    before = path.read_bytes()
    code, out, _ = run(*arguments, "--dry-run")
    assert code == Exit.OK
    assert str(path) in run(*arguments, "--dry-run", "-o", "json")[1]
    assert out
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["add", "prod", "--url", "pulsar://x"], Exit.CONFLICT, "context prod already exists"),
        (["add", "bad name", "--url", "pulsar://x"], Exit.USAGE, "letters"),
        (["add", "new"], Exit.USAGE, "the context is empty"),
        (["add", "new", "--url", "http://x"], Exit.USAGE, "pulsar://host:port"),
        (["add", "new", "--admin-url", "x"], Exit.USAGE, "http://host:port"),
        (["add", "new", "--admin-url", "http://["], Exit.USAGE, "http://host:port"),
        (["add", "new", "--url", "pulsar://x:port"], Exit.USAGE, "pulsar://host:port"),
        (["add", "new", "--token", "a", "--token-file", "b"], Exit.USAGE, "one of them"),
        (["add", "new", "--token", ""], Exit.USAGE, "must not be empty"),
        (["edit", "prod"], Exit.USAGE, "nothing to change"),
        (["edit", "prod", "--url", "pulsar://x", "--unset", "url"], Exit.USAGE, "must be either set or unset"),
        (["edit", "prdo", "--url", "pulsar://x"], Exit.NOT_FOUND, "near: prod"),
        (["show", "nope"], Exit.NOT_FOUND, "magnetar context add nope"),
        (["use", "nope"], Exit.NOT_FOUND, "context nope does not exist"),
        (["remove", "nope", "--yes"], Exit.NOT_FOUND, "context nope does not exist"),
        (["test", "nope"], Exit.NOT_FOUND, "context nope does not exist"),
        (["import-client-conf", "new", "/no/such/file"], Exit.USAGE, "cannot be read"),
    ],
)
def test_what_cannot_be_done_is_told_and_changes_nothing(
    run: Run, path: Path, stored: Callable[[], Contexts], arguments: list[str], code: Exit, said: str
) -> None:
    before = path.read_bytes()
    found, out, err = run(*arguments)
    assert (found, out) == (code, "")
    assert said in err
    assert path.read_bytes() == before


def test_broken_file_is_told_with_its_line_by_every_verb(run: Run, path: Path) -> None:
    path.parent.mkdir()
    path.write_text("version = 1\n\n[contexts.a\n")
    for arguments in (["list"], ["show"], ["use", "a"], ["add", "b", "--url", "pulsar://x"], ["remove", "a", "--yes"]):
        code, out, err = run(*arguments)
        assert (code, out) == (Exit.USAGE, "")
        assert f"{path}:3" in err
    assert path.read_text() == "version = 1\n\n[contexts.a\n"


def test_variable_naming_missing_context_does_not_block_its_creation(
    run: Run, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAGNETAR_CONTEXT", "new")
    assert run("add", "new", "--url", "pulsar://x")[0] == Exit.OK
    assert list(load(str(path)).all) == ["new"]


def test_client_conf_becomes_context(run: Run, path: Path, tmp_path: Path) -> None:
    conf = tmp_path / "client.conf"
    conf.write_text(
        f"webServiceUrl=http://w:8080\nbrokerServiceUrl=pulsar://b:6650\nauthPlugin=token\nauthParams=token:{SECRET}\n"
        "useKeyStoreTls=false\n"
    )
    code, _, err = run("import-client-conf", "old", str(conf), "--use")
    assert code == Exit.OK
    assert "not imported: useKeyStoreTls" in err
    found = load(str(path))
    assert found.current == "old"
    assert found.all["old"].fields == {"url": "pulsar://b:6650", "admin_url": "http://w:8080", "token": SECRET}
    conf.write_text("authPlugin=token\nauthParams=file:///t\nwebServiceUrl=http://w")
    assert run("import-client-conf", "held", str(conf))[0] == Exit.OK
    assert load(str(path)).all["held"].fields == {"admin_url": "http://w", "token_file": "/t"}
    conf.write_text("useKeyStoreTls=false")
    assert run("import-client-conf", "nothing", str(conf))[0] == Exit.USAGE
