"""The position of a query over several topics: one frontier per topic, in one offset of Spark's checkpoint.

This is version 2 of the format. A query of one topic writes version 1, byte for byte, and a query over more topics can
open its checkpoint. A topic that joins later appears at the end of the first batch with its rows, and `from` there is
its start. Each position has exactly one form, as `offset` requires. The text is a user's file: any other form is
rejected.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from magnetar.base.errors import Corrupt, Misuse
from magnetar.base.limits import SPARK_OFFSET_BYTES_MAX, SPARK_TOPICS_MAX
from magnetar.spark.source import offset
from magnetar.spark.source.offset import SourceOffset

VERSION = 2


@dataclass(frozen=True, slots=True)
class Offset:
    """By topic. The mappings are never modified."""

    parts: Mapping[str, SourceOffset]

    @property
    def text(self) -> str:
        return json.dumps(self.document(), separators=(",", ":"), sort_keys=True)

    def document(self) -> dict[str, Any]:
        """The dict for PySpark; its order is that of the text."""
        return {"topics": {name: _bare(self.parts[name]) for name in sorted(self.parts)}, "v": VERSION}

    def only(self) -> SourceOffset:
        """The offset of a query that reads one topic."""
        if len(self.parts) != 1:
            raise Misuse(
                "the checkpoint belongs to a query over several topics: name them in option topics, or set a "
                "new checkpointLocation",
                topics=", ".join(sorted(self.parts))[:200],
            )
        return next(iter(self.parts.values()))


def parse(text: str) -> SourceOffset | Offset:
    document = offset.document_of(text)
    return from_document(document) if is_several(document) else offset.from_document(document)


def from_document(document: object) -> Offset:
    """The offset that PySpark returns, in either version."""
    if not isinstance(document, dict) or not is_several(document):
        single = offset.from_document(document)
        if not single.topic:
            raise Misuse(
                "the offset names no topic, so it cannot belong to a query over several: set option topic to its topic"
            )
        return Offset({single.topic: single})
    strange = sorted(str(name) for name in document.keys() - {"topics", "v"})
    parts = document.get("topics")
    if strange or not isinstance(parts, dict):
        raise Corrupt("an offset of several topics must contain only topics", fields=", ".join(strange)[:80])
    if len(parts) > SPARK_TOPICS_MAX:
        raise Corrupt("an offset has more topics than a query can read", topics=len(parts))
    return Offset({_name(name): _whole(name, part) for name, part in parts.items()})


def is_several(document: object) -> bool:
    return isinstance(document, dict) and type(document.get("v")) is int and document["v"] == VERSION


def _bare(single: SourceOffset) -> dict[str, Any]:
    document = replace(single, topic="").document()
    del document["v"]
    return document


def _whole(name: str, part: object) -> SourceOffset:
    if not isinstance(part, dict) or "v" in part or "topic" in part:
        raise Corrupt("each topic's offset must be an object without a version", topic=name[:80])
    return offset.from_document({**part, "topic": name, "v": offset.VERSION})


def _name(name: object) -> str:
    if not isinstance(name, str) or not name or len(name) > SPARK_OFFSET_BYTES_MAX:
        raise Corrupt("a topic in an offset must be a name", topic=str(name)[:80])
    return name
