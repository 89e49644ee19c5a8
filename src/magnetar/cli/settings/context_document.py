"""The file of contexts: parses its text and edits it.

Pure: takes text and returns text. tomlkit edits the text, so comments and fields unknown to this version stay. The
result is parsed again by tomllib and must have exactly the intended content; otherwise the change is rejected. An error
for an unreadable file names the line and the remedy. Such a file is never overwritten. Reading does not load tomlkit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, MutableMapping
from types import MappingProxyType
from typing import Any, NamedTuple

from magnetar.base.errors import AlreadyExists, InvalidName, Misuse, NotFound
from magnetar.cli.settings.resolve import SettingValue, Source

VERSION = 1
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
TEXTS = ("url", "admin_url", "token", "token_file")  # text fields of a context
KEYS = (*TEXTS, "timeout")
HEAD = f"""\
# Brokers and how to connect to them, for the magnetar command. Change it with `magnetar context` or by hand.
version = {VERSION}
"""

_HEADER = re.compile(r"""\s*\[\s*contexts\s*\.\s*("?|'?)([A-Za-z0-9_-]+)\1\s*(\..*)?\]\s*(?:\#.*)?""")
_ANY_HEADER = re.compile(r"\s*\[.*\]\s*(#.*)?")
_AT = re.compile(r"\(at line (\d+), column \d+\)")


class Context(NamedTuple):
    """One context: its raw fields, the line of each field, and its first line (0: unknown)."""

    name: str
    fields: dict[str, Any]
    lines: dict[str, int]
    line: int

    @property
    def unknown(self) -> list[str]:
        return [key for key in self.fields if key not in KEYS]

    def __repr__(self) -> str:
        """Omits the values: one may be a token."""
        return f"<Context {self.name} with {', '.join(self.fields)}>"


class Contexts(NamedTuple):
    path: str
    current: str = ""
    current_line: int = 0
    all: Mapping[str, Context] = MappingProxyType({})

    def get(self, name: str) -> Context:
        if name not in self.all:
            raise NotFound(f"context {name} does not exist", file=self.path)
        return self.all[name]

    def said(self, name: str) -> dict[str, list[SettingValue]]:
        """The values of a context for our settings."""
        context = self.get(name)
        values: dict[str, list[SettingValue]] = {}
        for key in KEYS:
            if key in context.fields:
                where = f"{self.path}:{context.lines[key]}" if context.lines.get(key) else self.path
                held = "file" if key == "token_file" else ""
                setting = key.removesuffix("_file")
                values.setdefault(setting, []).append(
                    SettingValue(Source.CONTEXT, where, str(context.fields[key]), held)
                )
        return values


def read(text: str, path: str) -> Contexts:
    """Raises `Misuse` with the line of the error."""
    document = _parsed(text, path)
    lines = _places(text)
    version = document.get("version", VERSION)
    if not isinstance(version, int) or version > VERSION:
        raise Misuse(
            f"a newer magnetar wrote the contexts (version {version}, this one supports {VERSION}): update magnetar",
            file=f"{path}:{lines.get(('version',), 1)}",
        )
    tables = document.get("contexts", {})
    if not isinstance(tables, dict):
        raise Misuse("contexts must be tables such as [contexts.NAME]", file=f"{path}:{lines.get(('contexts',), 1)}")
    contexts = {name: _context(name, table, lines, path) for name, table in tables.items()}
    current = document.get("current", "")
    if not isinstance(current, str):
        raise Misuse("current must be the name of a context", file=f"{path}:{lines.get(('current',), 1)}")
    return Contexts(path, current, lines.get(("current",), 0), contexts)


def check_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise InvalidName(
            "a context's name must be 1 to 64 letters, digits, - and _, and begin with a letter or a digit", name=name
        )
    return name


# What a file becomes


def added(text: str, path: str, name: str, fields: Mapping[str, str | float]) -> str:
    check_name(name)
    if name in read(text, path).all:
        raise AlreadyExists(f"context {name} already exists", file=path)

    def add(contexts: MutableMapping[str, Any]) -> None:
        contexts[name] = {key: _checked_value(value) for key, value in fields.items()}

    return _with_contexts(text, path, add)


def edited(text: str, path: str, name: str, fields: Mapping[str, str | float | None]) -> str:
    """None removes a field."""
    read(text, path).get(name)

    def edit(contexts: MutableMapping[str, Any]) -> None:
        for key, value in fields.items():
            if value is None:
                contexts[name].pop(key, None)
            else:
                _set(contexts[name], key, _checked_value(value))

    return _with_contexts(text, path, edit)


def removed(text: str, path: str, name: str) -> str:
    """Removes the context. If it was the current one, no context is current afterwards."""
    was_current = read(text, path).current == name
    read(text, path).get(name)

    def remove(contexts: MutableMapping[str, Any]) -> None:
        del contexts[name]

    text = _with_contexts(text, path, remove)
    return using(text, path, "") if was_current else text


def using(text: str, path: str, name: str) -> str:
    """Sets another current context, or none."""
    if name:
        read(text, path).get(name)

    def use(document: MutableMapping[str, Any]) -> None:
        if name:
            document["current"] = name
        else:
            document.pop("current", None)

    return _changed(text, path, use)


def _with_contexts(text: str, path: str, edit: Callable[[MutableMapping[str, Any]], None]) -> str:
    def change(document: MutableMapping[str, Any]) -> None:
        edit(document.setdefault("contexts", {}))
        if not document["contexts"]:
            del document["contexts"]

    return _changed(text, path, change)


def _changed(text: str, path: str, change: Callable[[MutableMapping[str, Any]], None]) -> str:
    """Applies the change to the text by tomlkit and to the plain values, and compares the results."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    expected = _parsed(text, path)
    change(expected)
    try:
        document = tomlkit.parse(text)
        change(document)
        after = tomlkit.dumps(document)
        same = _parsed(after, path) == expected
    except (TOMLKitError, Misuse):
        same = False
    if not same:
        raise Misuse(
            "the format of the file of contexts is too complex for this command: edit the file by hand", file=path
        )
    return after


def _parsed(text: str, path: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        text_of_error = str(error)
        position = _AT.search(text_of_error)
        line = int(position[1]) if position else text.count("\n") + 1
        why = _AT.sub("", text_of_error).strip()
        raise Misuse(f"the file of contexts is invalid: {why}", file=f"{path}:{line}") from None


def _context(name: str, table: Any, lines: dict[tuple[str, ...], int], path: str) -> Context:
    line = lines.get(("contexts", name), 0)
    if not isinstance(table, dict):
        raise Misuse(f"a context must be a table such as [contexts.{name}]", file=f"{path}:{line or 1}")
    places = {key: lines.get(("contexts", name, key), line) for key in table}
    for key, value in table.items():
        if key in TEXTS and not (isinstance(value, str) and value and value.isprintable()):
            raise Misuse(f"{key} of context {name} must be text", file=f"{path}:{places[key]}")
        if key == "timeout" and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):
            raise Misuse(f"timeout of context {name} must be a number of seconds", file=f"{path}:{places[key]}")
    if "token" in table and "token_file" in table:
        raise Misuse(
            f"context {name} must not have both token and token_file: remove one of them",
            file=f"{path}:{places['token_file']}",
        )
    return Context(name, table, places, line)


def _places(text: str) -> dict[tuple[str, ...], int]:
    """The line of each table and field, if the file has a simple form."""
    places: dict[tuple[str, ...], int] = {}
    inside: tuple[str, ...] | None = ()
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.fullmatch(line)
        if header:
            inside = ("contexts", header[2]) if not header[3] else None
            if inside:
                places.setdefault(inside, number)
        elif _ANY_HEADER.fullmatch(line):
            inside = None
        elif inside is not None and (key := _key(line)):
            places.setdefault((*inside, key), number)
    return places


def _key(line: str) -> str:
    key, equals, _ = line.partition("=")
    key = key.strip().strip("\"'")
    return key if equals and not key.startswith("#") else ""


def _set(table: Any, key: str, value: str | float) -> None:
    """Trailing comments of a table of tomlkit stay at its end, because they describe the next table."""
    from tomlkit.items import AbstractTable

    body = table.value.body if key not in table and isinstance(table, AbstractTable) else []
    first = len(body)
    while first and body[first - 1][0] is None:
        first -= 1
    trailing = body[first:]
    del body[first:]
    table[key] = value
    body.extend(trailing)


def _checked_value(value: str | float) -> str | float:
    if isinstance(value, str) and not value.isprintable():
        raise Misuse("a value must not contain invisible characters")
    return value
