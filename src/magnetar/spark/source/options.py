"""Parses the options of the source from Spark's text values; errors name the option and the remedy.

Names are case-insensitive, because Spark makes them lower case. An unknown option, usually a spelling mistake, is
rejected: ignoring `maxMessagePerTrigger` would read a whole topic into one batch. For an option of Spark's Kafka
source, the error names ours. Properties that Spark's catalog adds to a table are skipped. Pure: other modules check
that topics and columns exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from enum import Enum, StrEnum, auto
from typing import Any, TypeVar

from magnetar.base.errors import Corrupt, MagnetarError, Misuse
from magnetar.base.limits import SPARK_PARTITIONS_MAX, SPARK_TRIGGER_DELAY_S
from magnetar.base.names import full_name, namespace_name, topic_name
from magnetar.spark import kafka_options
from magnetar.spark.catalog import own_options, table_metadata, with_table
from magnetar.spark.source.batch_limits import Limits
from magnetar.spark.source.multi_offset import Offset, parse
from magnetar.spark.source.offset import SourceOffset
from magnetar.spark.source.planner import Balance, KeyOrder, Rules

T = TypeVar("T")
Word = TypeVar("Word", bound=StrEnum)

COLUMNS = ("key", "value", "publish_time")
DEFAULT_URL = "pulsar://localhost:6650"


class Extreme(Enum):
    EARLIEST = auto()
    LATEST = auto()


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first message published at this time or later."""

    ms: int


Where = Extreme | AtTime | SourceOffset | Offset


class CursorAdvance(StrEnum):
    EAGER = "eager"  # when Spark requests the next batch: an idle query shows no backlog
    COMMIT = "commit"  # when Spark commits: required with asynchronous progress tracking


class Values(StrEnum):
    BYTES = "bytes"  # values unchanged
    REGISTRY = "registry"  # decoded with the registered schema of the topic


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """`topics` by name. It is empty if the query reads a `namespace`, or its topics with the `properties`."""

    topics: tuple[str, ...]
    url: str
    subscription: str
    starting: Where
    ending: Where
    limits: Limits
    trigger_delay_s: float
    rules: Rules
    columns: tuple[str, ...]
    cursor_advance: CursorAdvance
    filters: bool = False  # use filters of the query to read less
    values: Values = Values.BYTES
    namespace: str = ""
    properties: tuple[tuple[str, str], ...] = ()

    @property
    def topic(self) -> str:
        """The topic, or the first of several; the namespace if topics are not named."""
        return self.topics[0] if self.topics else self.namespace

    @property
    def several(self) -> bool:
        return bool(self.namespace) or len(self.topics) > 1


_NAMES = {
    name.lower(): name
    for name in (
        "topic",
        "topics",
        "namespace",
        "topicProperties",
        "url",
        "subscription",
        "startingOffsets",
        "endingOffsets",
        "maxMessagesPerTrigger",
        "minMessagesPerTrigger",
        "maxBytesPerTrigger",
        "maxTriggerDelay",
        "failOnDataLoss",
        "keyOrder",
        "balance",
        "columns",
        "cursorAdvance",
        "minPartitions",
        "filterPushdown",
        "schema",
    )
}
_STREAMING = {
    "maxMessagesPerTrigger",
    "minMessagesPerTrigger",
    "maxBytesPerTrigger",
    "maxTriggerDelay",
    "subscription",
    "cursorAdvance",
}
_BATCH = {"endingOffsets", "filterPushdown"}
_SINK = {"delivery", "sinkid", "txnappid", "txnversion"}

