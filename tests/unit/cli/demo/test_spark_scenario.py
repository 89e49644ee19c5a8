"""The end of the demo through Spark: the verdict as a table, as JSON and as an exit code."""

from __future__ import annotations

import json

import pytest

from magnetar.cli.demo import concluded
from magnetar.cli.demo.order_check import OrderReport, Outcome
from magnetar.cli.demo.spark_scenario import parts
from magnetar.cli.exit_codes import Exit


def an_outcome(*, lost: int, restarts: int = 0) -> Outcome:
    places = [OrderReport("topic", 10 - lost, lost, 0, 0, 0), OrderReport("parquet", 10, 0, 0, 0, 0)]
    return Outcome(10, 10, 0, splits=5, merges=3, query_kills=1, broker_kills=1, restarts=restarts, places=places)


def test_all_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = an_outcome(lost=0)
    assert concluded(outcome, parts(outcome, 61.26), 61.26, "table", colors=True) == Exit.OK
    assert capsys.readouterr().out.splitlines() == [
        "WRITTEN TO  ROWS  LOST  TWICE  DISORDERED  INVENTED  VERDICT",
        "topic         10     0      0           0         0  ok",
        "parquet       10     0      0           0         0  ok",
        "",
        "acknowledged  10 of 10 orders sent, 0 failed",
        "killed        the query once, the broker once",
        "reshaped      5 splits and 3 merges of the two topics, under traffic",
        "took          61.3 s",
        "verdict       OK: every key in order, nothing lost, nothing twice, in the topic and in Parquet",
    ]


def test_lost_row_is_said_and_is_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = an_outcome(lost=2)
    assert concluded(outcome, parts(outcome, 61.26), 61.26, "table", colors=True) == Exit.CHECK_FAILED
    shown = capsys.readouterr().out
    assert "topic          8     2      0           0         0  FAILED" in shown
    assert "FAILED: 2 lost" in shown


def test_query_that_ended_by_itself_is_not_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = an_outcome(lost=0, restarts=2)
    concluded(outcome, parts(outcome, 1.0), 1.0, "table", colors=True)
    assert "the query failed 2 times and was restarted" in capsys.readouterr().out


def test_programs_get_counts(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = an_outcome(lost=2)
    assert concluded(outcome, parts(outcome, 61.26), 61.26, "json", colors=True) == Exit.CHECK_FAILED
    document = json.loads(capsys.readouterr().out)
    assert (document["ok"], document["took_s"], document["query_kills"]) == (False, 61.3, 1)
    assert [one["lost"] for one in document["places"]] == [2, 0]
