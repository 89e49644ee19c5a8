"""The rows of a batch by the topic that they name: in order, each once, and refused with the row and its value."""

from __future__ import annotations

from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow is missing: pip install 'magnetar[spark]'")

from magnetar.base.errors import LimitExceeded, Misuse  # noqa: E402
from magnetar.base.limits import SPARK_TARGETS_MAX  # noqa: E402
from magnetar.spark.sink.options import sink_options  # noqa: E402
from magnetar.spark.sink.targets import Targets  # noqa: E402

A, B = "topic://t/n/a", "topic://t/n/b"


def targets(columns: list[str], **options: str) -> Targets:
    return Targets(sink_options(options, streaming=True, topic_column="topic" in columns), columns, 3)


def batch(topics: list[str | None], first: int = 0) -> Any:
    values = [str(first + place) for place in range(len(topics))]
    return pa.record_batch([pa.array(values), pa.array(topics, pa.string())], names=["value", "topic"])


def parted(found: Targets, rows: Any) -> list[tuple[str, list[str]]]:
    return [(topic, piece.column(0).to_pylist()) for topic, piece in found.pieces(rows)]


def test_rows_of_each_topic_come_together_and_in_order() -> None:
    found = targets(["value", "topic"])
    assert found.names == ["value"]
    assert parted(found, batch([A, B, A, A, B])) == [(A, ["0", "2", "3"]), (B, ["1", "4"])]
    assert parted(found, batch([B, B], 5)) == [(B, ["5", "6"])]
    assert parted(found, batch([])) == []
    assert [piece.schema.names for _, piece in found.pieces(batch([A, B]))] == [["value"], ["value"]]


def test_two_spellings_of_name_are_one_topic() -> None:
    found = targets(["value", "topic"])
    full = "persistent://public/default/orders"
    assert parted(found, batch(["orders", full, "Persistent://public/default/orders"])) == [(full, ["0", "1", "2"])]


def test_option_topic_sends_all_rows_there_whatever_column_says() -> None:
    found = targets(["topic", "value"], topic=A)
    rows = pa.record_batch([pa.array([B, None]), pa.array(["0", "1"])], names=["topic", "value"])
    assert [(topic, piece.to_pydict()) for topic, piece in found.pieces(rows)] == [(A, {"value": ["0", "1"]})]


def test_rows_without_column_are_left_as_they_are() -> None:
    rows = pa.record_batch([pa.array(["0"])], names=["value"])
    assert list(targets(["value"], topic=A).pieces(rows)) == [(A, rows)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "column topic is null in row 4 of partition 3 \\(both from 0\\): it contains no topic"),
        ("", "column topic is '' in row 4"),
        ("kafka://a/b/c", "column topic is 'kafka://a/b/c' in row 4 .*unknown topic domain"),
        ("a/b", "column topic is 'a/b' in row 4 .*tenant/namespace/topic"),
        ("non-persistent://a/b/c", "in row 4 .* stores no messages"),
    ],
)
def test_row_that_names_no_topic_is_refused_with_its_value(text: str | None, words: str) -> None:
    found = targets(["value", "topic"])
    parted(found, batch([A, B]))
    with pytest.raises(Misuse, match=f"{words}.*set option topic"):
        parted(found, batch([A, B, text, A]))


def test_non_persistent_topics_are_taken_where_rows_may_be_lost() -> None:
    found = targets(["value", "topic"], delivery="at-least-once")
    assert parted(found, batch(["non-persistent://a/b/c"])) == [("non-persistent://a/b/c", ["0"])]


def test_topics_of_one_batch_are_bounded() -> None:
    found = targets(["value", "topic"])
    names: list[str | None] = [f"topic://t/n/{number}" for number in range(SPARK_TARGETS_MAX)]
    assert len(parted(found, batch(names))) == SPARK_TARGETS_MAX
    with pytest.raises(LimitExceeded, match=f"more than {SPARK_TARGETS_MAX} topics in one batch"):
        parted(found, batch([A]))
