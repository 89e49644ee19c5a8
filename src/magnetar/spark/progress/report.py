"""The lag of a query in Spark's progress: numbers beside the newest offset of the topic.

Spark has no metrics for a Python source, but it shows the latest offset that a source reports unchanged. Therefore the
numbers travel in that text, as `behind`. A checkpoint never contains them: offsets that are read back have no such
field.
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
class SegmentLag:
    """Published messages that no batch contains yet. `oldest_ms`: publish time of the first of them; 0: the backlog is
    empty, or the server does not report it.
    """

    messages: int = 0
    bytes: int = 0
    oldest_ms: int = 0

    def document(self) -> dict[str, int]:
        document = {"bytes": self.bytes, "messages": self.messages}
        return document | {"oldest_ms": self.oldest_ms} if self.oldest_ms else document


@dataclass(frozen=True, slots=True)
class Report:
    target: SourceOffset | Offset
    behind: SegmentLag

    def document(self) -> dict[str, Any]:
        return {"behind": self.behind.document(), **self.target.document()}


def behind(stretches: Stretches) -> SegmentLag:
    """The content of ranges that begin at the position of a query."""
    marked = [one.marks for one in stretches.values() if one.marks]
    return total(SegmentLag(marks[-1].messages, marks[-1].bytes, marks[0].publish_ms) for marks in marked)


def total(parts: Iterable[SegmentLag]) -> SegmentLag:
    lags = list(parts)
    oldest = min((one.oldest_ms for one in lags if one.oldest_ms), default=0)
    return SegmentLag(sum(one.messages for one in lags), sum(one.bytes for one in lags), oldest)


@dataclass(frozen=True, slots=True)
class Lag:
    """The lag of a query after the planning of a batch, over all its Magnetar sources."""

    query: str  # the id in its checkpoint
    name: str
    batch: int
    messages: int
    bytes: int
    # age of the oldest message that no batch contains; 0: no such message, or the server does not report it
    age_s: float


def lag_of(query: str, name: str, batch: int, timestamp: str, offsets: Iterable[str | None]) -> Lag | None:
    """From a progress of Spark: its time, and the latest offset of each source. None: no source is of this kind."""
    lags = [one for one in map(_behind, offsets) if one is not None]
    if not lags:
        return None
    all = total(lags)
    now_ms = datetime.fromisoformat(timestamp).timestamp() * 1000
    age_s = max(0.0, (now_ms - all.oldest_ms) / 1000) if all.oldest_ms else 0.0
    return Lag(query, name, batch, all.messages, all.bytes, age_s)


def _behind(text: str | None) -> SegmentLag | None:
    try:
        document = json.loads(text or "null")
    except ValueError:
        return None
    lag = document.get("behind") if isinstance(document, dict) else None
    if not isinstance(lag, dict) or not all(type(number) is int for number in lag.values()):
        return None
    return SegmentLag(lag.get("messages", 0), lag.get("bytes", 0), lag.get("oldest_ms", 0))
