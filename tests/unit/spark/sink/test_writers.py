"""What the sink says without a broker: a missing topic is named."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import TopicNotFound
from magnetar.spark.sink.options import sink_options

pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'magnetar[spark]'")

ASKED = sink_options({"topic": "topic://t/n/x", "url": "pulsar://h:1"}, streaming=False)


def test_missing_topic_names_option_and_remedy() -> None:
    from magnetar.spark.sink.writers import found

    async def missing() -> None:
        raise TopicNotFound("Namespace t/n does not exist")

    with pytest.raises(TopicNotFound) as told:
        asyncio.run(found(ASKED, "topic://t/n/x", missing()))
    for words in ("option topic", "topic://t/n/x", "pulsar://h:1", "magnetar namespace create t/n", "does not exist"):
        assert words in str(told.value)


def test_missing_topic_of_row_is_error_that_names_column() -> None:
    from magnetar.spark.sink.writers import found

    async def missing() -> None:
        raise TopicNotFound("there is none")

    asked = sink_options({"url": "pulsar://h:1"}, streaming=False, topic_column=True)
    with pytest.raises(TopicNotFound, match=r"column topic: topic://t/n/y does not exist .* or correct the rows"):
        asyncio.run(found(asked, "topic://t/n/y", missing()))
