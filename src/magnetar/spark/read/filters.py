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

    def narrowed(self, options: SourceOptions) -> SourceOptions:
        """The same options for less of the topic: start or end by time, or no rows at all."""
        slack_ms = int(SPARK_CLOCKS_DIFFER_S * 1000)
        starting, ending = options.starting, options.ending
        if self.first_ms is not None and (starting is Extreme.EARLIEST or isinstance(starting, AtTime)):
            first = max(0, self.first_ms - slack_ms)
            starting = AtTime(max(first, starting.ms) if isinstance(starting, AtTime) else first)
        if self.last_ms is not None and (ending is Extreme.LATEST or isinstance(ending, AtTime)):
            last = self.last_ms + slack_ms
            ending = AtTime(min(last, ending.ms) if isinstance(ending, AtTime) else last)
        return replace(options, starting=starting, ending=ending)


def wanted(filters: Iterable[Filter]) -> PushedFilters:
    """The conjunction of all these filters."""
    pushed = PushedFilters()
    for condition in filters:
        attribute = getattr(condition, "attribute", ())
        if attribute == ("publish_time",):
            pushed = _time(pushed, condition, _ms(getattr(condition, "value", None)))
        elif attribute == ("key",):
            pushed = _key(pushed, condition, getattr(condition, "value", None))
    return pushed


def _time(pushed: PushedFilters, condition: Filter, ms: int | None) -> PushedFilters:
    if ms is None:
        return pushed
    exact = isinstance(condition, EqualTo | EqualNullSafe)
    if exact or isinstance(condition, GreaterThan | GreaterThanOrEqual):
        pushed = replace(pushed, first_ms=ms if pushed.first_ms is None else max(pushed.first_ms, ms))
    if exact or isinstance(condition, LessThan | LessThanOrEqual):
        pushed = replace(pushed, last_ms=ms + 1 if pushed.last_ms is None else min(pushed.last_ms, ms + 1))
    return pushed


def _key(pushed: PushedFilters, condition: Filter, value: Any) -> PushedFilters:
    if isinstance(condition, EqualTo):
        keys = [value]
    elif isinstance(condition, In):
        keys = list(value)
    else:
        return pushed
    if not all(isinstance(key, bytes | bytearray) for key in keys):
        return pushed
    some = frozenset(map(bytes, keys))
    return replace(pushed, keys=some if pushed.keys is None else pushed.keys & some)


def _ms(value: Any) -> int | None:
    if not isinstance(value, datetime):
        return None
    return int((value if value.tzinfo is not None else value.replace(tzinfo=UTC)).timestamp() * 1000)
