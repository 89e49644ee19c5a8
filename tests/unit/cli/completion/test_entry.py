"""What shells are answered: the same words in each one's form, and never an error."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path

import pytest

from magnetar.cli.completion.entry import answer, complete
from magnetar.cli.main import main

URL = "http://127.0.0.1:1"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Nobody listens; what is offered was remembered."""
    return {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "MAGNETAR_ADMIN_URL": URL,
    }


def remember(environment: dict[str, str], path: str, names: object, url: str = URL, token: str = "") -> None:
    folder = Path(environment["XDG_CACHE_HOME"]) / "magnetar" / "completion"
    folder.mkdir(parents=True, exist_ok=True)
    name = sha256(f"{url}\n{token}\n{path}".encode()).hexdigest()[:40]
    (folder / name).write_text(json.dumps(names))


def bash(environment: dict[str, str], line: str) -> list[str]:
    told = {**environment, "_MAGNETAR_LINE": line, "_MAGNETAR_BREAKS": " \t\n\"'><=;|&(:"}
    return answer(["bash"], told).splitlines()


def test_words_come_with_what_they_mean(environment: dict[str, str]) -> None:
    assert answer(["zsh", "topic", "lo"], environment) == "words\nlookup\tShow the broker that serves a topic\n"
    assert answer(["fish", "-o", "js"], environment) == "words\njson\t\njsonl\t\n"
    assert bash(environment, "magnetar topic list --output=js") == ["words", "json\t", "jsonl\t"]
    told = {**environment, "_MAGNETAR_LINE": "magnetar topic list --output=js"}
    assert answer(["powershell"], told).splitlines() == ["words", "--output=json\t", "--output=jsonl\t"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_empty_word_is_word(environment: dict[str, str], shell: str) -> None:
    told = {**environment, "_MAGNETAR_LINE": "magnetar key "}
    assert answer([shell, "key", ""], told).splitlines()[1].startswith("where\t")
    told = {**environment, "_MAGNETAR_LINE": "magnetar key"}
    assert answer([shell, "key"], told).splitlines()[1].startswith("key\t")


def test_step_of_name_has_no_blank_behind_it(environment: dict[str, str]) -> None:
    remember(environment, "/admin/v2/tenants", ["public", "acme"])
    assert answer(["zsh", "topic", "show", "topic://a"], environment) == "nospace\ntopic://acme/\t\n"
    assert bash(environment, "magnetar topic show topic://a") == ["nospace", "//acme/\t"]


def test_files_are_shells_own_concern(environment: dict[str, str]) -> None:
    assert answer(["zsh", "standalone", "--conf", "x"], environment) == "files\n"


def test_contexts_come_from_their_file_and_decide_who_is_asked(environment: dict[str, str]) -> None:
    path = Path(environment["XDG_CONFIG_HOME"]) / "magnetar" / "contexts.toml"
    path.parent.mkdir(parents=True)
    path.write_text('[contexts.prod]\nadmin_url = "http://p"\ntoken = "t"\n[contexts.test]\nurl = "pulsar://t"\n')
    assert answer(["zsh", "context", "use", "p"], environment) == "words\nprod\thttp://p\n"
    assert answer(["zsh", "topic", "list", "--context=t"], environment) == "words\n--context=test\tpulsar://t\n"
    del environment["MAGNETAR_ADMIN_URL"]
    remember(environment, "/admin/v2/tenants", ["of-prod"], "http://p", "t")
    assert answer(["fish", "--context", "prod", "tenant", "show", ""], environment) == "words\nof-prod\t\n"


def test_name_that_would_do_harm_is_mere_word(environment: dict[str, str]) -> None:
    remember(environment, "/admin/v2/tenants", ["$(reboot)", "a;b", "new\nline", "es\x1bcape"])
    assert bash(environment, "magnetar tenant show ") == ["words", "\\$\\(reboot\\)\t", "a\\;b\t"]
    told = {**environment, "_MAGNETAR_LINE": "magnetar tenant show "}
    assert answer(["powershell"], told).splitlines() == ["words", "'$(reboot)'\t", "'a;b'\t"]


@pytest.mark.parametrize(
    "arguments",
    [[], ["bash"], ["zsh"], ["tcsh", "topic"], ["zsh", "--"], ["zsh", "-"], ["zsh", "\udcff"], ["zsh", "a=b="]],
)
def test_nothing_is_ever_error(
    arguments: list[str], environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert complete(arguments, environment) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert shown.out.split("\n")[0] in ("words", "nospace", "files")


def test_broken_file_of_contexts_is_silence(environment: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(environment["XDG_CONFIG_HOME"]) / "magnetar" / "contexts.toml"
    path.parent.mkdir(parents=True)
    path.write_text("[[[")
    assert complete(["zsh", "context", "use", ""], environment) == 0
    assert capsys.readouterr() == ("words\n", "")


def test_hidden_command_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["__complete", "zsh", "stand"]) == 0
    assert capsys.readouterr().out.startswith("words\nstandalone\t")
    assert "_MAGNETAR_LINE" not in os.environ
