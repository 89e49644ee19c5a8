"""`client.conf`, Pulsar's own file for its command line tools, read as it is: addresses and a token.

Pure: text goes in, settings with their lines come out. `base/properties.py` reads the form. If a key occurs twice, its
last value counts. Unknown keys are not an error; they are listed as ignored.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from magnetar.base.errors import Misuse
from magnetar.base.properties import Entry, entries
from magnetar.cli.settings.resolve import SettingValue, Source

ADDRESSES = {"brokerServiceUrl": "url", "webServiceUrl": "admin_url"}
PLUGIN, PARAMETERS = "authPlugin", "authParams"


class ClientConf(NamedTuple):
    """Content of a file: values of our settings, its other entries, and warnings for people."""

    path: str
    said: dict[str, list[SettingValue]]
    ignored: list[Entry]
    doubts: list[str]


def read(text: str, path: str) -> ClientConf:
    entries = _entries(text, path)
    last = {entry.key: entry for entry in entries if entry.value}
    values: dict[str, list[SettingValue]] = {"url": [], "admin_url": [], "token": []}
    for entry in reversed(entries):  # the last entry of a key counts and overrides the others
        if entry.key in ADDRESSES and entry.value:
            values[ADDRESSES[entry.key]].append(SettingValue(Source.CLIENT_CONF, f"{path}:{entry.line}", entry.value))
    doubts = []
    plugin, parameters = last.get(PLUGIN), last.get(PARAMETERS)
    if plugin is not None and not _is_token(plugin.value):
        doubts.append(f"{path}:{plugin.line}: only token authentication is supported, not {plugin.value}")
    elif plugin is not None and parameters is not None:
        values["token"].append(_token(parameters, path))
    elif parameters is not None:
        doubts.append(f"{path}:{parameters.line}: {PARAMETERS} has no effect without {PLUGIN}")
    supported = {*ADDRESSES, PLUGIN, PARAMETERS}
    return ClientConf(path, values, [entry for entry in entries if entry.key not in supported], doubts)


def _entries(text: str, path: str) -> list[Entry]:
    """Strips blanks at the end of values: no address or token ends with one. `Misuse` names the file."""
    try:
        return [Entry(entry.key, entry.value.rstrip(), entry.line) for entry in entries(text)]
    except Misuse as error:
        raise Misuse(error.what, **error.facts, file=path) from None


def _is_token(plugin: str) -> bool:
    return plugin == "token" or plugin.rpartition(".")[2] == "AuthenticationToken"


def _token(entry: Entry, path: str) -> SettingValue:
    """token:... and data:... contain the token, file:... and env:... name its source. Any other text is the token
    itself.
    """
    where = f"{path}:{entry.line}"
    kind, colon, rest = entry.value.partition(":")
    if colon and kind in ("token", "data"):
        return SettingValue(Source.CLIENT_CONF, where, rest)
    if colon and kind == "file":
        slashes = len(rest) - len(rest.lstrip("/"))
        return SettingValue(Source.CLIENT_CONF, where, "/" + rest.lstrip("/") if slashes else rest, held="file")
    if colon and kind == "env":
        return SettingValue(Source.CLIENT_CONF, where, rest, held="env")
    if entry.value.startswith("{") and (token := re.search(r'"token"\s*:\s*"([^"]*)"', entry.value)):
        return SettingValue(Source.CLIENT_CONF, where, token[1])
    return SettingValue(Source.CLIENT_CONF, where, entry.value)
