"""Precedence of the sources of a setting: flag, environment, context, `client.conf`, default.

Pure: takes the values of all sources and returns, for each setting, the value in force and the overridden ones. It
reads no file and no environment and does not import the command line's library. It is cheap enough to load at every
press of TAB. It passes secrets through as values; code that displays one must use `shown`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from magnetar.client.connection.address import without_password


class Source(IntEnum):
    """A lower value has higher precedence."""

    FLAG = 1
    ENVIRONMENT = 2
    CONTEXT = 3
    CLIENT_CONF = 4
    DEFAULT = 5

    @property
    def title(self) -> str:
        return _TITLES[self]


_TITLES = {
    Source.FLAG: "flag",
    Source.ENVIRONMENT: "environment",
    Source.CONTEXT: "context",
    Source.CLIENT_CONF: "client.conf",
    Source.DEFAULT: "default",
}


class SettingValue(NamedTuple):
    """The value of one setting from one source. `where` is a flag, a variable, a file with its line, or empty. `held`
    means that the value is in the file or variable of that name.
    """

    layer: Source
    where: str
    value: str
    held: str = ""  # "file" or "env"

    def __repr__(self) -> str:
        """Omits the value: it may be a token."""
        return f"<Said by the {self.layer.title} {self.where}>"


class Setting(NamedTuple):
    """`won` is None if no source has a value."""

    name: str
    won: SettingValue | None
    overrode: tuple[SettingValue, ...] = ()

    @property
    def value(self) -> str:
        return "" if self.won is None else self.won.value

    @property
    def is_given(self) -> bool:
        """Whether a flag of this command sets it."""
        return self.won is not None and self.won.layer is Source.FLAG


class SettingSpec(NamedTuple):
    """A setting and its name in each source. An empty name: the source cannot set it."""

    flag: str
    variables: tuple[str, ...] = ()
    default: str = ""
    is_secret: bool = False
    in_contexts: bool = False


KNOBS: dict[str, SettingSpec] = {
    "context": SettingSpec("--context", ("MAGNETAR_CONTEXT",)),
    "client_conf": SettingSpec("--client-conf", ("MAGNETAR_CLIENT_CONF", "PULSAR_CLIENT_CONF")),
    "url": SettingSpec("--url", ("MAGNETAR_URL",), "pulsar://localhost:6650", in_contexts=True),
    "admin_url": SettingSpec("--admin-url", ("MAGNETAR_ADMIN_URL",), "http://localhost:8080", in_contexts=True),
    "token": SettingSpec("--token", ("MAGNETAR_TOKEN",), is_secret=True, in_contexts=True),
    "timeout": SettingSpec("--timeout", ("MAGNETAR_TIMEOUT",), "30.0", in_contexts=True),
    "output": SettingSpec("--output", ("MAGNETAR_OUTPUT",), "table"),
}


def resolve(name: str, values: Iterable[SettingValue]) -> Setting:
    """The source with the lowest layer wins; within a layer, the first one."""
    ordered = sorted(values, key=lambda one: one.layer)
    return Setting(name, ordered[0] if ordered else None, tuple(ordered[1:]))


def by_flags(name: str, flags: Mapping[str, str]) -> list[SettingValue]:
    """An empty flag counts: it unsets the value."""
    return [SettingValue(Source.FLAG, KNOBS[name].flag, flags[name])] if name in flags else []


def by_environment(name: str, environment: Mapping[str, str]) -> list[SettingValue]:
    """An empty variable is ignored."""
    return [
        SettingValue(Source.ENVIRONMENT, variable, environment[variable])
        for variable in KNOBS[name].variables
        if environment.get(variable)
    ]


def by_default(name: str) -> list[SettingValue]:
    default = KNOBS[name].default
    return [SettingValue(Source.DEFAULT, "", default)] if default else []


def shown(name: str, value: SettingValue) -> str:
    """The displayable form: the length of a secret, an address without its password."""
    if value.held:
        return f"in {value.value}" if value.held == "file" else f"in ${value.value}"
    if name in KNOBS and KNOBS[name].is_secret:
        return redacted(value.value)
    return without_password(value.value)


def redacted(secret: str) -> str:
    return f"(redacted, length {len(secret)})" if secret else "(none)"


def doubts(settings: Mapping[str, Setting]) -> list[str]:
    """Warnings for valid settings that are probably a mistake: a secret or an address that does not match the
    others.
    """
    texts = []
    url, admin_url, token = settings["url"].won, settings["admin_url"].won, settings["token"].won
    if url is not None and admin_url is not None and Source.DEFAULT in (url.layer, admin_url.layer):
        changed, other = ("url", "admin_url") if admin_url.layer is Source.DEFAULT else ("admin_url", "url")
        chosen = settings[changed].won
        if chosen is not None and chosen.layer is not Source.DEFAULT:
            texts.append(f"{changed} is set and {other} is not: {other} has its default, {settings[other].value}")
    if token is not None and token.value and admin_url is not None and token.layer > admin_url.layer:
        texts.append(f"the token of {token.where} is sent to the admin_url of {admin_url.where}")
    return texts
