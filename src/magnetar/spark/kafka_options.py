"""The options of Spark's Kafka source and sink, and what this source has instead.

People who come from Kafka write its names. An error that names the option to use is worth more than the nearest
spelling, which is mostly another option. Decides only; the table is also in docs/SPARK.md, and a test compares both.
"""

from __future__ import annotations

_URL = "url, as pulsar://localhost:6650"
_TOPIC = "topic, or topics for several by commas, or namespace"
_SECURITY = "nothing yet: connections are neither encrypted nor authenticated"
_TIME = "startingOffsets with a time, as 2026-01-31T12:00:00Z or in milliseconds"
_END_TIME = "endingOffsets with a time, as 2026-01-31T12:00:00Z or in milliseconds"
_NOTHING = "nothing: a task reads its part of a batch in runs of its own"

# Kafka's name, and ours with what it takes.
INSTEAD = {
    "kafka.bootstrap.servers": _URL,
    "subscribe": _TOPIC,
    "subscribePattern": "namespace, as tenant/name: all its topics, also those that come later; or topics",
    "assign": _TOPIC,
    "startingTimestamp": _TIME,
    "startingOffsetsByTimestamp": _TIME,
    "startingOffsetsByTimestampStrategy": _TIME,
    "endingTimestamp": _END_TIME,
    "endingOffsetsByTimestamp": _END_TIME,
    "maxOffsetsPerTrigger": "maxMessagesPerTrigger",
    "minOffsetsPerTrigger": "minMessagesPerTrigger",
    "maxRecordsPerPartition": "minPartitions, or maxMessagesPerTrigger",
    "groupIdPrefix": "subscription, a name for what is kept for the query",
    "kafka.group.id": "subscription, a name for what is kept for the query",
    "includeHeaders": "columns, with properties among them",
    "kafkaConsumer.pollTimeoutMs": _NOTHING,
    "fetchOffset.numRetries": _NOTHING,
    "fetchOffset.retryIntervalMs": _NOTHING,
    "kafka.security.protocol": _SECURITY,
}
_LOWER = {name.lower(): name for name in INSTEAD}


def instead(name: str) -> str | None:
    """What to use instead of an option that Spark's Kafka source or sink has; None: it has none of this name."""
    known = _LOWER.get(name.lower())
    if known is not None:
        return f"option {known} is one of Spark's Kafka connector; use {INSTEAD[known]}"
    if name.lower().startswith(("kafka.ssl.", "kafka.sasl.")):
        return f"option {name} is one of Kafka's clients; use {_SECURITY}"
    if name.lower().startswith("kafka."):
        return f"option {name} is one of Kafka's clients, which are not used here: leave it out"
    return None
