"""Refuses Avro definitions with which a small message can exhaust the process that decodes it.

Every producer of a topic may register a definition, and consumers decode by the writer's one. Decoders recurse in C
without a bound, and count items that take no bytes. So a definition that contains itself, that nests deeper than
`AVRO_DEPTH_MAX`, or that has a type of no bytes is refused: then the work is bounded by the bytes of the message. Pure.
"""

from __future__ import annotations

import json
from typing import Any

from magnetar.base.errors import Misuse
from magnetar.base.limits import AVRO_DEPTH_MAX

_NAMED = ("record", "error", "enum", "fixed")


def parse_definition(text: str | bytes) -> Any:
    """The definition as an object. Misuse: it is not JSON, or not safe."""
    try:
        definition = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Misuse(f"the Avro definition is not JSON: {error}") from None
    _Walk().visit(definition, "", 0)
    return definition


class _Walk:
    def __init__(self) -> None:
        self._open: set[str] = set()  # records with fields that are being visited
        self._depths: dict[str, int] = {}  # levels of each complete named type

    def visit(self, kind: Any, space: str, depth: int) -> int:
        """The levels below and including this type."""
        if depth > AVRO_DEPTH_MAX:
            raise Misuse(f"the Avro definition nests deeper than {AVRO_DEPTH_MAX} levels", max=AVRO_DEPTH_MAX)
        if isinstance(kind, str):
            return self._name(kind, space, depth)
        if isinstance(kind, list):
            branches = [one for one in kind if one not in ("null", {"type": "null"})]
            return 1 + max((self.visit(one, space, depth + 1) for one in branches), default=0)
        if not isinstance(kind, dict):
            raise Misuse("a type in an Avro definition must be a name, an object or a list", given=type(kind).__name__)
        match kind.get("type"):
            case "array":
                return 1 + self.visit(kind.get("items"), space, depth + 1)
            case "map":
                return 1 + self.visit(kind.get("values"), space, depth + 1)
            case named if named in _NAMED:
                return self._named(kind, space, depth)
            case other:
                return self.visit(other, space, depth + 1)

    def _name(self, name: str, space: str, depth: int) -> int:
        if name == "null":
            raise Misuse("the Avro definition has a value that is always null, which takes no bytes: use a union")
        full = _full(name, space)
        if full in self._open:
            raise Misuse(
                f"the Avro definition of {name} contains itself: a message could nest without a bound. Use Json for"
                " such values",
                name=name,
            )
        levels = self._depths.get(full, 1)
        if depth + levels - 1 > AVRO_DEPTH_MAX:
            raise Misuse(f"the Avro definition nests deeper than {AVRO_DEPTH_MAX} levels", max=AVRO_DEPTH_MAX)
        return levels

    def _named(self, kind: dict[str, Any], space: str, depth: int) -> int:
        name = str(kind.get("name", ""))
        space = str(kind.get("namespace", space)) if "." not in name else name.rpartition(".")[0]
        full = _full(name, space)
        levels = 1
        if kind["type"] == "fixed" and not kind.get("size"):
            raise Misuse(f"the Avro definition of {name} takes no bytes", name=name)
        if kind["type"] in ("record", "error"):
            fields = kind.get("fields")
            if not isinstance(fields, list) or not fields:
                raise Misuse(f"the Avro record {name} has no fields, so it takes no bytes", name=name)
            self._open.add(full)
            levels += max(self._field(one, space, depth) for one in fields)
            self._open.discard(full)
        self._depths[full] = levels
        return levels

    def _field(self, field: Any, space: str, depth: int) -> int:
        if not isinstance(field, dict):
            raise Misuse("a field in an Avro definition must be an object", given=type(field).__name__)
        return self.visit(field.get("type"), space, depth + 1)


def _full(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"
