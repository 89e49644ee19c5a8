"""Positions in a topic as users write them: earliest, latest, a message id, a time, or an age."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Literal

from magnetar.base.errors import Misuse
from magnetar.client.documents.topics import MessageId

Position = MessageId | int | Literal["earliest", "latest"]  # int: milliseconds since 1970

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_AGO = re.compile(r"-?(\d+)(ms|s|min|m|h|d)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def position(text: str, now_ms: int | None) -> Position:
    if text in ("earliest", "latest"):
        return "earliest" if text == "earliest" else "latest"
    if re.fullmatch(r"\d+:\d+(:-?\d+){0,2}", text):
        return message_id(text)
    if ago := _AGO.fullmatch(text):
        if now_ms is None:
            raise Misuse("the broker reports no time: pass a time such as 2026-11-15T10:00:00Z instead", position=text)
        return max(0, now_ms - round(int(ago[1]) * _UNITS[ago[2]] * 1000))
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise Misuse(
            "a position must be earliest, latest, an id (12:34), a time (2026-11-15T10:00:00Z) or an age (10m, 2h, 1d)",
            position=text,
        ) from None
    when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return max(0, round((when - _EPOCH) / timedelta(milliseconds=1)))


def refuse_malformed(text: str) -> None:
    """Refuses text that is not a position, before a command connects to a broker."""
    position(text, now_ms=0)


def message_id(text: str) -> MessageId:
    """ledger:entry, with partition and batch index if needed."""
    try:
        numbers = [int(part) for part in text.split(":")]
        ledger, entry, *rest = numbers
    except ValueError:
        raise Misuse("a message id must be ledger:entry or ledger:entry:partition:batch", id=text) from None
    partition, batch, *_ = [*rest, -1, -1]
    return MessageId(ledger, entry, partition, batch)
