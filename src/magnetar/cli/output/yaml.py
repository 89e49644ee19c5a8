"""JSON values as YAML, one document, for `-o yaml`.

It writes only forms that every parser of YAML 1.1 and 1.2 reads as the same value: blocks, plain words where they are
unambiguous, and double quotes for all other text. No anchors, no tags, no folded text. It accepts only values that JSON
can represent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

# A word that no version of YAML reads as a number, a date, a key or a mark. ASCII only, so that letter classes never
# differ.
_WORD = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@:+-]*(?<!:)", re.ASCII)
_TAKEN = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "none"))
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_KEY_CHARS_MAX = 1000  # YAML limits a simple key to 1,024 characters; a longer key is written explicitly
_STEP = "  "


def document(value: Any) -> str:
    """One document, ending with a newline."""
    return "\n".join(_block(value, "")) + "\n"


def _block(value: Any, indent: str) -> Iterator[str]:
    match value:
        case dict() if value:
            for key, inner in value.items():
                yield from _pair(str(key), inner, indent)
        case list() | tuple() if value:
            for inner in value:
                yield from _item(inner, indent)
        case _:
            yield indent + _flat(value)


def _pair(key: str, value: Any, indent: str) -> Iterator[str]:
    name = _scalar(key)
    if len(name) > _KEY_CHARS_MAX:
        yield f"{indent}? {name}"
        first, *rest = _block(value, indent + _STEP)
        yield f"{indent}: {first.removeprefix(indent + _STEP)}"
        yield from rest
    elif _is_flat(value):
        yield f"{indent}{name}: {_flat(value)}"
    else:
        yield f"{indent}{name}:"
        yield from _block(value, indent + _STEP)


def _item(value: Any, indent: str) -> Iterator[str]:
    """The content of an item begins after its dash."""
    first, *rest = _block(value, indent + _STEP)
    yield f"{indent}- {first.removeprefix(indent + _STEP)}"
    yield from rest


def _is_flat(value: Any) -> bool:
    return not isinstance(value, dict | list | tuple) or not value


def _flat(value: Any) -> str:
    match value:
        case dict():
            return "{}"
        case list() | tuple():
            return "[]"
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _number(value)
        case _:
            return _scalar(str(value))


def _number(value: float) -> str:
    """With a decimal point: YAML 1.1 reads 1e+16 as a word."""
    digits, mark, power = repr(value).partition("e")
    digits = digits if "." in digits or not mark else f"{digits}.0"
    return digits + mark + power


def _scalar(text: str) -> str:
    if _WORD.fullmatch(text) and text.lower() not in _TAKEN:
        return text
    return '"' + "".join(_letter(one) for one in text) + '"'


def _letter(letter: str) -> str:
    if letter in _SHORT:
        return _SHORT[letter]
    if letter.isprintable():
        return letter
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
