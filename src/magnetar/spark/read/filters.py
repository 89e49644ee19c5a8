"""Derives a range of publish times and keys from the filters of a query.

Only conditions that every row must satisfy count. Spark applies all filters again itself, so every other condition is
left to it. Time ranges are widened by the possible clock difference of producers, because the publish times of a
segment are only approximately in order. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from magnetar.base.limits import SPARK_CLOCKS_DIFFER_S
from magnetar.spark.source.options import AtTime, Extreme, SourceOptions


@dataclass(frozen=True, slots=True)
class PushedFilters:
    """None: no restriction."""

    first_ms: int | None = None
    last_ms: int | None = None
    keys: frozenset[bytes] | None = None

    def narrowed(self, asked: SourceOptions) -> SourceOptions:
        """The same options for less of the topic: start or end by time, or no rows at all."""
        slack_ms = int(SPARK_CLOCKS_DIFFER_S * 1000)
        starting, ending = asked.starting, asked.ending
        if self.first_ms is not None and (starting is Extreme.EARLIEST or isinstance(starting, AtTime)):
            first = max(0, self.first_ms - slack_ms)
            starting = AtTime(max(first, starting.ms) if isinstance(starting, AtTime) else first)
        if self.last_ms is not None and (ending is Extreme.LATEST or isinstance(ending, AtTime)):
            last = self.last_ms + slack_ms
            ending = AtTime(min(last, ending.ms) if isinstance(ending, AtTime) else last)
        return replace(asked, starting=starting, ending=ending)


def wanted(filters: Iterable[Filter]) -> PushedFilters:
    """The conjunction of all these filters."""
    found = PushedFilters()
    for one in filters:
        attribute = getattr(one, "attribute", ())
        if attribute == ("publish_time",):
            found = _time(found, one, _ms(getattr(one, "value", None)))
        elif attribute == ("key",):
            found = _key(found, one, getattr(one, "value", None))
    return found


def _time(found: PushedFilters, one: Filter, ms: int | None) -> PushedFilters:
    if ms is None:
        return found
    exact = isinstance(one, EqualTo | EqualNullSafe)
    if exact or isinstance(one, GreaterThan | GreaterThanOrEqual):
        found = replace(found, first_ms=ms if found.first_ms is None else max(found.first_ms, ms))
    if exact or isinstance(one, LessThan | LessThanOrEqual):
        found = replace(found, last_ms=ms + 1 if found.last_ms is None else min(found.last_ms, ms + 1))
    return found


def _key(found: PushedFilters, one: Filter, value: Any) -> PushedFilters:
    if isinstance(one, EqualTo):
        keys = [value]
    elif isinstance(one, In):
        keys = list(value)
    else:
        return found
    if not all(isinstance(key, bytes | bytearray) for key in keys):
        return found
    some = frozenset(map(bytes, keys))
    return replace(found, keys=some if found.keys is None else found.keys & some)


def _ms(value: Any) -> int | None:
    if not isinstance(value, datetime):
        return None
    return int((value if value.tzinfo is not None else value.replace(tzinfo=UTC)).timestamp() * 1000)
