"""The reference page of the Python client, docs/CLIENT.md, rendered from the classes.

`make sync` writes the page and a test compares it. Edit the docstrings, not the page.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

from magnetar.base import errors
from magnetar.client.admin.clients import Admin
from magnetar.client.avro.schema import Avro
from magnetar.client.batch_read.hold import Hold
from magnetar.client.batch_read.plan import Plan
from magnetar.client.consumer.ack.nacks import NackBackoff
from magnetar.client.consumer.config import DeadLetters, InitialPosition, KeyShared, SegmentsChanged, SubscriptionType
from magnetar.client.consumer.receive.waiters import NoMessage
from magnetar.client.consumer.scalable.namespace.follower import Namespace
from magnetar.client.lag import Lag
from magnetar.client.message import Message
from magnetar.client.option_help import Row, argument_rows, field_rows, option_rows
from magnetar.client.options import (
    CheckpointOptions,
    ConsumerOptions,
    ProducerOptions,
    QueueOptions,
    ReaderOptions,
    StreamOptions,
)
from magnetar.client.producer.batch import Batching
from magnetar.client.producer.producer import AccessMode, Compression, MessageOptions
from magnetar.client.producer.producer import Producer as AsyncProducer
from magnetar.client.schema import Bytes, Json, String
from magnetar.client.sync import (
    CheckpointConsumer,
    Client,
    Consumer,
    Producer,
    QueueConsumer,
    Reader,
    StreamConsumer,
    TableView,
)
from magnetar.wire.ids import MessageId
from magnetar.wire.scalable.checkpoint import Checkpoint

_HEAD = """# The Python client

Every class, method and option of `magnetar`, and the admin client. How to produce is in [PRODUCING](PRODUCING.md), how
to consume in
[CONSUMING](CONSUMING.md).

`magnetar.Client` blocks and may be shared between threads. `magnetar.aio.Client` has the same methods for asyncio:
await them. Methods that create an object also work with `async with`: `async with client.create_producer("orders") as
producer`. An asyncio client belongs to the event loop of its first call.

This page is made by `make sync`.

