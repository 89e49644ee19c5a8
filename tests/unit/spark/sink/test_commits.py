"""What a driver says and refuses before it asks a broker: odd tasks are told once, topics of a batch are bounded."""

from __future__ import annotations

import pytest

from magnetar.base.errors import LimitExceeded
from magnetar.spark.sink.options import sink_options

pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'magnetar[spark]'")

from magnetar.spark.sink.commits import TaskCommit, commit

ASKED = sink_options({"topic": "topic://t/n/x", "url": "pulsar://h:1"}, streaming=False)


def test_warnings_of_tasks_are_logged_once_at_driver(capsys: pytest.CaptureFixture[str]) -> None:
    tasks = [TaskCommit("s", 0, warnings=("rows are not written again",)), TaskCommit("s", 0)]
    commit(ASKED, [*tasks, None, *tasks], 0, wait=True)
    assert capsys.readouterr().err == "magnetar: rows are not written again\n"


def test_too_many_topics_are_refused_before_any_commit() -> None:
    asked = sink_options({"url": "pulsar://h:1"}, streaming=False, topic_column=True)
    tasks = [TaskCommit("s", 0, ((f"topic://t/n/{task}-{number}", "x"),)) for task in "ab" for number in range(150)]
    with pytest.raises(LimitExceeded, match="names more than 256 topics"):
        commit(asked, tasks, 0, wait=True)
