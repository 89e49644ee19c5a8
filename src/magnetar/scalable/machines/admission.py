"""What the owner of a segment lets happen to it, judged from the record as it is now.

The owner reads the record fresh (H-E9), asks here before it makes anything, and asks again after it made a topic: what
was listed before and is not any more is removed again, so that listing and making need not be atomic. `Refused` errors
say no for good; `Fenced` says that a higher term was seen.
"""

from __future__ import annotations

from magnetar.base.errors import (
    Busy,
    ConsumerAssignError,
    Fenced,
    NotReady,
    Refused,
    Sealed,
    SubscriptionNotFound,
    TopicNotFound,
)
from magnetar.base.ids import SegmentId, Term
from magnetar.layout.lineage import descends
from magnetar.layout.segment import bucket_ranges
from magnetar.scalable.machines import read_ahead
from magnetar.scalable.record.record import Record
from magnetar.scalable.record.subscription import Early, Subscription, SubscriptionState, Type
from magnetar.topic.subscriptions.consumer import KeyShared
from magnetar.topic.subscriptions.subscription import EXCLUSIVE, KEY_SHARED, SHARED, TYPE_NAMES

_KINDS = {Type.STREAM: EXCLUSIVE, Type.QUEUE: SHARED}  # what attaches to a segment; the wire's SubType


def check_creation(record: Record | None, segment: SegmentId, incarnation: int) -> None:
    """A segment topic is made only while the record lists it: as ACTIVE, or as a child of an intent that stands. An
    orphan cannot come into being (H-A1, H-H3), nor one of an earlier life (H-C1)."""
    live = _live(record, incarnation)
    intent = live.intent
    planned = intent is not None and not intent.abandoned and any(one.id == segment for one in intent.children)
    if not planned and not (segment in live.layout and live.layout.segment(segment).is_active):
        raise TopicNotFound("the topic does not list this segment as active", segment=segment)


def check_provision(record: Record | None, op: str, segment: SegmentId, *, incarnation: int, subs_gen: int) -> bool:
    """Cursors are made equal to a list only for a child of the plan that stands, and only to the list of now: a late
    call with an older one would take away what was placed meanwhile (H-D1). False: the record has moved on."""
    if record is None or record.incarnation != incarnation or not record.is_live or record.intent is None:
        return False
    listed = any(child.id == segment for child in record.intent.children)
    return listed and record.intent.op == op and not record.intent.abandoned and record.subs_gen == subs_gen


def check_producer(record: Record | None, segment: SegmentId, incarnation: int) -> None:
    """Children admit producers only when the record says ACTIVE: by then they have every cursor (H-D1)."""
    live = _live(record, incarnation)
    intent = live.intent
    if segment not in live.layout:
        if intent is not None and any(one.id == segment for one in intent.children):
            raise NotReady("the segment is being made", segment=segment)
        raise TopicNotFound("the topic does not list this segment", segment=segment)
    if not live.layout.segment(segment).is_active:
        raise Sealed("the segment is sealed", segment=segment)


def check_cursor(subscription: Subscription | None, life: int) -> None:
    """No durable cursor without the topic's own record of the subscription (H-D3), of this life (H-D9)."""
    if subscription is None or subscription.standing is not SubscriptionState.LIVE or subscription.life != life:
        raise SubscriptionNotFound("the topic has no such subscription: create it on the topic, not on a segment")


def check_consumer(subscription: Subscription | None, kind: int, *, buckets: bool = False) -> bool:
    """Who may consume a segment is said by the topic's own record: stream consumers one at a time, or several by entry
    `buckets`; queue consumers together (H-D6). False: there is no such record yet, or it is not finished. Whoever
    shares makes it by coming (H-D3); a stream consumer has its made when it registers."""
    if subscription is None:
        if kind != SHARED:
            raise SubscriptionNotFound("the topic has no such subscription: create it on the topic, not on a segment")
        return False
    wanted = _KINDS.get(subscription.type)
    if buckets and kind == KEY_SHARED and subscription.type is Type.STREAM:
        wanted = KEY_SHARED
    if subscription.standing is not SubscriptionState.LIVE:
        raise Busy("the subscription is being removed: ask again")
    if kind != wanted:
        asked, offered = TYPE_NAMES[kind], TYPE_NAMES.get(-1 if wanted is None else wanted, "no")
        raise Refused(
            f"subscription {subscription.name} is of type {subscription.type}: its segments take {offered} consumers, "
            f"not {asked} ones"
        )
    return subscription.ready


def check_granted(subscription: Subscription, segment: SegmentId, consumer: str) -> None:
    """Who had a segment before a seek and has not heard yet that it was taken away must not read it before its past
    (H-D7): of a stream that was moved, a segment is for whom the plan names. NotReady: not for this one, now."""
    name, found, _ = consumer.rpartition(f"-seg-{segment}")
    if subscription.type is not Type.STREAM or not found:
        return
    if not any(hold.segment == segment and name in (hold.holder, *hold.sharers) for hold in subscription.plan.holds):
        raise NotReady(f"segment {segment} is not given to {name} now: the subscription was moved", segment=segment)


def check_order(record: Record, subscription: Subscription, segment: SegmentId, consumer: str) -> bool:
    """Whether a stream consumer reads a segment before its ancestors are acknowledged (H-F20): the one that the plan
    names may. While it does, nobody attaches to an ancestor. NotReady: not now."""
    layout = record.layout
    if subscription.type is not Type.STREAM or segment not in layout:
        return False
    early = {hold.segment: hold for hold in subscription.plan.holds if hold.early is not Early.NO}
    if any(id in layout and descends(layout, id, segment) for id in early):
        raise NotReady(f"segments behind {segment} are taken back from their reader first: ask again", segment=segment)
    if not read_ahead.blocking(layout, segment, frozenset(subscription.latched)):
        return False
    hold = early.get(segment)
    if hold is None or hold.early is not Early.GRANTED or consumer != f"{hold.holder}-seg-{segment}":
        raise NotReady(f"segment {segment} is not read before its ancestors are acknowledged", segment=segment)
    return True


def check_buckets(record: Record, segment: SegmentId, asked: KeyShared) -> None:
    """Whoever shares a segment has its boundaries as they stand: by others a key would belong to two (PIP-486)."""
    if segment not in record.layout:
        raise TopicNotFound("the topic does not list this segment", segment=segment)
    if tuple(asked.ranges) != bucket_ranges(record.layout.segment(segment).bucket_splits):
        raise ConsumerAssignError("the segment has other entry buckets", segment=segment, asked=len(asked.ranges))


def check_term(seen: Term, term: Term) -> None:
    """Owners remember the highest term that spoke to them; a lower one is a zombie (H-B3)."""
    if term < seen:
        raise Fenced(f"term {term} is over: term {seen} was seen", wire_code=6)


def _live(record: Record | None, incarnation: int) -> Record:
    if record is None or not record.is_live:
        raise TopicNotFound("the scalable topic does not exist or is being deleted")
    if record.incarnation != incarnation:
        raise TopicNotFound("the call is meant for an earlier life of the topic")
    return record