"""
_MADE: list[tuple[str, type]] = [
    ("create_producer", ProducerOptions),
    ("subscribe", ConsumerOptions),
    ("stream_consumer", StreamOptions),
    ("queue_consumer", QueueOptions),
    ("checkpoint_consumer", CheckpointOptions),
    ("create_reader", ReaderOptions),
]
_VALUES = (Batching, DeadLetters, KeyShared, NackBackoff, Namespace, SegmentsChanged)
_ENUMS = (AccessMode, Compression, InitialPosition, SubscriptionType)
_RETURNED: dict[type, str] = {
    Lag: "Returned by `lag()` of every consumer and reader",
    Hold: "Returned by `Client.hold`",
    Plan: "Returned by `Client.plan`",
}
_SHOWN = (
    Client,
    Producer,
    AsyncProducer,
    Consumer,
    StreamConsumer,
    QueueConsumer,
    CheckpointConsumer,
    Reader,
    TableView,
    Message,
    MessageId,
    Checkpoint,
    Bytes,
    String,
    Json,
    Avro,
)


def page() -> str:
    parts = [_HEAD, *_options(), *_values(), *_returned(), *_methods(), *_admin(), *_errors()]
    return "\n".join(line.rstrip(" ") for line in parts) + "\n"


def _options() -> Iterator[str]:
    yield "## Client\n"
    yield from _table(argument_rows(Client))
    for name, table in _MADE:
        yield f"## Client.{name}\n"
        yield f"{_told(getattr(Client, name))}\n"
        yield from _table(option_rows(table))
    yield "## Options of a message\n"
    yield "Options of `send`, `post`, `send_nowait` and `submit`.\n"
    yield from _table(option_rows(MessageOptions))


def _values() -> Iterator[str]:
    yield "## Values that options take\n"
    for kind in _VALUES:
        yield f"### {kind.__name__}\n"
        yield f"{_told(kind)}\n"
        yield from _table(field_rows(kind))
    for members in _ENUMS:
        yield f"### {members.__name__}\n"
        yield f"{', '.join(f'`{member.name}`' for member in members)}. {_told(members)}\n"


def _returned() -> Iterator[str]:
    yield "## Values that calls return\n"
    for kind, call in _RETURNED.items():
        yield f"### {kind.__module__}.{kind.__name__}\n"
        yield f"{call}. {_told(kind)}\n"
        yield f"Fields: {', '.join(f'`{name}`' for name in inspect.get_annotations(kind))}.\n"


def _methods() -> Iterator[str]:
    yield "## Methods and properties\n"
    for kind in _SHOWN:
        yield f"### {kind.__module__}.{kind.__name__}\n"
        if kind.__doc__:
            yield f"{_told(kind)}\n"
        yield "| name | what it does |\n|---|---|"
        for name, found in sorted(_public(kind)):
            yield f"| `{name}{_arguments(found)}` | {_told(found)} |"
        yield ""


def _admin() -> Iterator[str]:
    yield "## Admin\n"
    yield "The admin client uses REST, at its own URL. `magnetar.aio.Admin` has the same methods, awaited.\n"
    yield f"`magnetar.Admin{_arguments(Admin.__init__)}`. {_told(Admin)}\n"
    yield f"`admin.call{_arguments(Admin.call)}`: {_told(Admin.call)}\n"
    with Admin() as admin:
        resources = {name: type(one) for name, one in vars(admin).items() if not name.startswith("_") and name != "url"}
    for attribute, kind in sorted(resources.items()):
        yield f"### admin.{attribute}\n"
        yield "| name | what it does |\n|---|---|"
        for name, found in sorted(_public(kind)):
            yield f"| `{name}{_arguments(found)}` | {_told(found)} |"
        yield ""


def _errors() -> Iterator[str]:
    yield "## Errors\n"
    yield "All are in `magnetar.errors`. `outcome` INDEFINITE: the operation may have happened. `retry` SAME: the same"
    yield "call may succeed later; REFRESH: look up the current state before the same call.\n"
    yield "| error | is a | outcome | retry | meaning |\n|---|---|---|---|---|"
    for name, kind in sorted({**vars(errors), "NoMessage": NoMessage}.items()):
        if isinstance(kind, type) and issubclass(kind, errors.MagnetarError):
            parent = kind.__bases__[0].__name__
            told = _told(kind) if "__doc__" in kind.__dict__ else ""
            yield f"| `{name}` | `{parent}` | {kind.outcome.name} | {kind.retry.name} | {told} |"


def _table(rows: Iterable[Row]) -> Iterator[str]:
    yield "| option | type | default | meaning |\n|---|---|---|---|"
    for row in rows:
        default = f"`{_cell(row.default)}`" if row.default else "required"
        yield f"| `{row.name}` | `{_cell(row.type)}` | {default} | {_cell(row.meaning)} |"
    yield ""


def _public(kind: type) -> Iterator[tuple[str, Any]]:
    for name in dir(kind):
        found = inspect.getattr_static(kind, name)
        if not name.startswith("_") and (callable(found) or isinstance(found, property | classmethod | staticmethod)):
            yield name, found


def _arguments(found: Any) -> str:
    if isinstance(found, property):
        return ""
    function = found.__func__ if isinstance(found, classmethod | staticmethod) else found
    shown = [
        ("*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else "") + one.name
        for one in inspect.signature(function).parameters.values()
        if one.name not in ("self", "cls")
    ]
    return f"({', '.join(shown)})"


def _told(found: Any) -> str:
    """The docstring as one paragraph, without the list of options."""
    text = inspect.getdoc(found) or ""
    return _cell(" ".join(text.partition("\n\nOptions\n")[0].split()))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
