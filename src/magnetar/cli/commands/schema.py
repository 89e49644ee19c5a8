"""`magnetar schema`: lists the versions of a topic's schema, and shows one of them."""

from __future__ import annotations

from typing import Any

import msgspec

from magnetar.base.names import topic_name
from magnetar.cli.options import COMMON, Common
from magnetar.cli.output.output import KeyValues, TableData
from magnetar.cli.output.values import Cell, Moment, Size, pairs
from magnetar.client.documents.schemas import SchemaInfo


def list_(topic: str, /, *, common: Common = COMMON) -> None:
    """List the versions of a topic's schema, oldest first.

    Parameters
    ----------
    topic
        Topic name.

    Examples
    --------
    $ magnetar schema list orders
    """
    with common.session() as session:
        name = str(topic_name(topic))
        session.about(topic=name)
        versions = session.admin.schemas.versions(name)
        rows: list[tuple[Cell, ...]] = [
            (one.version, one.type, Moment(one.timestamp), Size(len(one.data.encode())), pairs(one.properties))
            for one in versions
        ]
        columns = ("VERSION", "TYPE", "REGISTERED", "SIZE", "PROPERTIES")
        sheet = TableData(columns, rows, optional=frozenset(("PROPERTIES",)))
        session.show([msgspec.to_builtins(one) for one in versions], sheet)


def show(topic: str, /, *, version: int | None = None, common: Common = COMMON) -> None:
    """Show a topic's schema: its type, its registration time, and its definition.

    Parameters
    ----------
    topic
        Topic name.
    version
        Version to show. Default: the newest.

    Examples
    --------
    $ magnetar schema show orders
    """
    with common.session() as session:
        name = str(topic_name(topic))
        session.about(topic=name)
        info = session.admin.schemas.get(name, version)
        facts: dict[str, Cell] = {
            "topic": name,
            "version": info.version,
            "type": info.type,
            "registered": Moment(info.timestamp),
            "properties": pairs(info.properties),
        }
        columns = ("FIELD", "TYPE")
        fields = _fields(info)
        parts: list[KeyValues | TableData] = [KeyValues(facts, optional=frozenset(("properties",)))]
        if fields:
            parts.append(TableData(columns, fields))
        elif info.data:
            parts.append(KeyValues({"definition": info.data}))
        session.show(session.document, *parts, names=[name])


VERBS = {"list": list_, "show": show}


def _fields(schema: SchemaInfo) -> list[tuple[Cell, ...]]:
    """The fields of an AVRO or JSON record. Other schemas give an empty list."""
    try:
        record = msgspec.json.decode(schema.data) if schema.data else None
    except msgspec.DecodeError:
        return []
    if not isinstance(record, dict) or not isinstance(record.get("fields"), list):
        return []
    return [(str(one.get("name")), _type(one.get("type"))) for one in record["fields"] if isinstance(one, dict)]


def _type(declared: Any) -> str:
    """A union with `null` marks an optional field."""
    if isinstance(declared, list):
        return " or ".join(_type(one) for one in declared)
    if isinstance(declared, dict):
        if declared.get("type") == "array":
            return f"array of {_type(declared.get('items'))}"
        if declared.get("type") == "map":
            return f"map of {_type(declared.get('values'))}"
        return str(declared.get("name") or declared.get("type"))
    return str(declared)
