"""Parses the options of the sink from Spark's text values; errors name the option and the remedy.

Option names are case-insensitive. Unknown options are rejected, except those that Spark itself adds. Pure: whether a
server supports the options is known only at the first request.
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
    EXACTLY_ONCE = "exactly-once"  # staged: each row is stored once, even if Spark repeats tasks
    AT_LEAST_ONCE = "at-least-once"  # direct to the topic: a repeated task stores its rows again
    # direct to the topic with sequence ids: once if a repeated task has the same rows in order
    IDEMPOTENT = "idempotent"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """`topic` is empty if a column names the topic of each row. `sink` is empty if it is the query's id, which only
    tasks know, or a new one per job. `batch`: the user's number (txnVersion), -1 if Spark counts.
    """

    topic: str
    url: str
    delivery: Delivery
    sink: str = ""
    batch: int = -1


_NAMES = {name.lower(): name for name in ("topic", "url", "delivery", "sinkId", "txnAppId", "txnVersion")}
_SPARKS = {"checkpointlocation", "queryname"}  # options that Spark's own writers use and pass on
_SOURCES = {"subscription", "startingoffsets", "endingoffsets", "maxmessagespertrigger", "columns", "keyorder"}


def sink_options(
    options: Mapping[str, str],
    *,
    streaming: bool,
    overwrite: bool = False,
    url: str = DEFAULT_URL,
    topic_column: bool = False,
) -> SinkOptions:
    """Parses and checks all options. `Misuse` names the wrong option and its valid values. `url`: the default.
    `topic_column`: the rows have a column `topic`, which applies unless the option is set.
    """
    named = _named(options)
    if overwrite:
        how = 'outputMode("append")' if streaming else 'mode("append")'
        raise Misuse(f"a topic cannot be overwritten, only appended to: write with {how}")
    topic = named.get("topic", "").strip()
    if not named and not streaming:
        raise Misuse(
            "INSERT into a table of the catalog is not supported, because Spark passes no options to the "
            'writer: use df.write.format("magnetar").option("topic", ...)'
        )
    if not topic and not topic_column:
        raise Misuse(
            'option topic is missing: set .option("topic", "topic://tenant/namespace/name"), or add a column '
            "topic with the topic of each row"
        )
    delivery = _delivery(named.get("delivery", Delivery.EXACTLY_ONCE))
    if topic:
        try:
            topic = target(topic, delivery)
        except MagnetarError as error:
            raise Misuse(f"option topic: {error}") from None
    sink, batch = _counted(named, streaming=streaming)
    if delivery is Delivery.IDEMPOTENT and not streaming and not sink:
        raise Misuse("option delivery: idempotent numbers rows by job: set txnAppId and txnVersion too")
    return SinkOptions(topic, named.get("url", url).strip(), delivery, sink, batch)


def target(text: str, delivery: Delivery) -> str:
    """The complete name of a target topic. `InvalidName`, `Misuse`: the sink cannot write to it."""
    named = topic_name(full_name(text))
    if delivery is not Delivery.AT_LEAST_ONCE and not named.is_persistent:
        raise Misuse(f"option delivery: {delivery} requires a persistent or scalable topic; {named} stores no messages")
    return str(named)


def _counted(named: Mapping[str, str], *, streaming: bool) -> tuple[str, int]:
    """The sink that counts batches, and the batch number if the user sets it."""
    sink, app, version = named.get("sinkId", ""), named.get("txnAppId", ""), named.get("txnVersion", "")
    if streaming and (app or version):
        raise Misuse("options txnAppId and txnVersion are only for writes inside foreachBatch: set sinkId for a stream")
    if not streaming and sink:
        raise Misuse("option sinkId is only for writeStream: set txnAppId and txnVersion for a batch write")
    if bool(app) != bool(version):
        missing, there = ("txnVersion", "txnAppId") if app else ("txnAppId", "txnVersion")
        raise Misuse(f"option {missing} is missing: it is required together with {there}")
    if not app:
        return sink, -1
    if not version.strip().isdigit() or int(version) >= 1 << 63:
        raise Misuse(
            "option txnVersion must be an increasing number from 0, for example the batch id in foreachBatch",
            value=version,
        )
    return app, int(version)


def _delivery(text: str) -> Delivery:
    try:
        return Delivery(text.strip().lower())
    except ValueError:
        raise Misuse(f"option delivery must be one of {', '.join(Delivery)}", value=text[:80]) from None


def _named(options: Mapping[str, str]) -> dict[str, str]:
    named: dict[str, str] = {}
    for name, text in own_options(options).items():
        canonical = _NAMES.get(name.lower())
        if canonical is not None:
            named[canonical] = text
        elif name.lower() in _SOURCES:
            raise Misuse(f"option {name} belongs to the source: set it on readStream or read")
        elif name.lower() not in _SPARKS:
            instead = kafka_options.instead(name)
            if instead is not None:
                raise Misuse(instead)
            near = get_close_matches(name.lower(), _NAMES, n=1)
            guess = f"did you mean {_NAMES[near[0]]}?" if near else f"expected one of {', '.join(_NAMES.values())}"
            raise Misuse(f"unknown option {name}: {guess}")
    return named
