"""Explains why Protobuf cannot parse a value, in terms of its descriptor: the field and the reason.

Protobuf only reports that a message cannot be parsed. This module examines one such value and returns the first error.
It decodes no skipped data. Bytes are untrusted: every length is checked, and messages are entered only as deep as their
descriptor goes.
"""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from magnetar.spark.values.value_schema import inner

_NUMBER_BYTES_MAX = 10
_NUMBER, _EIGHT, _RUN, _BEGIN, _END, _FOUR = range(6)  # wire types of values
_NESTED_MAX = 100  # nesting of groups and messages: Protobuf's own limit
_WIDTHS = {_EIGHT: 8, _FOUR: 4}
_F = FieldDescriptor
_WIDE = {
    **dict.fromkeys((_F.TYPE_DOUBLE, _F.TYPE_FIXED64, _F.TYPE_SFIXED64), 8),
    **dict.fromkeys((_F.TYPE_FLOAT, _F.TYPE_FIXED32, _F.TYPE_SFIXED32), 4),
}
_ENDS = "the value ends too early"


@dataclass(frozen=True, slots=True)
class ParseError:
    why: str
    field: str = ""


def fault(kind: Descriptor, data: bytes) -> ParseError | None:
    """The first error; None: this module finds none."""
    try:
        _message(kind, data, "", 0)
    except _Found as error:
        return error.fault
    return None


class _Found(Exception):
    def __init__(self, why: str, field: str) -> None:
        self.fault = ParseError(why, field)


def _message(kind: Descriptor | None, data: bytes, path: str, depth: int) -> None:
    at, groups = 0, 0
    while at < len(data):
        if depth + groups > _NESTED_MAX:
            raise _Found("it is nested too deeply", path)
        tag, at = _number(data, at, path)
        number, lies = tag >> 3, tag & 7
        field = None if kind is None or groups else kind.fields_by_number.get(number)
        name = path if field is None else inner(path, field.name)
        if number == 0 or lies > _FOUR or (lies == _END and not groups):
            raise _Found(f"the tag is invalid: {tag}", path)
        if lies == _NUMBER:
            _, at = _number(data, at, name)
        elif lies == _RUN:
            length, at = _number(data, at, name)
            if length > len(data) - at:
                raise _Found(f"its length exceeds the value: {length}", name)
            _run(field, data[at : at + length], name, depth)
            at += length
        elif lies in _WIDTHS:
            at += _WIDTHS[lies]
            if at > len(data):
                raise _Found(_ENDS, name)
        else:
            groups += 1 if lies == _BEGIN else -1
    if groups:
        raise _Found(_ENDS, path)


def _run(field: FieldDescriptor | None, data: bytes, path: str, depth: int) -> None:
    if field is None or field.type == _F.TYPE_BYTES:
        return
    if field.type == _F.TYPE_STRING:
        try:
            data.decode()
        except UnicodeDecodeError as error:
            raise _Found(f"it must be text in UTF-8: {error.reason}", path) from None
    elif field.type == _F.TYPE_MESSAGE:
        _message(field.message_type, data, path, depth + 1)
    elif field.type in _WIDE:
        if len(data) % _WIDE[field.type]:
            raise _Found(_ENDS, path)
    else:
        at = 0
        while at < len(data):
            _, at = _number(data, at, path)


def _number(data: bytes, at: int, path: str) -> tuple[int, int]:
    value = 0
    for index in range(_NUMBER_BYTES_MAX):
        if at + index >= len(data):
            raise _Found(_ENDS, path)
        byte = data[at + index]
        value |= (byte & 127) << 7 * index
        if byte < 128:
            return value, at + index + 1
    raise _Found("a number does not end", path)
