"""Flag, environment, context, client.conf, default: with real files and the real command line, in every combination."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from magnetar.cli.exit_codes import ErrorWithHint
from magnetar.cli.main import build, in_order
from magnetar.cli.options import Common
from magnetar.cli.settings.resolve import KNOBS, SettingValue, Source
from magnetar.cli.settings.sources import gather, revealed

SETTINGS = ("url", "admin_url", "token", "timeout")
LAYERS = ("flag", "environment", "context", "client.conf")
COMBINATIONS = list(product((True, False), repeat=len(LAYERS)))
CONF = {"url": "brokerServiceUrl", "admin_url": "webServiceUrl", "token": "authParams"}
APP = build("tenant")
ORDER = {"flag": 1, "environment": 2, "context": 3, "client.conf": 4}

Parse = Callable[..., Common]


@pytest.fixture
def parse(home: Path) -> Parse:
    def parsed(*arguments: str) -> Common:
        tokens = in_order([*arguments, "tenant", "list"])
        _, bound, _ = APP.parse_args(tokens, exit_on_error=False, print_error=False)
        common: Common = bound.arguments.get("common", Common())
        return common

    return parsed


def contexts(home: Path, text: str) -> Path:
    path = home / "magnetar" / "contexts.toml"
    path.write_text(text)
    return path


def value(setting: str, layer: str) -> str:
    return str(ORDER[layer]) if setting == "timeout" else f"{layer}-{setting}"


@pytest.mark.parametrize("shift", [0, 1])  # all settings alike, and each another
@pytest.mark.parametrize("number", range(16))
def test_every_combination_of_sources_yields_value_of_command(
    home: Path, parse: Parse, monkeypatch: pytest.MonkeyPatch, number: int, shift: int
) -> None:
    arguments, context, conf = [], ["[contexts.here]"], ["authPlugin=token"]
    expected: dict[str, object] = {}
    for place, setting in enumerate(SETTINGS):
        speaking = dict(zip(LAYERS, COMBINATIONS[(number + 5 * shift * place) % 16], strict=True))
        if setting == "timeout":
            speaking["client.conf"] = False  # it has no word for it
        said = value(setting, "flag"), value(setting, "environment"), value(setting, "context")
        if speaking["flag"]:
            arguments += [KNOBS[setting].flag, said[0]]
        if speaking["environment"]:
            monkeypatch.setenv(KNOBS[setting].variables[0], said[1])
        if speaking["context"]:
            context.append(f"{setting} = {said[2] if setting == 'timeout' else repr(said[2])}")
        if speaking["client.conf"]:
            conf.append(f"{CONF[setting]}={value(setting, 'client.conf')}")
        winner = next((layer for layer in LAYERS if speaking[layer]), None)
        default = {"timeout": 30.0, "token": None}.get(setting, KNOBS[setting].default)
        found = default if winner is None else value(setting, winner)
        expected[setting] = float(found) if setting == "timeout" and isinstance(found, str) else found
    contexts(home, "\n".join(context))
    (home / "client.conf").write_text("\n".join(conf))
    common = parse(*arguments, "--context", "here", "--client-conf", str(home / "client.conf"))
    assert {setting: getattr(common, setting) for setting in SETTINGS} == expected


@pytest.mark.parametrize("by_flag", [True, False])
@pytest.mark.parametrize("by_variable", [True, False])
@pytest.mark.parametrize("current", [True, False])
def test_which_context_counts(
    home: Path, parse: Parse, monkeypatch: pytest.MonkeyPatch, by_flag: bool, by_variable: bool, current: bool
) -> None:
    names = ("flag", "variable", "current")
    tables = "".join(f'[contexts.{name}]\nurl = "pulsar://{name}"\n' for name in names)
    contexts(home, ('current = "current"\n' if current else "") + tables)
    if by_variable:
        monkeypatch.setenv("MAGNETAR_CONTEXT", "variable")
    common = parse(*(["--context=flag"] if by_flag else []))
    spoken = [name for name, one in zip(names, (by_flag, by_variable, current), strict=True) if one]
    assert common.url == (f"pulsar://{spoken[0]}" if spoken else KNOBS["url"].default)


def test_empty_flag_turns_context_and_token_off(home: Path, parse: Parse, monkeypatch: pytest.MonkeyPatch) -> None:
    contexts(home, 'current = "a"\n[contexts.a]\nurl = "pulsar://a"\ntoken = "t"')
    assert parse().token == "t"
    assert parse("--token", "").token is None
    assert parse("--context", "").url == KNOBS["url"].default
    monkeypatch.setenv("MAGNETAR_TOKEN", "")
    assert parse().token == "t", "an empty variable says nothing"


def test_our_variable_for_client_conf_wins_over_pulsars(
    home: Path, parse: Parse, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ours", "theirs"):
        (home / name).write_text(f"brokerServiceUrl=pulsar://{name}")
    monkeypatch.setenv("PULSAR_CLIENT_CONF", str(home / "theirs"))
    assert parse().url == "pulsar://theirs"
    monkeypatch.setenv("MAGNETAR_CLIENT_CONF", str(home / "ours"))
    assert parse().url == "pulsar://ours"


@pytest.mark.parametrize(
    ("arguments", "text", "said", "fact"),
    [
        (["--context", "nope"], "", "context nope does not exist", "--context"),
        ([], 'current = "gone"', "context gone does not exist", "contexts.toml:1"),
        ([], "version = 1\nnot toml", "invalid", "contexts.toml:2"),
        (["--client-conf", "/no/such/file"], "", "client.conf cannot be read", "/no/such/file"),
        ([], 'current = "a"\n[contexts.a]\ntoken_file = "/no/such/file"', "cannot be read from", "contexts.toml:3"),
    ],
)
def test_what_is_wrong_with_source_ends_command_and_says_where(
    home: Path, parse: Parse, arguments: list[str], text: str, said: str, fact: str
) -> None:
    contexts(home, text)
    with pytest.raises(ErrorWithHint) as caught:
        parse(*arguments)
    assert said in str(caught.value.error)
    assert fact in str(caught.value.error)
    assert caught.value.run


def test_broken_file_does_not_stop_command_that_asks_no_broker(home: Path) -> None:
    contexts(home, "not toml")
    build("demo").parse_args(["demo", "--seconds", "1"], exit_on_error=False, print_error=False)


def test_secret_is_fetched_from_where_it_is_held(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(" abc\n")
    assert revealed(SettingValue(Source.CONTEXT, "f:1", str(tmp_path / "token"), "file"), {}) == "abc"
    assert revealed(SettingValue(Source.CLIENT_CONF, "f:1", "MY", "env"), {"MY": "abc"}) == "abc"
    assert revealed(SettingValue(Source.FLAG, "", "abc"), {}) == "abc"


def test_file_with_token_that_others_may_read_is_doubted(home: Path) -> None:
    path = contexts(home, '[contexts.a]\ntoken = "t"')
    path.chmod(0o644)
    environment = {"XDG_CONFIG_HOME": str(home)}
    assert any("chmod 600" in doubt for doubt in gather({}, environment).doubts)
    path.chmod(0o600)
    assert gather({}, environment).doubts == ()
