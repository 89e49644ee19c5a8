"""Topics as REST shows them: partitions, message ids, positions to seek to."""

from __future__ import annotations

import msgspec

EARLIEST = (-1, -1)
LATEST = (2**63 - 1, 2**63 - 1)


class PartitionedTopicMetadata(msgspec.Struct, frozen=True, omit_defaults=True):
    partitions: int
    deleted: bool | None = None
    properties: dict[str, str] | None = None


class MessageId(msgspec.Struct, frozen=True):
    ledgerId: int
    entryId: int
    partitionIndex: int = -1
    batchIndex: int = -1
    batchSize: int = 0


class ResetCursor(msgspec.Struct, frozen=True):
    """The position where a subscription starts or moves to. `excluded`: after that message."""

    ledgerId: int = -1
    entryId: int = -1
    partitionIndex: int = -1
    batchIndex: int = -1
    excluded: bool = False
    properties: dict[str, str] | None = None


class TopicSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """A topic in a list. `segments`: the active ones of a scalable topic, else None. `messages` and `bytes`: stored
    now; None if the answering broker does not know."""

    topic: str
    segments: int | None = None
    messages: int | None = None
    bytes: int | None = None
