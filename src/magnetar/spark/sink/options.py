"""The options of the sink, from the texts that Spark hands over to values; errors name the option and what to do.

Names are matched whatever their case. What is not an option is refused, except for what Spark itself puts among them.
Decides only: whether a server can do what was asked is found out when it is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from magnetar.base.errors import MagnetarError, Misuse
from magnetar.base.names import full_name, topic_name
from magnetar.spark import kafka_options
from magnetar.spark.catalog import own_options
from magnetar.spark.source.options import DEFAULT_URL


class Delivery(StrEnum):
    EXACTLY_ONCE = "exactly-once"  # staged: whatever is repeated, each row comes once
    AT_LEAST_ONCE = "at-least-once"  # straight to the topic: a task that is repeated repeats its rows
    IDEMPOTENT = "idempotent"  # straight to the topic, numbered: once if a repeated task has the same rows in order


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """`topic` is empty where a column names it in each row. `sink` is empty where it is the query's id, known to its
    tasks alone, or that of one job. `batch`: a number given by the user (txnVersion), -1 where Spark counts."""

    topic: str
    url: str
    delivery: Delivery
    sink: str = ""
    batch: int = -1


_NAMES = {name.lower(): name for name in ("topic", "url", "delivery", "sinkId", "txnAppId", "txnVersion")}
_SPARKS = {"checkpointlocation", "queryname"}  # what Spark's own writers take and pass on
_SOURCES = {"subscription", "startingoffsets", "endingoffsets", "maxmessagespertrigger", "columns", "keyorder"}


def sink_options(
    given: Mapping[str, str],
    *,
    streaming: bool,
    overwrite: bool = False,
    url: str = DEFAULT_URL,
    topic_column: bool = False,
) -> SinkOptions:
    """What was asked for, whole and checked. `Misuse` says which option is wrong and what it may be. `url`: where they
    name none. `topic_column`: the rows have a column `topic`, which counts unless the option is given."""
    said = _named(given)
    if overwrite:
        how = 'outputMode("append")' if streaming else 'mode("append")'
        raise Misuse(f"a topic cannot be overwritten, rows are added to it: write with {how}")
    topic = said.get("topic", "").strip()
    if not said and not streaming:
        raise Misuse(
            "a table of the catalog cannot be written by INSERT, because Spark does not pass its options to a writer: "
            'write with df.write.format("magnetar").option("topic", ...)'
        )
    if not topic and not topic_column:
        raise Misuse(
            'option topic is missing: .option("topic", "topic://tenant/namespace/name"), or a column topic that names '
            "it in each row"
        )
    delivery = _delivery(said.get("delivery", Delivery.EXACTLY_ONCE))
    if topic:
        try:
            topic = target(topic, delivery)
        except MagnetarError as error:
            raise Misuse(f"option topic: {error}") from None
    sink, batch = _counted(said, streaming=streaming)
    if delivery is Delivery.IDEMPOTENT and not streaming and not sink:
        raise Misuse("option delivery: idempotent numbers rows by job: give txnAppId and txnVersion too")
    return SinkOptions(topic, said.get("url", url).strip(), delivery, sink, batch)


def target(text: str, delivery: Delivery) -> str:
    """The full name of a topic that rows go to. `InvalidName`, `Misuse`: they cannot."""
    named = topic_name(full_name(text))
    if delivery is not Delivery.AT_LEAST_ONCE and not named.is_persistent:
        raise Misuse(f"option delivery: {delivery} needs a persistent or scalable topic; {named} keeps nothing")
    return str(named)


def _counted(said: Mapping[str, str], *, streaming: bool) -> tuple[str, int]:
    """Whose batches are counted, and which one this is if the user counts."""
    sink, app, version = said.get("sinkId", ""), said.get("txnAppId", ""), said.get("txnVersion", "")
    if streaming and (app or version):
        raise Misuse("options txnAppId and txnVersion are for writes inside foreachBatch: a stream takes sinkId")
    if not streaming and sink:
        raise Misuse("option sinkId is for writeStream: a batch write takes txnAppId and txnVersion")
    if bool(app) != bool(version):
        missing, there = ("txnVersion", "txnAppId") if app else ("txnAppId", "txnVersion")
        raise Misuse(f"option {missing} is missing: {there} alone does not say which write this is")
    if not app:
        return sink, -1
    if not version.strip().isdigit() or int(version) >= 1 << 63:
        raise Misuse("option txnVersion is a number from 0 on that grows: in foreachBatch the batch id", value=version)
    return app, int(version)


def _delivery(text: str) -> Delivery:
    try:
        return Delivery(text.strip().lower())
    except ValueError:
        raise Misuse(f"option delivery is {', '.join(Delivery)}", value=text[:80]) from None


def _named(given: Mapping[str, str]) -> dict[str, str]:
    said: dict[str, str] = {}
    for name, text in own_options(given).items():
        known = _NAMES.get(name.lower())
        if known is not None:
            said[known] = text
        elif name.lower() in _SOURCES:
            raise Misuse(f"option {name} is one of the source: give it to readStream or read")
        elif name.lower() not in _SPARKS:
            instead = kafka_options.instead(name)
            if instead is not None:
                raise Misuse(instead)
            near = get_close_matches(name.lower(), _NAMES, n=1)
            guess = f"did you mean {_NAMES[near[0]]}?" if near else f"options are {', '.join(_NAMES.values())}"
            raise Misuse(f"there is no option {name}: {guess}")
    return said