_DURATION = re.compile(r"(\d{1,12})\s*(ms|s|m|h|d|milliseconds?|seconds?|minutes?|hours?|days?)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_SIZE = re.compile(r"(\d{1,18})\s*(?:([kmgt])(?:i?b)?|b)?")


def default_url(environment: Mapping[str, str]) -> str:
    """The default URL of brokers: `magnetar spark run --url` passes it in the environment."""
    return environment.get("MAGNETAR_URL") or DEFAULT_URL


def source_options(
    options: Mapping[str, str], *, streaming: bool, metadata: Mapping[str, Any] | None = None, url: str = DEFAULT_URL
) -> SourceOptions:
    """Parses and checks all options. `Misuse` names the wrong option and its valid values. `metadata` is that of the
    first column, where a table of the catalog stores its own options. `url`: the default.
    """
    kept = with_table({}, metadata or {})
    other = _BATCH if streaming else _STREAMING  # a table supports both kinds of reads
    kept = {name: text for name, text in kept.items() if _known(name) not in other}
    named = _named(with_table(options, table_metadata(kept)), streaming=streaming)
    fields = _OptionReader(named)
    target = fields.target()
    limits = Limits(
        fields.read("maxMessagesPerTrigger", _count, None),
        fields.read("maxBytesPerTrigger", _size, None),
        fields.read("minMessagesPerTrigger", _count, 0),
    )
    if limits.messages is not None and limits.messages_min > limits.messages:
        raise Misuse(
            "option minMessagesPerTrigger must not exceed maxMessagesPerTrigger: no batch could ever start",
            minMessagesPerTrigger=limits.messages_min,
            maxMessagesPerTrigger=limits.messages,
        )
    latest: Where = Extreme.LATEST
    ending = fields.read("endingOffsets", _where, latest)
    if ending is Extreme.EARLIEST:
        raise Misuse("option endingOffsets must not be earliest: no message is before it")
    values = fields.read("schema", _one_of(Values), Values.BYTES)
    return SourceOptions(
        target.topics,
        fields.read("url", _text, url),
        fields.read("subscription", _text, ""),
        fields.read("startingOffsets", _where, latest if streaming else Extreme.EARLIEST),
        ending,
        limits,
        fields.read("maxTriggerDelay", _duration, SPARK_TRIGGER_DELAY_S),
        Rules(
            fields.read("keyOrder", _one_of(KeyOrder), KeyOrder.CHAIN),
            fields.read("balance", _one_of(Balance), Balance.BACKLOG),
            fields.read("failOnDataLoss", _flag, True),
            fields.read("minPartitions", _partitions, 0),
        ),
        _columns(fields),
        fields.read("cursorAdvance", _one_of(CursorAdvance), CursorAdvance.EAGER),
        fields.read("filterPushdown", _flag, False),
        target.decoded(values),
        target.namespace,
        target.properties,
    )


@dataclass(frozen=True, slots=True)
class Target:
    """The topics that the query reads."""

    topics: tuple[str, ...]
    namespace: str = ""
    properties: tuple[tuple[str, str], ...] = ()

    def decoded(self, values: Values) -> Values:
        if values is Values.REGISTRY and (self.namespace or len(self.topics) > 1):
            raise Misuse(
                "option schema=registry uses the schema of one topic: read one topic, or remove schema and "
                "decode the bytes in the query"
            )
        return values


@dataclass(frozen=True, slots=True)
class ColumnOptions:
    """The options that determine the columns. Spark requests columns before it says whether the read is a stream or a
    batch.
    """

    target: Target
    url: str
    columns: tuple[str, ...]
    values: Values

    @property
    def topic(self) -> str:
        return self.target.topics[0] if self.target.topics else ""


def shown(options: Mapping[str, str], *, url: str = DEFAULT_URL) -> ColumnOptions:
    own = own_options(options)
    for name in own:
        _known(name)
    fields = _OptionReader({_NAMES[name.lower()]: text for name, text in own.items()})
    target = fields.target()
    return ColumnOptions(
        target,
        fields.read("url", _text, url),
        _columns(fields),
        target.decoded(fields.read("schema", _one_of(Values), Values.BYTES)),
    )


def _columns(fields: _OptionReader) -> tuple[str, ...]:
    default: tuple[str, ...] = COLUMNS
    names = fields.read("columns", _list, default)
    if fields.read("schema", _one_of(Values), Values.BYTES) is Values.REGISTRY and "value" not in names:
        raise Misuse("option schema=registry decodes the column value: add value to option columns, or remove schema")
    return names


def _named(options: Mapping[str, str], *, streaming: bool) -> dict[str, str]:
    """By canonical names."""
    named: dict[str, str] = {}
    for name, text in own_options(options).items():
        canonical = _known(name)
        if canonical in (_BATCH if streaming else _STREAMING):
            kind, other = ("a stream", "spark.read") if streaming else ("a batch read", "spark.readStream")
            raise Misuse(f"option {canonical} has no effect on {kind}: remove it, or use {other}")
        if canonical in named and named[canonical] != text:
            raise Misuse(f"option {canonical} is set twice: keep one of them", one=named[canonical], other=text)
        named[canonical] = text
    return named


def _known(name: str) -> str:
    """The canonical spelling."""
    canonical = _NAMES.get(name.lower())
    if canonical is None:
        raise _unknown(name)
    return canonical


def _unknown(name: str) -> Misuse:
    if name.lower() in _SINK:
        return Misuse(f"option {name} belongs to the sink: set it on writeStream or write")
    instead = kafka_options.instead(name)
    if instead is not None:
        return Misuse(instead)
    near = get_close_matches(name.lower(), _NAMES, n=1)
    guess = f"did you mean {_NAMES[near[0]]}?" if near else f"expected one of {', '.join(_NAMES.values())}"
    return Misuse(f"unknown option {name}: {guess}")


class _OptionReader:
    def __init__(self, named: Mapping[str, str]) -> None:
        self._said = named

    def read(self, name: str, form: Callable[[str], T], default: T) -> T:
        text = self._said.get(name)
        if text is None:
            return default
        try:
            return form(text.strip())
        except Corrupt as error:
            raise Misuse(f"option {name} must be an offset of this source: {error}") from None
        except MagnetarError as error:
            raise Misuse(f"option {name}: {error}", value=text[:80]) from None

    def target(self) -> Target:
        """The option that selects the topics; exactly one is set."""
        names = [name for name in ("topic", "topics", "namespace") if name in self._said]
        if len(names) > 1:
            raise Misuse(f"options {' and '.join(names)} exclude each other: set one of them")
        if not names:
            raise Misuse(
                'option topic is missing: set .option("topic", "topic://tenant/namespace/name"), or option namespace'
            )
        if names == ["namespace"]:
            properties = self.read("topicProperties", _properties, tuple[tuple[str, str], ...]())
            return Target((), self.read("namespace", _namespace, ""), properties)
        if "topicProperties" in self._said:
            raise Misuse("option topicProperties requires option namespace: set namespace, or remove topicProperties")
        return Target(self.read(names[0], _topics, ()))


def _text(text: str) -> str:
    if not text:
        raise Misuse("it must not be empty: set a value or remove the option")
    return text


def _topics(text: str) -> tuple[str, ...]:
    names = tuple(str(topic_name(full_name(one))) for one in _list(_text(text)))
    if len(set(names)) != len(names):
        raise Misuse("each topic must be named once")
    return names


def _namespace(text: str) -> str:
    return str(namespace_name(_text(text)))


def _properties(text: str) -> tuple[tuple[str, str], ...]:
    pairs = [tuple(part.strip() for part in one.split("=", 1)) for one in text.split(",")]
    properties = {pair[0]: pair[1] for pair in pairs if len(pair) == 2 and pair[0]}
    if len(properties) != len(pairs):
        raise Misuse("expected names and values such as team=shop,kind=orders, each name once")
    return tuple(sorted(properties.items()))


def _list(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) != len(names):
        raise Misuse("expected names separated by commas, each once")
    return names


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise Misuse("it must be true or false")
    return text.lower() == "true"


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < 1:
        raise Misuse("it must be a number from 1; remove the option for no limit")
    return int(text)


def _partitions(text: str) -> int:
    if _count(text) > SPARK_PARTITIONS_MAX:
        raise Misuse(f"it must be at most {SPARK_PARTITIONS_MAX}")
    return _count(text)


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text.lower())
    size = 0 if match is None else int(match[1]) << 10 * (" kmgt".index(match[2]) if match[2] else 0)
    if not 0 < size < 1 << 63:
        raise Misuse("it must be a number of bytes, or a size such as 64m or 1GiB; remove the option for no limit")
    return size


