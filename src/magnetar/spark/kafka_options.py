"""The options of Spark's Kafka source and sink, and the equivalent options of this source.

Users who come from Kafka write its names. An error with the equivalent option helps more than the closest spelling,
which usually has another meaning. Pure. The table is also in docs/SPARK.md, and a test compares both.
"""

from __future__ import annotations

_URL = "url, for example pulsar://localhost:6650"
_TOPIC = "topic, topics for a list separated by commas, or namespace"
_SECURITY = "none yet: connections are neither encrypted nor authenticated"
_TIME = "startingOffsets with a time, for example 2026-01-31T12:00:00Z or milliseconds"
_END_TIME = "endingOffsets with a time, for example 2026-01-31T12:00:00Z or milliseconds"
_NOTHING = "none: each task reads its part of a batch independently"

# Kafka's name, and our option with its values.
INSTEAD = {
    "kafka.bootstrap.servers": _URL,
    "subscribe": _TOPIC,
    "subscribePattern": "namespace, as tenant/name, for all its topics including later ones; or topics",
    "assign": _TOPIC,
    "startingTimestamp": _TIME,
    "startingOffsetsByTimestamp": _TIME,
    "startingOffsetsByTimestampStrategy": _TIME,
    "endingTimestamp": _END_TIME,
    "endingOffsetsByTimestamp": _END_TIME,
    "maxOffsetsPerTrigger": "maxMessagesPerTrigger",
    "minOffsetsPerTrigger": "minMessagesPerTrigger",
    "maxRecordsPerPartition": "minPartitions, or maxMessagesPerTrigger",
    "groupIdPrefix": "subscription, the name under which the broker keeps messages for the query",
    "kafka.group.id": "subscription, the name under which the broker keeps messages for the query",
    "includeHeaders": "columns, with properties in the list",
    "kafkaConsumer.pollTimeoutMs": _NOTHING,
    "fetchOffset.numRetries": _NOTHING,
    "fetchOffset.retryIntervalMs": _NOTHING,
    "kafka.security.protocol": _SECURITY,
}
_LOWER = {name.lower(): name for name in INSTEAD}


def instead(name: str) -> str | None:
    """The equivalent of an option of Spark's Kafka source or sink; None: it has no option with this name."""
    spelling = _LOWER.get(name.lower())
    if spelling is not None:
        return f"option {spelling} belongs to Spark's Kafka connector; use {INSTEAD[spelling]}"
    if name.lower().startswith(("kafka.ssl.", "kafka.sasl.")):
        return f"option {name} belongs to Kafka's clients; use {_SECURITY}"
    if name.lower().startswith("kafka."):
        return f"option {name} belongs to Kafka's clients, which this source does not use: remove it"
    return None
