"""Definitions with which a small message can exhaust its reader are refused before any message is decoded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from magnetar.base.errors import Misuse
from magnetar.base.limits import AVRO_DEPTH_MAX
from magnetar.client.avro.safety import parse_definition


def record(name: str, *kinds: Any, **more: Any) -> dict[str, Any]:
    fields = [{"name": f"f{number}", "type": kind} for number, kind in enumerate(kinds)]
    return {"type": "record", "name": name, "fields": fields, **more}


def nested(levels: int) -> Any:
    kind: Any = "int"
    for _ in range(levels):
        kind = {"type": "array", "items": kind}
    return kind


ENUM = {"type": "enum", "name": "E", "symbols": ["A"]}


@pytest.mark.parametrize(
    "definition",
    [
        record("R", "int", ["null", "string"], {"type": "map", "values": "bytes"}),
        record("R", ENUM, "E", {"type": "fixed", "name": "F", "size": 16}),
        record("R", record("In", "int"), "In", ["null", "In"]),
        record("R", record("In", "int"), "x.In", namespace="x"),
        record("R", {"type": {"type": "string"}}),
        nested(AVRO_DEPTH_MAX),
        ["null", "int"],
    ],
)
def test_ordinary_definition_is_parsed(definition: Any):
    assert parse_definition(json.dumps(definition)) == definition


@pytest.mark.parametrize(
    ("definition", "why"),
    [
        (record("R", ["null", "R"]), "contains itself"),
        (record("R", ["null", "x.R"], namespace="x"), "contains itself"),
        (record("x.R", {"type": "array", "items": "R"}), "contains itself"),
        (record("R", record("In", ["null", "R"])), "contains itself"),
        (record("R", {"type": "array", "items": "null"}), "takes no bytes"),
        (record("R", {"type": "array", "items": record("In")}), "takes no bytes"),
        (record("R", {"type": "fixed", "name": "F", "size": 0}), "takes no bytes"),
        (record("R", {"type": "null"}), "takes no bytes"),
        (nested(AVRO_DEPTH_MAX + 1), "nests deeper"),
        (record("R", record("In", nested(40)), *[{"type": "array", "items": "In"}]), None),
        (record("R", record("In", nested(62)), {"type": "map", "values": {"type": "map", "values": "In"}}), "deeper"),
        ({"type": "record", "name": "R", "fields": ["int"]}, "must be an object"),
        (7, "must be a name"),
        ({"name": "R"}, "must be a name"),
    ],
)
def test_dangerous_definition_is_refused(definition: Any, why: str | None):
    if why is None:
        parse_definition(json.dumps(definition))
        return
    with pytest.raises(Misuse, match=why):
        parse_definition(json.dumps(definition))


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, b"\xff"])
def test_text_that_is_not_json_is_refused(text: str | bytes):
    with pytest.raises(Misuse, match="not JSON"):
        parse_definition(text)
