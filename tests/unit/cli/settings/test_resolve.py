"""Who has the last word on a setting: every set of sources that can speak, for every setting."""

from __future__ import annotations

from itertools import combinations, permutations

import pytest

from magnetar.cli.settings.resolve import (
    KNOBS,
    Setting,
    SettingValue,
    Source,
    by_default,
    by_environment,
    by_flags,
    doubts,
    resolve,
    shown,
)
from magnetar.client.connection.address import without_password

ALL = [SettingValue(layer, f"in {layer.title}", f"value of {layer.title}") for layer in Source]
SUBSETS = [subset for count in range(len(ALL) + 1) for subset in combinations(ALL, count)]
SECRET = "eyJhbGciOi.very.secret"


@pytest.mark.parametrize("subset", SUBSETS, ids=lambda subset: "+".join(said.layer.title for said in subset) or "none")
def test_highest_source_wins_and_others_are_listed_in_order(
    subset: tuple[SettingValue, ...],
) -> None:
    order = [Source.FLAG, Source.ENVIRONMENT, Source.CONTEXT, Source.CLIENT_CONF, Source.DEFAULT]
    expected = [next(said for said in subset if said.layer is layer) for layer in order if layer in _layers(subset)]
    for spoken in permutations(subset):  # in whatever order they are asked
        found = resolve("url", spoken)
        assert [found.won, *found.overrode] == (expected or [None])


def _layers(said: tuple[SettingValue, ...]) -> set[Source]:
    return {one.layer for one in said}


def test_of_two_in_one_layer_first_wins() -> None:
    found = resolve(
        "client_conf", by_environment("client_conf", {"PULSAR_CLIENT_CONF": "p", "MAGNETAR_CLIENT_CONF": "m"})
    )
    assert found.value == "m"
    assert [one.where for one in found.overrode] == ["PULSAR_CLIENT_CONF"]


def test_empty_variable_is_ignored_and_empty_flag_unsets() -> None:
    assert by_environment("token", {"MAGNETAR_TOKEN": ""}) == []
    found = resolve("token", [*by_flags("token", {"token": ""}), *by_environment("token", {"MAGNETAR_TOKEN": "x"})])
    assert found.value == ""
    assert found.is_given


def test_nobody_spoke_and_there_is_no_default() -> None:
    assert resolve("token", by_default("token")) == Setting("token", None)
    assert resolve("url", by_default("url")).value == KNOBS["url"].default


@pytest.mark.parametrize("layer", Source)
def test_token_is_never_shown_whoever_said_it(layer: Source) -> None:
    told = shown("token", SettingValue(layer, "", SECRET))
    assert SECRET not in told
    assert not any(part in told for part in SECRET.split("."))
    assert str(len(SECRET)) in told


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://ada:lovelace@host:8080/x", "http://ada:***@host:8080/x"),
        ("https://ada:a@b:c@host", "https://ada:***@host"),
        ("http://host:8080", "http://host:8080"),
        ("pulsar://a:6650,b:6650", "pulsar://a:6650,b:6650"),
        ("http://ada@host", "http://ada@host"),
        ("nonsense", "nonsense"),
    ],
)
def test_address_is_shown_without_its_password(url: str, told: str) -> None:
    assert without_password(url) == told
    assert shown("admin_url", SettingValue(Source.FLAG, "--admin-url", url)) == told


def _settings(**said: SettingValue | None) -> dict[str, Setting]:
    return {name: Setting(name, said.get(name)) for name in KNOBS}


def test_half_place_is_doubted() -> None:
    default = SettingValue(Source.DEFAULT, "", "http://localhost:8080")
    (doubt,) = doubts(_settings(url=SettingValue(Source.CONTEXT, "f:1", "pulsar://far"), admin_url=default))
    assert "admin_url has its default" in doubt
    assert doubts(_settings(url=default, admin_url=default)) == []


def test_token_that_goes_to_address_from_elsewhere_is_doubted() -> None:
    token = SettingValue(Source.CONTEXT, "contexts.toml:7", SECRET)
    (doubt,) = doubts(_settings(token=token, admin_url=SettingValue(Source.FLAG, "--admin-url", "http://x")))
    assert "contexts.toml:7" in doubt
    assert "--admin-url" in doubt
    assert SECRET not in doubt
    assert doubts(_settings(token=token, admin_url=SettingValue(Source.CONTEXT, "contexts.toml:6", "http://x"))) == []
