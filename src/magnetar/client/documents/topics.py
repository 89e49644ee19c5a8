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
    """Where a subscription starts or goes to. `excluded`: behind that message rather than at it."""

    ledgerId: int = -1
    entryId: int = -1
    partitionIndex: int = -1
    batchIndex: int = -1
    excluded: bool = False
    properties: dict[str, str] | None = None


class TopicSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """A topic in a list. `segments`: active ones of a scalable topic; none of any other. `messages` and `bytes`: stored
    now; none where the broker that was asked does not know."""

    topic: str
    segments: int | None = None
    messages: int | None = None
    bytes: int | None = None
