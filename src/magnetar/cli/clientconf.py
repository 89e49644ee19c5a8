"""`client.conf`, Pulsar's own file for its command line tools, read as it is: addresses and a token.

Pure: text goes in, what it says with its lines comes out. It is a properties file of Java: `key=value`, `key: value` or
`key value`, comments after # or !, a backslash at the end of a line goes on in the next, \\uXXXX is a character. Of a
key that is there twice the last one counts. Keys that mean nothing here are no error; they are listed as ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from magnetar.cli.layers import Layer, Said

ADDRESSES = {"brokerServiceUrl": "url", "webServiceUrl": "admin_url"}
PLUGIN, PARAMETERS = "authPlugin", "authParams"

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ENTRY = re.compile(r"((?:\\.|[^\\=:\s])+)[ \t\f]*[=: \t\f]?[ \t\f]*(.*)", re.DOTALL)


class Entry(NamedTuple):
    key: str
    value: str
    line: int


class ClientConf(NamedTuple):
    """What a file says: words on our settings, the other entries, and what a person should know."""

    path: str
    said: dict[str, list[Said]]
    ignored: list[Entry]
    doubts: list[str]


def read(text: str, path: str) -> ClientConf:
    found = entries(text)
    last = {entry.key: entry for entry in found if entry.value}
    said: dict[str, list[Said]] = {"url": [], "admin_url": [], "token": []}
    for entry in reversed(found):  # the last one of a key counts, the others are what it overrode
        if entry.key in ADDRESSES and entry.value:
            said[ADDRESSES[entry.key]].append(Said(Layer.CLIENT_CONF, f"{path}:{entry.line}", entry.value))
    doubts = []
    rest = last.get("webServiceUrl")
    if rest is not None and "," in rest.value:
        doubts.append(f"{path}:{rest.line}: REST has several hosts, of which the first is asked")
    plugin, parameters = last.get(PLUGIN), last.get(PARAMETERS)
    if plugin is not None and not _is_token(plugin.value):
        doubts.append(f"{path}:{plugin.line}: only tokens are known, not {plugin.value}")
    elif plugin is not None and parameters is not None:
        said["token"].append(_token(parameters, path))
    elif parameters is not None:
        doubts.append(f"{path}:{parameters.line}: {PARAMETERS} without {PLUGIN} says nothing")
    known = {*ADDRESSES, PLUGIN, PARAMETERS}
    return ClientConf(path, said, [entry for entry in found if entry.key not in known], doubts)


def entries(text: str) -> list[Entry]:
    """Every key with its value and the line it begins in, as java.util.Properties reads them."""
    found = []
    for line, number in _logical(text):
        match = _ENTRY.fullmatch(line)
        if match:
            found.append(Entry(_unescaped(match[1]), _unescaped(match[2]).rstrip(), number))
    return found


def _logical(text: str) -> Iterator[tuple[str, int]]:
    whole, begun = "", 0
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = raw.lstrip(" \t\f")
        if not whole and (not line or line[0] in "#!"):
            continue
        begun = begun or number
        body = line.rstrip("\\")
        if (len(line) - len(body)) % 2:
            whole += line[:-1]
            continue
        yield whole + line, begun
        whole, begun = "", 0
    if whole:
        yield whole, begun


def _unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        escaped = match[1]
        return chr(int(escaped[1:], 16)) if len(escaped) == 5 else _LETTERS.get(escaped, escaped)

    return _ESCAPE.sub(one, text)


def _is_token(plugin: str) -> bool:
    return plugin == "token" or plugin.rpartition(".")[2] == "AuthenticationToken"


def _token(entry: Entry, path: str) -> Said:
    """token:... and data:... hold it, file:... and env:... say where it is; anything else is the token itself."""
    where = f"{path}:{entry.line}"
    kind, colon, rest = entry.value.partition(":")
    if colon and kind in ("token", "data"):
        return Said(Layer.CLIENT_CONF, where, rest)
    if colon and kind == "file":
        slashes = len(rest) - len(rest.lstrip("/"))
        return Said(Layer.CLIENT_CONF, where, "/" + rest.lstrip("/") if slashes else rest, held="file")
    if colon and kind == "env":
        return Said(Layer.CLIENT_CONF, where, rest, held="env")
    if entry.value.startswith("{") and (found := re.search(r'"token"\s*:\s*"([^"]*)"', entry.value)):
        return Said(Layer.CLIENT_CONF, where, found[1])
    return Said(Layer.CLIENT_CONF, where, entry.value)
