"""Options as people write them, and errors that name the option and what to do."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.base.errors import Misuse
from magnetar.layout.readable_range import ReadPosition
from magnetar.spark.read import columns
from magnetar.spark.source.batch_limits import Limits
from magnetar.spark.source.offset import SourceOffset
from magnetar.spark.source.options import (
    COLUMNS,
    DEFAULT_URL,
    AtTime,
    ColumnOptions,
    CursorAdvance,
    Extreme,
    SourceOptions,
    Target,
    Values,
    shown,
    source_options,
)
from magnetar.spark.source.planner import Balance, KeyOrder, Rules

TOPIC = "topic://shop/orders/events"


def stream(**given: str) -> SourceOptions:
    return source_options({"topic": TOPIC, **given}, streaming=True)


def batch(**given: str) -> SourceOptions:
    return source_options({"topic": TOPIC, **given}, streaming=False)


def test_topic_is_enough():
    assert stream() == SourceOptions(
        (TOPIC,),
        "pulsar://localhost:6650",
        "",
        Extreme.LATEST,
        Extreme.LATEST,
        Limits(),
        900.0,
        Rules(),
        ("key", "value", "publish_time"),
        CursorAdvance.EAGER,
    )
    assert batch().starting is Extreme.EARLIEST


def test_columns_by_default_are_columns():
    assert columns.schema(COLUMNS).names == list(COLUMNS)


def test_names_and_words_are_read_whatever_their_case():
    made = source_options(
        {
            "TOPIC": TOPIC,
            "maxmessagespertrigger": "500",
            "MaxBytesPerTrigger": "64m",
            "minmessagespertrigger": "10",
            "maxtriggerdelay": "30s",
            "keyorder": "Barrier",
            "balance": "TIME",
            "failondataloss": "False",
            "startingoffsets": "Earliest",
            "columns": "value, __order",
            "subscription": "orders",
            "cursoradvance": "commit",
            "url": "pulsar://b:1",
        },
        streaming=True,
    )
    assert made.limits == Limits(500, 64 << 20, 10)
    assert made.rules == Rules(KeyOrder.BARRIER, Balance.TIME, False)
    assert (made.trigger_delay_s, made.starting, made.columns) == (30.0, Extreme.EARLIEST, ("value", "__order"))
    assert (made.subscription, made.cursor_advance, made.url) == ("orders", CursorAdvance.COMMIT, "pulsar://b:1")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("earliest", Extreme.EARLIEST),
        (" LATEST ", Extreme.LATEST),
        ("1700000000000", AtTime(1_700_000_000_000)),
        ("2026-01-31T12:00:00Z", AtTime(1_769_860_800_000)),
        ("2026-01-31T13:00:00.5+01:00", AtTime(1_769_860_800_500)),
        ('{"epoch":1,"seg":{"0":"7:1"},"v":1}', SourceOffset(1, {0: ReadPosition(7, 1)})),
    ],
)
def test_where_to_start(text, where):
    assert stream(startingOffsets=text).starting == where
    assert batch(startingOffsets=text, endingOffsets="latest").starting == where


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("1000b", 1000), ("64k", 65536), ("2 MB", 2 << 20), ("1GiB", 1 << 30), ("3t", 3 << 40)]
)
def test_sizes(text, size):
    assert stream(maxBytesPerTrigger=text).limits.bytes == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("30s", 30),
        ("15m", 900),
        ("1h", 3600),
        ("2d", 172_800),
        ("5 minutes", 300),
        ("20 milliseconds", 0.02),
    ],
)
def test_durations(text, seconds):
    assert stream(maxTriggerDelay=text).trigger_delay_s == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"topic": ""}, r"option topic: it must not be empty"),
        ({"topic": None}, r"option topic is missing: set \.option"),
        ({"topic": "topic://a/b"}, r"option topic: "),
        ({"maxMessagePerTrigger": "5"}, r"unknown option maxMessagePerTrigger: did you mean maxMessagesPerTrigger\?"),
        ({"zzz": "5"}, r"unknown option zzz: expected one of topic, topics"),
        ({"delivery": "exactly-once"}, r"option delivery belongs to the sink"),
        ({"endingOffsets": "latest"}, r"option endingOffsets has no effect on a stream.*spark\.read"),
        ({"maxMessagesPerTrigger": "0"}, r"option maxMessagesPerTrigger: it must be a number from 1"),
        ({"maxMessagesPerTrigger": "-1"}, r"option maxMessagesPerTrigger"),
        ({"maxMessagesPerTrigger": "many"}, r"option maxMessagesPerTrigger"),
        ({"maxMessagesPerTrigger": "٣"}, r"option maxMessagesPerTrigger"),
        ({"maxMessagesPerTrigger": "5", "minMessagesPerTrigger": "6"}, r"minMessagesPerTrigger must not exceed"),
        ({"maxBytesPerTrigger": "64x"}, r"option maxBytesPerTrigger: it must be a number of bytes"),
        ({"maxBytesPerTrigger": "99999999999t"}, r"option maxBytesPerTrigger"),
        ({"maxTriggerDelay": "30"}, r"option maxTriggerDelay: it must be a time such as 500ms"),
        ({"maxTriggerDelay": "0s"}, r"option maxTriggerDelay"),
        ({"failOnDataLoss": "no"}, r"option failOnDataLoss: it must be true or false"),
        ({"keyOrder": "strict"}, r"option keyOrder: it must be chain or barrier or relaxed"),
        ({"balance": "rows"}, r"option balance: it must be backlog or time"),
        ({"columns": "key,,value"}, r"option columns: expected names separated by commas"),
        ({"columns": "key,key"}, r"option columns"),
        ({"startingOffsets": "soon"}, r"option startingOffsets: it must be earliest, latest"),
        ({"startingOffsets": "2026-01-31T12:00:00"}, r"option startingOffsets: a time must have a zone"),
        ({"startingOffsets": "1969-01-31T12:00:00Z"}, r"option startingOffsets.*use earliest"),
        ({"startingOffsets": '{"v":1}'}, r"option startingOffsets must be an offset of this source"),
        ({"startingOffsets": '{"v":9}'}, r"option startingOffsets.*newer version"),
    ],
)
def test_error_names_option_and_what_to_do(given, words):
    asked = {name: text for name, text in {"topic": TOPIC, **given}.items() if text is not None}
    with pytest.raises(Misuse, match=words):
        source_options(asked, streaming=True)


def test_options_of_streams_are_refused_for_batches():
    for name, text in {"maxMessagesPerTrigger": "5", "subscription": "s", "maxTriggerDelay": "1s"}.items():
        with pytest.raises(Misuse, match=rf"option {name} has no effect on a batch read.*spark\.readStream"):
            batch(**{name: text})
    with pytest.raises(Misuse, match="endingOffsets must not be earliest"):
        batch(endingOffsets="earliest")


def test_option_given_twice_in_different_cases_is_refused():
    with pytest.raises(Misuse, match="option balance is set twice"):
        stream(balance="time", BALANCE="backlog")


def test_values_are_bytes_unless_registry_is_asked():
    assert (batch().values, batch(schema="Registry").values) == (Values.BYTES, Values.REGISTRY)
    with pytest.raises(Misuse, match="option schema: it must be bytes or registry"):
        stream(schema="avro")
    with pytest.raises(Misuse, match="option schema=registry decodes the column value: add value to option columns"):
        stream(schema="registry", columns="key")


def test_columns_are_known_before_read_mode():
    given = {"TOPIC": "topic://a/b/c", "maxBytesPerTrigger": "5", "columns": "value"}
    assert shown(given) == ColumnOptions(Target(("topic://a/b/c",)), DEFAULT_URL, ("value",), Values.BYTES)
    with pytest.raises(Misuse, match="option topic is missing"):
        shown({})


def test_driver_that_plans_loads_neither_arrow_nor_numpy():
    """Spark looks at every source when the first one is asked for: whoever has no Arrow must not notice us."""
    rooms = ", ".join(
        f"magnetar.spark.{name}"
        for name in (
            "source.offset",
            "source.planner",
            "source.readable_range",
            "source.tasks",
            "source.options",
            "values.table",
        )
    )
    asked = f"import sys, {rooms}; print(sorted({{'numpy', 'pyarrow', 'pyspark'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_process_of_source_loads_no_consumers_and_no_producers():
    """Spark starts one for every query, which waits for it."""
    loaded = "import sys, magnetar.spark.connect, magnetar.spark.read.read_task"
    asked = f"{loaded}; print('magnetar.client.client' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


NAMES = ["topic", "startingOffsets", "maxBytesPerTrigger", "maxTriggerDelay", "columns", "keyOrder", "failOnDataLoss"]


@given(
    st.dictionaries(
        st.sampled_from(NAMES), st.text(max_size=12) | st.sampled_from(["{", "1e5", "9" * 30, "0001-01-01T00:00+14:00"])
    )
)
@settings(max_examples=80)
def test_any_text_is_read_or_refused(given):
    try:
        source_options(given, streaming=True)
    except Misuse:
        pass


def test_several_topics_are_named_by_commas_in_either_option():
    asked = stream(topic=f"{TOPIC}, persistent://a/b/c")
    assert asked.topics == (TOPIC, "persistent://a/b/c")
    assert asked.several
    assert source_options({"topics": TOPIC}, streaming=True).several is False


def test_namespace_is_read_with_filter_of_properties():
    given = {"namespace": "shop/orders", "topicProperties": "team=shop, kind=a=b"}
    asked = source_options(given, streaming=True)
    assert (asked.topics, asked.namespace) == ((), "shop/orders")
    assert asked.properties == (("kind", "a=b"), ("team", "shop"))
    assert asked.several


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"topic": TOPIC, "topics": TOPIC}, "options topic and topics exclude each other"),
        ({"topic": TOPIC, "namespace": "a/b"}, "options topic and namespace exclude each other"),
        ({"topic": TOPIC, "topicProperties": "a=b"}, "option topicProperties requires option namespace"),
        ({"namespace": "a/b", "topicProperties": "a"}, "option topicProperties: expected names and values"),
        ({"namespace": "a"}, "option namespace: a namespace must be tenant/namespace"),
        ({"topics": f"{TOPIC},{TOPIC}"}, "each once"),
        ({"topics": f"{TOPIC},topic://a/b/c", "schema": "registry"}, "schema of one topic"),
        ({"namespace": "a/b", "schema": "registry"}, "schema of one topic"),
    ],
)
def test_target_that_cannot_be_is_refused(given, words):
    with pytest.raises(Misuse, match=words):
        source_options(given, streaming=True)
