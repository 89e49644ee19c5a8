"""How far a query is behind, as it stands in Spark's progress: beside the end of all there is, in numbers.

Spark has no place for metrics of a Python source; it shows the latest offset that a source reports as it is. So the
numbers travel in that text, as `behind`. It is never a checkpoint's: offsets that are read back have no such field.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from magnetar.spark.source.multi_offset import Offset
from magnetar.spark.source.offset import SourceOffset
from magnetar.spark.source.readable_range import Stretches


@dataclass(frozen=True, slots=True)
class Behind:
    """What was published and is in no batch yet. `oldest_ms`: when the first of it was published; 0: there is none, or
    the server does not tell."""

    messages: int = 0
    bytes: int = 0
    oldest_ms: int = 0

    def document(self) -> dict[str, int]:
        said = {"bytes": self.bytes, "messages": self.messages}
        return said | {"oldest_ms": self.oldest_ms} if self.oldest_ms else said


@dataclass(frozen=True, slots=True)
class Report:
    target: SourceOffset | Offset
    behind: Behind

    def document(self) -> dict[str, Any]:
        return {"behind": self.behind.document(), **self.target.document()}


def behind(stretches: Stretches) -> Behind:
    """All that stretches have, measured from where a query stands."""
    marked = [one.marks for one in stretches.values() if one.marks]
    return total(Behind(marks[-1].messages, marks[-1].bytes, marks[0].publish_ms) for marks in marked)


def total(parts: Iterable[Behind]) -> Behind:
    found = list(parts)
    oldest = min((one.oldest_ms for one in found if one.oldest_ms), default=0)
    return Behind(sum(one.messages for one in found), sum(one.bytes for one in found), oldest)


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a query was behind when a batch of it had been planned, over all its sources of this kind."""

    query: str  # the id that its checkpoint gives it
    name: str
    batch: int
    messages: int
    bytes: int
    age_s: float  # of the oldest message that is in no batch yet; 0 where there is none, or the server does not tell


def lag_of(query: str, name: str, batch: int, timestamp: str, offsets: Iterable[str | None]) -> Lag | None:
    """From a progress of Spark: its time, and the latest offset of each source. None: none of them is of this kind."""
    found = [one for one in map(_behind, offsets) if one is not None]
    if not found:
        return None
    all = total(found)
    now_ms = datetime.fromisoformat(timestamp).timestamp() * 1000
    age_s = max(0.0, (now_ms - all.oldest_ms) / 1000) if all.oldest_ms else 0.0
    return Lag(query, name, batch, all.messages, all.bytes, age_s)


def _behind(text: str | None) -> Behind | None:
    try:
        said = json.loads(text or "null")
    except ValueError:
        return None
    told = said.get("behind") if isinstance(said, dict) else None
    if not isinstance(told, dict) or not all(type(number) is int for number in told.values()):
        return None
    return Behind(told.get("messages", 0), told.get("bytes", 0), told.get("oldest_ms", 0))
