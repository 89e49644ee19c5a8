"""Options of the sink: what is asked for is understood, what cannot be is refused by name with what to do."""

from __future__ import annotations

import pytest

from magnetar.base.errors import Misuse
from magnetar.spark.sink.options import Delivery, SinkOptions, sink_options
from magnetar.spark.source.options import DEFAULT_URL

TOPIC = {"topic": "topic://t/n/x"}


def test_exactly_once_is_default() -> None:
    assert sink_options(TOPIC, streaming=True) == SinkOptions("topic://t/n/x", DEFAULT_URL, Delivery.EXACTLY_ONCE)
    for delivery in Delivery:
        assert sink_options({**TOPIC, "Delivery": delivery.upper()}, streaming=True).delivery is delivery


def test_options_ignore_case_and_pass_those_of_spark() -> None:
    given = {"TOPIC": "rows", "SinkID": "mine", "checkpointlocation": "/c", "url": "pulsar://h:1"}
    asked = sink_options(given, streaming=True)
    assert (asked.topic, asked.sink, asked.url) == ("persistent://public/default/rows", "mine", "pulsar://h:1")


def test_version_counts_writes_of_application() -> None:
    asked = sink_options({**TOPIC, "txnAppId": "job", "txnVersion": "7"}, streaming=False)
    assert (asked.sink, asked.batch) == ("job", 7)
    assert sink_options(TOPIC, streaming=False).batch == -1


def test_option_topic_wins_over_column_and_is_needed_without_it() -> None:
    assert sink_options({}, streaming=True, topic_column=True).topic == ""
    assert sink_options(TOPIC, streaming=True, topic_column=True).topic == "topic://t/n/x"
    with pytest.raises(Misuse, match=r"option topic is missing: .*, or add a column topic with the topic of each row"):
        sink_options({}, streaming=True)


@pytest.mark.parametrize(
    ("options", "streaming", "words"),
    [
        ({"topic": ""}, True, "option topic is missing"),
        ({"topic": "persistent://x"}, True, "option topic"),
        ({"delivery": "twice"}, True, "option delivery must be one of exactly-once, at-least-once, idempotent"),
        ({"topic": "non-persistent://t/n/x"}, True, "stores no messages"),
        ({"txnAppId": "a", "txnVersion": "1"}, True, "set sinkId for a stream"),
        ({"sinkId": "a"}, False, "set txnAppId and txnVersion for a batch write"),
        ({"txnAppId": "a"}, False, "option txnVersion is missing"),
        ({"txnVersion": "1"}, False, "option txnAppId is missing"),
        ({"txnAppId": "a", "txnVersion": "-1"}, False, "txnVersion must be an increasing number"),
        ({"delivery": "idempotent"}, False, "set txnAppId"),
        ({"deliverry": "x"}, True, "did you mean delivery"),
        ({"colour": "x"}, True, "expected one of topic, url"),
        ({"startingOffsets": "x"}, True, "belongs to the source"),
    ],
)
def test_what_cannot_be_is_refused_by_name(options: dict[str, str], streaming: bool, words: str) -> None:
    with pytest.raises(Misuse, match=words):
        sink_options({**TOPIC, **options}, streaming=streaming)


@pytest.mark.parametrize("streaming", [True, False])
def test_topic_is_never_overwritten(streaming: bool) -> None:
    with pytest.raises(Misuse, match="cannot be overwritten"):
        sink_options(TOPIC, streaming=streaming, overwrite=True)
