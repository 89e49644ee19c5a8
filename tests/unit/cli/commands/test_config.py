"""`magnetar config explain`: who won, where, over whom; and never a token."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from magnetar.cli.exit_codes import Exit
from magnetar.cli.main import main
from magnetar.cli.settings.resolve import KNOBS

SECRETS = ("flag-secret", "variable-secret", "context-secret", "conf-secret")
ALL = [*[f"--token={SECRETS[0]}"], "--url=pulsar://flag", "--context=here"]


@pytest.fixture
def home(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With something said in every place."""
    text = f'[contexts.here]\nurl = "pulsar://context"\ntoken = "{SECRETS[2]}"\n'
    (home / "magnetar" / "contexts.toml").write_text(text)
    (home / "magnetar" / "contexts.toml").chmod(0o600)
    (home / "client.conf").write_text(
        f"brokerServiceUrl=pulsar://conf\nauthPlugin=token\nauthParams=token:{SECRETS[3]}\nuseKeyStoreTls=false\n"
    )
    monkeypatch.setenv("MAGNETAR_CLIENT_CONF", str(home / "client.conf"))
    monkeypatch.setenv("MAGNETAR_TOKEN", SECRETS[1])
    return home


def test_each_setting_says_who_won_where_and_over_whom(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "explain", "-o", "json", *ALL]) == Exit.OK
    document = json.loads(capsys.readouterr().out)
    url = document["settings"]["url"]
    assert (url["value"], url["source"], url["where"]) == ("pulsar://flag", "flag", "--url")
    contexts, conf = home / "magnetar" / "contexts.toml", home / "client.conf"
    assert [(one["source"], one["where"], one["value"]) for one in url["overrode"]] == [
        ("context", f"{contexts}:2", "pulsar://context"),
        ("client.conf", f"{conf}:1", "pulsar://conf"),
        ("default", None, KNOBS["url"].default),
    ]
    assert document["ignored"] == [{"key": "useKeyStoreTls", "line": 4}]
    assert [one["source"] for one in document["settings"]["token"]["overrode"]] == [
        "environment",
        "context",
        "client.conf",
    ]


@pytest.mark.parametrize("form", ["table", "json", "jsonl", "yaml", "csv", "name"])
@pytest.mark.parametrize("flags", [["--context=here"], ALL])
def test_no_token_is_shown_in_any_form(
    home: Path, capsys: pytest.CaptureFixture[str], form: str, flags: list[str]
) -> None:
    main(["config", "explain", "-o", form, *flags])
    shown = capsys.readouterr()
    assert shown.out
    assert not any(secret in shown.out + shown.err for secret in SECRETS)


def test_people_see_same(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["config", "explain", *ALL])
    shown = capsys.readouterr()
    lines = [line.split()[1:] for line in shown.out.splitlines() if line.startswith("url ")]
    contexts, conf = home / "magnetar" / "contexts.toml", home / "client.conf"
    assert lines == [
        ["pulsar://flag", "flag", "--url", "yes"],
        ["pulsar://context", "context", f"{contexts}:2", "no"],
        ["pulsar://conf", "client.conf", f"{conf}:1", "no"],
        [KNOBS["url"].default, "default", "-", "no"],
    ]
    assert f"useKeyStoreTls  {home / 'client.conf'}:4" in shown.out
    assert "admin_url has its default" in shown.err


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        ("version = 1\n[", [], "contexts.toml:2"),
        ("", ["--context", "nope"], "context nope does not exist"),
        ("", ["--client-conf", "nowhere"], "nowhere"),
        ('current = "a"\n[contexts.a]\ntoken_file = "nowhere"', ["--client-conf="], "nowhere"),
    ],
)
def test_faulty_setting_is_reported_and_others_are_explained(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.delenv("MAGNETAR_TOKEN")
    (home / "magnetar" / "contexts.toml").write_text(text)
    assert main(["config", "explain", "--url", "pulsar://flag", *arguments]) == Exit.USAGE
    shown = capsys.readouterr()
    assert "pulsar://flag" in shown.out
    assert said in shown.err
    assert "run: " in shown.err
    assert "Traceback" not in shown.err
