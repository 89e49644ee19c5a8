"""The options of each kind as rows of name, type, default and meaning; and the text that `help()` shows of them.

Types and names are read from the tables in `options`, defaults from the classes that the options fill, meanings from
`option_docs`, so that each has one source.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from textwrap import wrap
from typing import Any, NamedTuple, TypeVar

from magnetar.client.consumer.config import ConsumerConfig
from magnetar.client.option_docs import meaning
from magnetar.client.options import ProducerOptions, QueueOptions, ReaderOptions, StreamOptions
from magnetar.client.producer.config import ProducerConfig
from magnetar.client.producer.producer import AccessMode, Compression, MessageOptions

F = TypeVar("F", bound=Callable[..., Any])

_WIDTH = 100
# Defaults where an option fills another class than its field suggests.
_OWN_DEFAULTS: dict[type, dict[str, object]] = {
    ProducerOptions: {
        "access_mode": AccessMode.SHARED,
        "compression": Compression.NONE,
        "routing": "round_robin",
        "hashing": "java",
    },
    QueueOptions: {"ack_batch_index": True},
    StreamOptions: {"ack_batch_index": True},
    ReaderOptions: {"subscription": ""},
    MessageOptions: dict.fromkeys(MessageOptions.__annotations__),
}


class Row(NamedTuple):
    name: str
    type: str
    default: str
    meaning: str


def option_rows(table: type) -> list[Row]:
    """Rows for a TypedDict of options, in its order."""
    filled = {
        found.name: _default(found) for found in fields(ProducerConfig if table is ProducerOptions else ConsumerConfig)
    }
    own = _OWN_DEFAULTS.get(table, {})
    return [
        Row(name, _type_text(kind), _shown(own.get(name, filled.get(name))), meaning(table.__name__, name))
        for name, kind in table.__annotations__.items()
    ]


def field_rows(kind: type) -> list[Row]:
    """Rows for a value class that an option takes."""
    assert is_dataclass(kind)
    return [
        Row(found.name, _type_text(found.type), _shown(_default(found)), meaning(kind.__name__, found.name))
        for found in fields(kind)
    ]


def argument_rows(kind: type) -> list[Row]:
    """Rows for the constructor arguments of a class."""
    parameters = list(inspect.signature(kind).parameters.values())
    return [
        Row(
            one.name,
            _type_text(one.annotation),
            "" if one.default is one.empty else _shown(one.default),
            meaning(kind.__name__, one.name),
        )
        for one in parameters
    ]


def documented(table: type) -> Callable[[F], F]:
    """A decorator that appends the options to the docstring of a method."""

    def shown(method: F) -> F:
        lines = [inspect.cleandoc(method.__doc__ or ""), "", "Options", "-------"]
        for row in option_rows(table):
            lines.append(f"{row.name}: {row.type} = {row.default}")
            lines += wrap(row.meaning, _WIDTH, initial_indent="    ", subsequent_indent="    ")
        method.__doc__ = "\n".join(lines)
        return method

    return shown


def _default(field: Field[Any]) -> object:
    if field.default is not MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not MISSING else inspect.Parameter.empty


def _type_text(kind: Any) -> str:
    text = getattr(kind, "__forward_arg__", kind)
    text = text if isinstance(text, str) else getattr(text, "__name__", str(text))
    return _ALIASES.get(text, text)


# Types that users do not import, written out.
_ALIASES = {
    "Routing | Chooser": '"round_robin" | "single" | Callable[[str | None, int], int]',
    "Hashing": '"java" | "murmur3"',
    "OnSegments | None": "Callable[[SegmentsChanged], None] | None",
    "OnUndecodable": '"raise" | "dead_letter"',
    "Runtime | None": "Runtime | None",
}


def _shown(value: object) -> str:
    if value is inspect.Parameter.empty:
        return ""
    if isinstance(value, Enum):
        return str(value)
    if is_dataclass(value):
        return f"{type(value).__name__}()"
    if isinstance(value, float) and value == int(value):
        return f"{int(value)}"
    if isinstance(value, int) and not isinstance(value, bool) and value >= 10_000:
        return re.sub(r"(?<=\d)(?=(?:\d{3})+$)", "_", str(value))
    return repr(value)