def _duration(text: str) -> float:
    match = _DURATION.fullmatch(text.lower())
    if match is None or not int(match[1]):
        raise Misuse("it must be a time such as 500ms, 30s, 15m or 1h")
    unit = match[2]
    milli = unit == "ms" or unit.startswith("mil")
    return int(match[1]) * (_SECONDS["ms"] if milli else _SECONDS[unit[0]])


def _where(text: str) -> Where:
    """earliest, latest, a time, or an offset from a checkpoint."""
    if text.startswith("{"):
        return parse(text)
    if text.upper() in Extreme.__members__:
        return Extreme[text.upper()]
    if re.fullmatch(r"[0-9]{1,15}", text):
        return AtTime(int(text))
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise Misuse(
            "it must be earliest, latest, a time (2026-01-31T12:00:00Z, or milliseconds since 1970), or an "
            "offset in JSON"
        ) from None
    if when.tzinfo is None:
        raise Misuse("a time must have a zone: 2026-01-31T12:00:00Z, or +01:00 at its end")
    if when.timestamp() < 0:
        raise Misuse("a time must not be before 1970: use earliest")
    return AtTime(round(when.timestamp() * 1000))


def _one_of(words: type[Word]) -> Callable[[str], Word]:
    def chosen(text: str) -> Word:
        try:
            return words(text.lower())
        except ValueError:
            raise Misuse(f"it must be {' or '.join(words)}") from None

    return chosen
