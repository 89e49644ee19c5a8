"""What the sink says without a broker: what was odd reaches whoever runs the driver, and a missing topic is named."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import TopicNotFound
from magnetar.spark.sinkoptions import sink_options

pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'magnetar[spark]'")

ASKED = sink_options({"topic": "topic://t/n/x", "url": "pulsar://h:1"}, streaming=False)


def test_what_was_odd_to_its_tasks_is_said_once_where_the_driver_runs(capsys: pytest.CaptureFixture[str]) -> None:
    from magnetar.spark.sink import Written, commit

    tasks = [Written("s", 0, warning="rows are not written again"), Written("s", 0)]
    commit(ASKED, [*tasks, None, *tasks], 0, wait=True)
    assert capsys.readouterr().err == "magnetar: rows are not written again\n"


def test_a_topic_that_is_not_there_is_an_error_that_names_the_option_and_what_to_do() -> None:
    from magnetar.spark.sink import found

    async def missing() -> None:
        raise TopicNotFound("Namespace t/n does not exist")

    with pytest.raises(TopicNotFound) as told:
        asyncio.run(found(ASKED, missing()))
    for words in ("option topic", "topic://t/n/x", "pulsar://h:1", "magnetar namespace create t/n", "does not exist"):
        assert words in str(told.value)
