"""Scalable topics as REST shows them: the record in Pulsar's shape, statistics, reshapes with their steps.

Fields that Pulsar has not, and an older server does not send, have defaults.
"""

from __future__ import annotations

from typing import Any

import msgspec

NEVER = -1  # time and epoch of a seal that has not happened


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
    """What GET on a scalable topic answers."""

    epoch: int
    nextSegmentId: int
    segments: dict[str, SegmentInfo]
    properties: dict[str, str] = {}
    autoScalePolicy: dict[str, Any] | None = None


class SeekPlaces(msgspec.Struct, frozen=True, kw_only=True):
    """Of some segments, the ledger and entry of the first message to come. What came before them is skipped, what comes
    after them is read from its start, others stay where they are."""

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
    """As the controller sees it. `graceUntilMs`: while it is not connected, how long it is waited for."""

    consumerName: str
    segmentIds: list[int] = []
    connected: bool | None = None  # none: nobody leads now, nobody knows
    graceUntilMs: int = 0


class SubscribedSegment(msgspec.Struct, frozen=True, kw_only=True):
    """Of a plan: who has a segment, and who is to have it once that one has let go. `left`: messages of it that were
    not acknowledged."""

    segmentId: int
    consumerName: str | None = None
    nextConsumerName: str | None = None
    left: int | None = None  # none: a hold's, or its owner does not answer


class SubscriptionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Who reads what of a subscription. `remembered`: who had a segment last and gets it back if it returns in time.
    A queue has no plan: its consumers and segments are as the owners of these see them, and all of them are read at
    once. `undecided`: carried over from a plain topic, the first consumer says of which type it is."""

    subscription: str
    type: str
    generation: int
    controller: str | None = None
    drainedSegmentIds: list[int] = []
    consumers: list[SubscribedConsumer] = []
    segments: list[SubscribedSegment] = []
    remembered: list[SubscribedSegment] = []
    undecided: bool = False
    leftMessages: dict[str, int] | None = None  # not acknowledged, by segment; one whose owner is silent is left out


class ScalableSubscriptionStats(msgspec.Struct, frozen=True, kw_only=True):
    """`lag`: messages that were not acknowledged, of a hold or a group messages that it has not read; none: an owner
    does not answer. `lagOldestMs`, `lagAgeS`: publish time and age of the oldest of them; 0: there is none.
    `undecided`: carried over from a plain topic, the first consumer says of which type it is."""

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
    routing: str | None = None  # which half of the hash routes; none: the first producer decides
    term: int = 0  # how often a controller took over
    controller: str | None = None  # the broker that leads


class OperationStep(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    atMs: int


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """A split or a merge. `error`: why it was taken back."""

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
    """Of the layout that a migration makes: a plain topic, sealed, or a new segment that follows all of them."""

    segmentId: int
    hashRange: HashRange
    state: str
    legacyTopicName: str | None = None


class CarriedSubscription(msgspec.Struct, frozen=True, kw_only=True):
    """`type` none: nobody is attached now, and the first consumer after the migration decides."""

    subscription: str
    type: str | None = None


class PlainTopicClient(msgspec.Struct, frozen=True, kw_only=True):
    """`subscription` none: a producer. `follows`: it goes on when the topic is migrated."""

    name: str
    address: str
    clientVersion: str = ""
    subscription: str | None = None
    follows: bool = False


class MigrationPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What a migration of a plain topic would find and make. `forceNeeded`: clients would be left behind."""

    topics: list[str]
    segments: list[MigratedSegment]
    subscriptions: list[CarriedSubscription] = []
    clients: list[PlainTopicClient] = []
    forceNeeded: bool = False
    messages: int = 0
    bytes: int = 0
