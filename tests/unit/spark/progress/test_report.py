"""How far a query is behind, from Spark's progress alone."""

from __future__ import annotations

import json

from magnetar.base.ids import Epoch
from magnetar.layout.readable_range import START, CutPoint, ReadPosition
from magnetar.spark.progress.report import Lag, Report, SegmentLag, behind, lag_of
from magnetar.spark.source.offset import SourceOffset
from magnetar.spark.source.readable_range import ReadableRange

AT = "2026-01-31T12:00:10.000Z"
OLDEST_MS = 1_769_860_800_000  # ten seconds before


def reported(messages: int, oldest_ms: int = OLDEST_MS) -> str:
    return json.dumps(Report(SourceOffset(Epoch(0), {}), SegmentLag(messages, messages * 10, oldest_ms)).document())


def test_lag_adds_up_sources_and_takes_oldest():
    lag = lag_of("id", "mine", 7, AT, [reported(5), None, reported(3, OLDEST_MS + 4000), '{"kafka": {}}', "null"])
    assert lag == Lag("id", "mine", 7, 8, 80, 10.0)


def test_query_without_source_of_ours_has_no_lag():
    assert lag_of("id", "", 0, AT, [None, "null", "{}", "[1]", "not JSON", '{"behind": {"messages": "many"}}']) is None


def test_query_that_has_read_everything_is_not_behind():
    assert lag_of("id", "", 0, AT, [reported(0, 0)]) == Lag("id", "", 0, 0, 0, 0.0)


def test_what_stretches_have_is_counted_once():
    marks = (CutPoint(ReadPosition(1, 1), 2, 20, 7), CutPoint(ReadPosition(1, 2), 5, 50, 9))
    assert behind(
        {0: ReadableRange(START, marks), 1: ReadableRange(START), 2: ReadableRange(START, marks[:1])}
    ) == SegmentLag(7, 70, 7)
