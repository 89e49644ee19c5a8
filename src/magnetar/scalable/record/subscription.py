"""The durable record of one subscription of a scalable topic, in its own node: it exists with or without consumers.

Its `life` (the generation of subscriptions at its creation) distinguishes it from an earlier one with the same name
(H-D9). It contains all that the controller needs after a failover: type (H-D6), latched segments (H-F3), sessions and
plan (H-F11). It changes by compare-and-set only; a newer version is refused, unknown fields survive.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import msgspec

from magnetar.base.errors import Corrupt
from magnetar.base.ids import SegmentId
from magnetar.scalable.machines import hold, seek_target

VERSION = 1


class Type(StrEnum):
    STREAM = "STREAM"
    QUEUE = "QUEUE"
    CHECKPOINT = "CHECKPOINT"  # keeps its own positions: no cursors (H-D8)


class Start(StrEnum):
    EARLIEST = "EARLIEST"  # every segment that is still listed
    ASKED = "ASKED"  # made by a consumer that has not said: the first to attach to a segment says it there
    LATEST = "LATEST"  # sealed ones are done, active ones from their end; children from the start (H-D4)


class SubscriptionState(StrEnum):
    LIVE = "LIVE"
    DELETING = "DELETING"


@dataclass(frozen=True, slots=True)
class Member:
    """A stream consumer by name. The generation distinguishes its connections (H-F7, H-F9). `shares`: it supports entry
    buckets, so it may share a segment with others."""

    name: str
    generation: int
    shares: bool = False


class Early(StrEnum):
    """How far a hold of a segment is whose ancestors are not acknowledged yet (`read_ahead`)."""

    NO = ""
    PROPOSED = "PROPOSED"
    GRANTED = "GRANTED"
    ENDING = "ENDING"


@dataclass(frozen=True, slots=True)
class Hold:
    """Who has a segment, and who is to have it, alone or together. They differ while it is being revoked: granted only
    after (H-F21)."""

    segment: SegmentId
    holder: str  # the consumer that has it alone; "": none
    target: str  # the consumer that will have it alone; "": none
    sharers: tuple[str, ...] = ()  # who has it together, by name; a single one may be left of them
    joint: tuple[str, ...] = ()  # who is to have it together, by name: two or more
    early: Early = Early.NO

    @property
    def moving(self) -> bool:
        return (self.holder, self.sharers) != (self.target, self.joint)

    @property
    def held_by(self) -> str:
        """The consumers that must release the segment before others get it, as one text."""
        return self.holder or ", ".join(self.sharers)


@dataclass(frozen=True, slots=True)
class DepartedMember:
    """Who had a segment last: it gets it back if it returns in time."""

    segment: SegmentId
    name: str
    until_ms: int


@dataclass(frozen=True, slots=True)
class StreamPlan:
    generation: int = 0
    holds: tuple[Hold, ...] = ()  # by segment
    left: tuple[DepartedMember, ...] = ()  # by segment


@dataclass(frozen=True, slots=True)
class Subscription:
    name: str
    type: Type
    life: int
    incarnation: int
    start: Start = Start.EARLIEST
    standing: SubscriptionState = SubscriptionState.LIVE
    ready: bool = False  # all cursors are placed: it was acknowledged
    seeks: int = 0  # raised by each seek: a drained answer from before it does not count after it
    latched: tuple[SegmentId, ...] = ()  # durably drained, by id
    members: tuple[Member, ...] = ()  # by name
    plan: StreamPlan = StreamPlan()
    undecided: bool = False  # carried over from a plain topic: the first consumer says of which type it is
    hold: hold.StoredHold | None = None  # keeps messages for a reader without cursors
    seek: seek_target.Seek | None = None  # under way: no consumer reads until it ends
    sought: str = ""  # the operation of the last one that is over
    properties: tuple[tuple[str, str], ...] = ()  # as its first consumer that gave any gave them, by name
    unknown: str = field(default="", repr=False)

    @property
    def has_cursors(self) -> bool:
        return self.type is not Type.CHECKPOINT

    def deleting(self) -> Subscription:
        return replace(self, standing=SubscriptionState.DELETING)


class _Form(msgspec.Struct, omit_defaults=True):
    v: int
    type: Type
    life: int
    incarnation: int
    start: Start = Start.EARLIEST
    standing: SubscriptionState = SubscriptionState.LIVE
    ready: bool = False
    seeks: int = 0
    latched: list[int] = []
    members: dict[str, int] = {}
    generation: int = 0
    holds: dict[str, tuple[str, str]] = {}
    hold: hold.Form | None = None
    seek: seek_target.Form | None = None
    sought: str = ""
    left: dict[str, tuple[str, int]] = {}
    undecided: bool = False
    sharing: list[str] = []  # members that know entry buckets
    properties: dict[str, str] = {}
    shares: dict[str, tuple[list[str], list[str]]] = {}  # of segments that are had together: who has it, who is to
    early: dict[str, Early] = {}  # of segments whose ancestors are not acknowledged yet


def encode(subscription: Subscription) -> bytes:
    plan = subscription.plan
    fields: dict[str, Any] = msgspec.to_builtins(
        _Form(
            v=VERSION,
            type=subscription.type,
            life=subscription.life,
            incarnation=subscription.incarnation,
            start=subscription.start,
            standing=subscription.standing,
            ready=subscription.ready,
            seeks=subscription.seeks,
            latched=list(subscription.latched),
            members={member.name: member.generation for member in subscription.members},
            generation=plan.generation,
            holds={str(hold.segment): (hold.holder, hold.target) for hold in plan.holds},
            left={str(left.segment): (left.name, left.until_ms) for left in plan.left},
            hold=None if subscription.hold is None else hold.encode(subscription.hold),
            seek=None if subscription.seek is None else seek_target.encode(subscription.seek),
            sought=subscription.sought,
            undecided=subscription.undecided,
            properties=dict(subscription.properties),
            sharing=[member.name for member in subscription.members if member.shares],
            shares={
                str(hold.segment): (list(hold.sharers), list(hold.joint))
                for hold in plan.holds
                if hold.sharers or hold.joint
            },
            early={str(hold.segment): hold.early for hold in plan.holds if hold.early is not Early.NO},
        )
    )
    unknown = msgspec.json.decode(subscription.unknown) if subscription.unknown else {}
    return msgspec.json.encode({**unknown, **fields})


def decode(name: str, data: bytes) -> Subscription:
    try:
        raw = msgspec.json.decode(data)
        if not isinstance(raw, dict) or not isinstance(raw.get("v"), int):
            raise Corrupt("expected the record of a subscription: the version is missing", subscription=name)
        if raw["v"] > VERSION:
            raise Corrupt("the subscription was written by a newer version: upgrade this broker", subscription=name)
        form = msgspec.json.decode(data, type=_Form)
        together = {id: (tuple(has), tuple(gets)) for id, (has, gets) in form.shares.items()}
        holds = [
            Hold(SegmentId(int(id)), *who, *together.get(id, ((), ())), form.early.get(id, Early.NO))
            for id, who in form.holds.items()
        ]
        left = [DepartedMember(SegmentId(int(id)), *who) for id, who in form.left.items()]
        held = None if form.hold is None else hold.decode(form.hold)
        seek = None if form.seek is None else seek_target.decode(form.seek)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise Corrupt("expected the record of a subscription", subscription=name, why=str(error)) from error
    rest = {key: value for key, value in raw.items() if key not in _Form.__struct_fields__}
    return Subscription(
        name=name,
        type=form.type,
        life=form.life,
        incarnation=form.incarnation,
        start=form.start,
        standing=form.standing,
        ready=form.ready,
        seeks=form.seeks,
        latched=tuple(SegmentId(id) for id in sorted(form.latched)),
        members=tuple(Member(*member, member[0] in form.sharing) for member in sorted(form.members.items())),
        plan=StreamPlan(
            form.generation,
            tuple(sorted(holds, key=lambda hold: hold.segment)),
            tuple(sorted(left, key=lambda one: one.segment)),
        ),
        undecided=form.undecided,
        hold=held,
        seek=seek,
        sought=form.sought,
        properties=tuple(sorted(form.properties.items())),
        unknown=msgspec.json.encode(rest, order="deterministic").decode() if rest else "",
    )
