"""Holds of scalable topics on this broker: moved by HOLD, read by owners before they trim, listed.

The owner of a segment reads the holds of its topic from the store before each trim, so no notification is needed and
none can be lost. The creator of a hold, or of one that returns, checks afterwards for data that is already deleted: it
waits for a trim that did not see the hold, and a later trim sees it. Positions that do not exist are refused according
to the owners of their segments. If an owner does not respond, its positions are accepted, so that a reader can
continue. `expiry.py` watches the expiry of holds.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import (
    AlreadyExists,
    BadVersion,
    Busy,
    Conflict,
    MagnetarError,
    Misuse,
    Refused,
    SubscriptionNotFound,
)
from magnetar.base.ids import AFTER_ALL, Position, SegmentId
from magnetar.base.limits import HOLD_ASK_S, HOLD_EXPIRES_S, HOLD_NAME_CHARS_MAX, HOLD_TRIES_MAX
from magnetar.base.names import Domain, TopicName
from magnetar.broker.batch_read.hold_expiry import HoldExpirer, HoldExpiryNode
from magnetar.broker.batch_read.plans import ReadPlanner
from magnetar.layout.lag import NO_LAG, Lag
from magnetar.layout.readable_range import DONE, START, Around, Places, ReadPosition, stands
from magnetar.observe.log import get
from magnetar.scalable.machines import hold
from magnetar.scalable.machines.hold import StoredHold
from magnetar.scalable.record.record import Record
from magnetar.scalable.record.subscription import Subscription, SubscriptionState, Type
from magnetar.topic.measure import FROM_EARLIEST, RangeRequest
from magnetar.topic.topic import Topic

if TYPE_CHECKING:
    from magnetar.broker.segments.segments import Segments

log = get("holds")


class HoldsNode(HoldExpiryNode, Protocol):
    """What Holds uses of the node."""

    segments: Segments


@dataclass(frozen=True, slots=True)
class HoldRequest:
    """`places` None: the positions are unknown. `incarnation`: of the topic of the positions, 0: unknown. `begins`: the
    positions are the start of a new hold; an existing hold is not moved, and without positions none is created.
    `resumes`: a hold that existed before is not created again."""

    name: str
    places: Places | None = None
    incarnation: int = 0
    expires_s: int = 0
    owner: str = ""
    begins: bool = False
    resumes: bool = False
    around: Around = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HoldResult:
    """`expired`: the hold had expired when the reader returned. `lost`: segments with deleted messages behind the
    positions. `owner`: the previous owner."""

    record: Record
    held: StoredHold
    moved: bool
    expired: bool
    lost: tuple[SegmentId, ...]
    owner: str = ""


@dataclass(frozen=True, slots=True)
class HoldSummary:
    """`members`: the registered members of a group that reads by this hold."""

    name: str
    held: StoredHold
    lag: Lag
    members: tuple[str, ...] = ()


class Holds:
    def __init__(self, node: HoldsNode, plans: ReadPlanner) -> None:
        self._node = node
        self._plans = plans
        self.expiry = HoldExpirer(node, self._shown)

    # What readers ask

    async def hold(self, topic: TopicName, asking: HoldRequest) -> HoldResult:
        """The result is durable. Refused: the positions belong to another incarnation of the topic (H-C4), or a
        subscription of this name is not a checkpoint. Misuse: a position does not exist. SubscriptionNotFound: the
        request reads a hold that does not exist. Busy: other callers changed the hold during every attempt."""
        _check(asking)
        scalable, whole = self._node.scalable, topic.scalable
        looked = False
        for _ in range(HOLD_TRIES_MAX):
            record = await self._plans.record(topic)
            if not record.incarnation:  # a plain topic that has not needed a record yet
                record = await self._node.segments.plains.stand_in(topic)
            if asking.incarnation and asking.incarnation != record.incarnation:
                raise Refused(
                    "the topic was deleted and created again after these positions were read: start a new read",
                    topic=str(topic),
                )
            subscription, version = await scalable.records.subscription(whole, asking.name)
            there = subscription is not None and subscription.incarnation == record.incarnation and subscription.ready
            makes = not asking.resumes and (not asking.begins or asking.places is not None)
            if not makes and (subscription is None or not there or subscription.hold is None):
                raise SubscriptionNotFound(f"Hold {asking.name} not found on topic {topic}")
            if not looked:  # check once: a position that exists stays valid
                await self._check_places(
                    topic, record, subscription.hold if subscription is not None and there else None, asking
                )
                looked = True
            if subscription is None or not there:
                await scalable.subscribe(whole, asking.name, Type.CHECKPOINT, earliest=True)
                continue
            try:
                answer = await self._move(topic, record, subscription, version, asking)
                self.expiry.expect(whole, answer.held)
                return answer
            except BadVersion:
                continue  # another writer was faster: read the record again
        raise Busy(f"hold {asking.name} of {topic} changed during every attempt to update it: try again")

    async def _move(
        self, topic: TopicName, record: Record, subscription: Subscription, version: int, asking: HoldRequest
    ) -> HoldResult:
        if subscription.type is not Type.CHECKPOINT:
            raise AlreadyExists(
                f"subscription {subscription.name} of {topic} is of type {subscription.type}: choose another name"
            )
        if subscription.standing is not SubscriptionState.LIVE:
            raise Busy("the hold is being released: try again")
        before = subscription.hold
        held, moved = hold.moved(
            before,
            record.layout,
            {} if asking.places is None or (asking.begins and before is not None) else asking.places,
            now_ms=self._node.runtime.wall(),
            expires_s=asking.expires_s or (before.expires_s if before is not None else HOLD_EXPIRES_S),
            owner=asking.owner,
            around=asking.around,
        )
        await self._node.scalable.records.write_subscription(topic.scalable, replace(subscription, hold=held), version)
        expired = before is not None and not before.keeps
        if expired:
            self._node.runtime.mark("hold.revived", topic=str(topic), hold=subscription.name)
        asks = asking.places is not None and (expired or before is None)
        lost = await self._lost(topic, record, held) if asks else ()
        return HoldResult(record, held, moved, expired, lost, "" if before is None else before.owner)

    async def _check_places(
        self, topic: TopicName, record: Record, before: StoredHold | None, asking: HoldRequest
    ) -> None:
        """Misuse: a position that no reader of the topic can have. Such a position would release unread messages, and
        holds do not move back. Positions behind the present ones are not checked, because they change nothing.
        Positions of a plain topic may belong to another incarnation; the readers of a group that starts detect that and
        report it as a loss (H-G12)."""
        plain = topic.domain is not Domain.TOPIC
        if asking.places is None or (asking.begins and (plain or before is not None)):
            return
        layout = record.layout
        if topic.domain is Domain.TOPIC and any(id >= layout.next_segment_id for id in asking.places):
            fresh, _ = await self._node.scalable.records.fresh(topic)  # the reader may know a newer layout
            layout = layout if fresh is None else fresh.layout
            strange = sorted(id for id in asking.places if id >= layout.next_segment_id)
            if strange and layout.segments:
                raise Misuse(f"segment {strange[0]} does not exist: {_ADVICE}", topic=str(topic))
        kept = {} if before is None else {id: at for id, at in before.places if id in record.layout}
        accepted = stands(record.layout, kept)
        moved = [
            (id, place)
            for id, place in sorted(asking.places.items())
            if id in accepted and place != DONE and place > accepted[id]
        ]
        questions = [(record.layout.segment(id).topic(topic), RangeRequest(place, exact=True)) for id, place in moved]
        if not questions:
            return
        try:
            async with asyncio.timeout(HOLD_ASK_S):
                answers = await self._plans.measure(questions)
        except (TimeoutError, MagnetarError) as error:
            log.info("hold_positions_check_failed", topic=str(topic), hold=asking.name, error=str(error))
            return
        for (id, place), answer in zip(moved, answers, strict=True):
            if answer is not None and answer.start != place:
                nearest = (
                    f"the nearest position is {answer.start}"
                    if answer.start.ledger >= 0
                    else "the segment never had a message"
                )
                raise Misuse(f"segment {id} has no message at {place}, {nearest}: {_ADVICE}", topic=str(topic))

    async def release(self, topic: TopicName, name: str, *, force: bool = True) -> None:
        """SubscriptionNotFound: the hold does not exist. Conflict: a group uses it and `force` is not set; the group
        would end."""
        subscription = await self.find(topic, name)
        if subscription.members and not force:
            members = ", ".join(subscription.members)
            raise Conflict(
                f"Hold {name} of {topic} is used by members of its group ({members}): close them, or use force"
            )
        await self._node.scalable.unsubscribe(topic.scalable, name)

    async def _lost(self, topic: TopicName, record: Record, held: StoredHold) -> tuple[SegmentId, ...]:
        """The segments with deleted messages; the hold prevents any further deletion."""
        questions = [
            (id, RangeRequest(place, marks_max=1, settled=True))
            for id, place in stands(record.layout, dict(held.places)).items()
            if place != DONE
        ]
        answers = await self._plans.measure([(record.layout.segment(id).topic(topic), one) for id, one in questions])
        gone = [
            id
            for (id, one), said in zip(questions, answers, strict=True)
            if (said.lost if said is not None else not record.layout.segment(id).is_active)
        ]
        return tuple(gone)

    # What owners ask

    async def floor(self, topic: Topic) -> Position:
        """The last entry of a topic that no hold needs. Unavailable: the holds are unknown, so nothing may be
        trimmed."""
        scalable = self._node.scalable
        if not scalable.enabled:
            return AFTER_ALL
        parent = topic.name.parent if topic.name.is_segment else topic.name.scalable
        record, _ = await scalable.records.fresh(parent)
        id = None if record is None or not record.is_live else _segment(topic.name, record)
        lowest = AFTER_ALL
        if record is None or id is None:
            return lowest
        for subscription, _ in await scalable.records.subscriptions(parent, record.incarnation):
            if subscription.hold is not None:
                lowest = min(lowest, hold.floor(subscription.hold, record.layout, id))
        return lowest

    # What people ask

    async def find(self, topic: TopicName, name: str) -> HoldSummary:
        for subscription in await self.list(topic):
            if subscription.name == name:
                return subscription
        raise SubscriptionNotFound(f"Hold {name} not found on topic {topic}")

    async def list(self, topic: TopicName) -> list[HoldSummary]:
        """The holds of a plain topic, by its own name or by that of the scalable topic which represents it."""
        record = await self._node.scalable.read(topic.scalable)
        if record is None:
            record = await self._plans.record(topic)
        stored = await self._node.scalable.records.subscriptions(topic.scalable, record.incarnation)
        return [
            HoldSummary(
                one.name,
                one.hold,
                await self.behind(topic, record, dict(one.hold.places)),
                tuple(member.name for member in one.members),
            )
            for one, _ in stored
            if one.hold is not None and one.standing is SubscriptionState.LIVE
        ]

    async def behind(self, topic: TopicName, record: Record, places: Places, *, kept: bool = True) -> Lag:
        """The lag of a reader at these positions. `kept`: nothing behind them was trimmed, so the record contains the
        counts of an unread sealed segment, which need not be loaded."""
        lag = NO_LAG
        questions: list[tuple[TopicName, RangeRequest]] = []
        for id, place in stands(record.layout, places).items():
            segment = record.layout.segment(id)
            if place == START and segment.ending is not None and kept:
                lag += Lag(segment.ending.messages, segment.ending.bytes, segment.ending.first_publish_ms)
            elif place != DONE:
                questions.append((segment.topic(topic), RangeRequest(_from(place), marks_max=1)))
        firsts: list[tuple[TopicName, RangeRequest]] = []
        for (name, _), answer in zip(questions, await self._plans.measure(questions), strict=True):
            if answer is not None and answer.messages:
                lag += Lag(answer.messages, answer.bytes)
                next = ReadPosition(answer.start.ledger, answer.start.entry + 1)
                firsts.append((name, RangeRequest(answer.start, target=next, marks_max=1)))
        for answer in await self._plans.measure(firsts):
            if answer is not None and answer.marks:
                lag += Lag(oldest_ms=answer.marks[0].publish_ms)
        return lag

    async def _shown(self, topic: TopicName, record: Record, held: StoredHold) -> Lag:
        return await self.behind(topic, record, dict(held.places))


def _segment(name: TopicName, record: Record) -> SegmentId | None:
    """The segment whose messages a topic stores; None: the record does not list one."""
    if name.segment is not None:
        return SegmentId(name.segment.id)
    return next((one.id for one in record.layout.segments if one.legacy_topic == str(name)), None)


_ADVICE = "the hold is unchanged; give positions that were read or that a read plan of this topic returned"


def _check(asking: HoldRequest) -> None:
    if not asking.name or max(len(asking.name), len(asking.owner)) > HOLD_NAME_CHARS_MAX:
        raise Misuse(f"the name of a hold must have 1 to {HOLD_NAME_CHARS_MAX} characters, its owner at most as many")


def _from(place: ReadPosition) -> ReadPosition | str:
    return FROM_EARLIEST if place == START else place
