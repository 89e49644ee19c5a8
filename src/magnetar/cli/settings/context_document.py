"""The file of contexts: parses its text and edits it.

Pure: takes text and returns text. An edit touches only the lines of its change, so comments and fields unknown to this
version stay. The result is parsed again and must have exactly the intended content; otherwise the change is rejected,
because a file edited by hand may have a form that cannot be edited by line. An error for an unreadable file names the
line and the remedy. Such a file is never overwritten.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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
        found: dict[str, list[SettingValue]] = {}
        for key in KEYS:
            if key in context.fields:
                where = f"{self.path}:{context.lines[key]}" if context.lines.get(key) else self.path
                held = "file" if key == "token_file" else ""
                setting = key.removesuffix("_file")
                found.setdefault(setting, []).append(
                    SettingValue(Source.CONTEXT, where, str(context.fields[key]), held)
                )
        return found


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
    found = {name: _context(name, table, lines, path) for name, table in tables.items()}
    current = document.get("current", "")
    if not isinstance(current, str):
        raise Misuse("current must be the name of a context", file=f"{path}:{lines.get(('current',), 1)}")
    return Contexts(path, current, lines.get(("current",), 0), found)


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
    body = "".join(f"{key} = {_toml(value)}\n" for key, value in fields.items())
    gap = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
    expected = _parsed(text, path)
    expected.setdefault("contexts", {})[name] = dict(fields)
    return _checked(f"{text}{gap}[contexts.{name}]\n{body}", expected, path)


def edited(text: str, path: str, name: str, fields: Mapping[str, str | float | None]) -> str:
    """None removes a field."""
    read(text, path).get(name)
    expected = _parsed(text, path)
    lines = text.splitlines(keepends=True)
    for key, value in fields.items():
        first, last = _table(lines, name, path)
        place = next((at for at in range(first + 1, last) if _key(lines[at]) == key), None)
        if value is None:
            expected["contexts"][name].pop(key, None)
            if place is not None:
                del lines[place]
            continue
        expected["contexts"][name][key] = value
        line = f"{key} = {_toml(value)}\n"
        if place is None:
            while last > first + 1 and not _key(lines[last - 1]):
                last -= 1
            if not lines[last - 1].endswith("\n"):
                lines[last - 1] += "\n"
            lines.insert(last, line)
        else:
            lines[place] = line
    return _checked("".join(lines), expected, path)


def removed(text: str, path: str, name: str) -> str:
    """Removes the context. If it was the current one, no context is current afterwards."""
    read(text, path).get(name)
    expected = _parsed(text, path)
    del expected["contexts"][name]
    kept, inside = [], False
    for line in text.splitlines(keepends=True):
        if _ANY_HEADER.fullmatch(line.rstrip("\r\n")):
            header = _HEADER.fullmatch(line.rstrip("\r\n"))
            inside = header is not None and header[2] == name
        if not inside:
            kept.append(line)
    text = "".join(kept)
    if not expected["contexts"] and not re.search(r"^\s*\[\s*contexts\s*\]", text, re.MULTILINE):
        del expected["contexts"]
    if expected.get("current") == name:
        return using(_checked(text, expected, path), path, "")
    return _checked(text, expected, path)


def using(text: str, path: str, name: str) -> str:
    """Sets another current context, or none."""
    if name:
        read(text, path).get(name)
    expected = _parsed(text, path)
    expected.pop("current", None)
    lines = text.splitlines(keepends=True)
    top = next((at for at, line in enumerate(lines) if _ANY_HEADER.fullmatch(line.rstrip("\r\n"))), len(lines))
    kept = [line for line in lines[:top] if _key(line) != "current"]
    if name:
        expected["current"] = name
        while kept and not kept[-1].strip():
            kept.pop()
        if kept and not kept[-1].endswith("\n"):
            kept[-1] += "\n"
        kept += [f"current = {_toml(name)}\n", "\n"]
    return _checked("".join([*kept, *lines[top:]]), expected, path)


def _parsed(text: str, path: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        said = str(error)
        found = _AT.search(said)
        line = int(found[1]) if found else text.count("\n") + 1
        why = _AT.sub("", said).strip()
        raise Misuse(f"the file of contexts is invalid: {why}", file=f"{path}:{line}") from None


def _checked(text: str, expected: dict[str, Any], path: str) -> str:
    try:
        same = _parsed(text, path) == expected
    except Misuse:
        same = False
    if not same:
        raise Misuse(
            "the format of the file of contexts is too complex for this command: edit the file by hand", file=path
        )
    return text


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
    found: dict[tuple[str, ...], int] = {}
    inside: tuple[str, ...] | None = ()
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.fullmatch(line)
        if header:
            inside = ("contexts", header[2]) if not header[3] else None
            if inside:
                found.setdefault(inside, number)
        elif _ANY_HEADER.fullmatch(line):
            inside = None
        elif inside is not None and (key := _key(line)):
            found.setdefault((*inside, key), number)
    return found


def _key(line: str) -> str:
    key, equals, _ = line.partition("=")
    key = key.strip().strip("\"'")
    return key if equals and not key.startswith("#") else ""


def _table(lines: list[str], name: str, path: str) -> tuple[int, int]:
    """From the header to the line before the next table."""
    first = -1
    for at, line in enumerate(lines):
        bare = line.rstrip("\r\n")
        header = _HEADER.fullmatch(bare)
        if first >= 0 and _ANY_HEADER.fullmatch(bare):
            return first, at
        if header and header[2] == name and not header[3]:
            first = at
    if first < 0:
        raise Misuse(
            "the format of the file of contexts is too complex for this command: edit the file by hand", file=path
        )
    return first, len(lines)


def _toml(value: str | float) -> str:
    if isinstance(value, str):
        if not value.isprintable():
            raise Misuse("a value must not contain invisible characters")
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return repr(value)
