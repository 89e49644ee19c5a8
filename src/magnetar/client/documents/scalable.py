"""Documents of scalable topics: the record in Pulsar's format, statistics, reshapes with their steps.

Fields that Pulsar lacks, or that an older server does not send, have defaults.
"""

from __future__ import annotations

from typing import Any

import msgspec

NEVER = -1  # time and epoch of a segment that is not sealed


class HashRange(msgspec.Struct, frozen=True):
    """Both ends are included."""

    start: int
    end: int


class SegmentInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    segmentId: int
    hashRange: HashRange
    state: str  # ACTIVE or SEALED
    parentIds: list[int] = []
    childIds: list[int] = []
    createdAtEpoch: int = 0
    sealedAtEpoch: int = NEVER
    createdAtMs: int = 0
    sealedAtMs: int = NEVER
    legacyTopicName: str | None = None
    entryBucketSplits: list[int] = []


class ScalableTopicMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of GET on a scalable topic."""

    epoch: int
    nextSegmentId: int
    segments: dict[str, SegmentInfo]
    properties: dict[str, str] = {}
    autoScalePolicy: dict[str, Any] | None = None


class SeekPlaces(msgspec.Struct, frozen=True, kw_only=True):
    """By segment, the ledger and entry of the first message to deliver. Messages before those segments are skipped,
    later segments are read from their start, other segments do not move."""

    places: dict[str, tuple[int, int]]


class SegmentStats(msgspec.Struct, frozen=True, kw_only=True):
    name: str  # of its topic
    state: str
    parentIds: list[int] = []
    childIds: list[int] = []
    ownerBroker: str | None = None


class StreamConsumer(msgspec.Struct, frozen=True, kw_only=True):
    consumerName: str
    segmentIds: list[int] = []


class SubscribedConsumer(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer as its controller sees it. `graceUntilMs`: the end of its grace period while it is disconnected."""

    consumerName: str
    segmentIds: list[int] = []
    connected: bool | None = None  # None: unknown, because no controller leads now
    graceUntilMs: int = 0


class SubscribedSegment(msgspec.Struct, frozen=True, kw_only=True):
    """A segment of a plan: its present consumer, and the next one after the present one releases it. `left`: the number
    of its unacknowledged messages."""

    segmentId: int
    consumerName: str | None = None
    nextConsumerName: str | None = None
    left: int | None = None  # None for a hold, or if the segment's owner does not answer


class SubscriptionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The assignments of a subscription. `remembered`: the last consumer of a segment, which gets it back if it returns
    in time. A queue has no plan: its consumers and segments are those that the segments' owners report, and all are
    read together. `undecided`: carried over from a plain topic; its first consumer decides its type."""

    subscription: str
    type: str
    generation: int
    controller: str | None = None
    drainedSegmentIds: list[int] = []
    consumers: list[SubscribedConsumer] = []
    segments: list[SubscribedSegment] = []
    remembered: list[SubscribedSegment] = []
    undecided: bool = False
    leftMessages: dict[str, int] | None = None  # unacknowledged, by segment; without segments whose owner is silent


class ScalableSubscriptionStats(msgspec.Struct, frozen=True, kw_only=True):
    """`lag`: the unacknowledged messages, for a hold or a group the unread messages; None if an owner does not answer.
    `lagOldestMs`, `lagAgeS`: publish time and age of the oldest of them; 0 without one. `undecided`: carried over from
    a plain topic; its first consumer decides its type."""

    consumerCount: int
    type: str = ""
    drainedSegmentIds: list[int] = []
    consumers: list[StreamConsumer] = []
    lag: int | None = None
    lagBytes: int | None = None
    lagOldestMs: int = 0
    lagAgeS: float = 0.0
    undecided: bool = False
    subscriptionProperties: dict[str, str] = {}


class ScalableTopicStats(msgspec.Struct, frozen=True, kw_only=True):
    epoch: int
    totalSegments: int
    activeSegments: int
    sealedSegments: int
    segments: dict[str, SegmentStats]
    subscriptions: dict[str, ScalableSubscriptionStats]
    routing: str | None = None  # the half of the hash that routes; None: the first producer decides
    term: int = 0  # the number of controller changes
    controller: str | None = None  # the broker that leads


class OperationStep(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    atMs: int


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """A split or a merge. `error`: the reason why it was reverted."""

    op: str
    kind: str
    phase: str
    steps: list[OperationStep] = []
    parentIds: list[int] = []
    childIds: list[int] = []
    trigger: str = ""
    reason: str = ""
    error: str = ""


class MigratedSegment(msgspec.Struct, frozen=True, kw_only=True):
    """A segment of the layout after a migration: a sealed plain topic, or a new segment after all of them."""

    segmentId: int
    hashRange: HashRange
    state: str
    legacyTopicName: str | None = None


class CarriedSubscription(msgspec.Struct, frozen=True, kw_only=True):
    """`type` None: it has no consumers now, and the first consumer after the migration decides."""

    subscription: str
    type: str | None = None


class PlainTopicClient(msgspec.Struct, frozen=True, kw_only=True):
    """`subscription` None: a producer. `follows`: it continues when the topic is migrated."""

    name: str
    address: str
    clientVersion: str = ""
    subscription: str | None = None
    follows: bool = False


class MigrationPreview(msgspec.Struct, frozen=True, kw_only=True):
    """A preview of the migration of a plain topic. `forceNeeded`: it would disconnect clients."""

    topics: list[str]
    segments: list[MigratedSegment]
    subscriptions: list[CarriedSubscription] = []
    clients: list[PlainTopicClient] = []
    forceNeeded: bool = False
    messages: int = 0
    bytes: int = 0
