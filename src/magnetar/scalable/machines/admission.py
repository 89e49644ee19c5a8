"""Checks that the owner of a segment makes against the current record before it changes or serves the segment.

The owner reads the record fresh (H-E9) and asks these functions before it creates anything, and again after it created
a topic. If the record no longer lists the topic, the owner removes it again, so listing and creating need not be
atomic. `Refused` errors are final; `Fenced` means that the owner has seen a higher term.
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
    """The owner makes the cursors of a segment equal to a list only for a child of the current plan, and only to the
    current list. A late call with an older list would remove cursors that were placed after it (H-D1). False: the
    record has moved on."""
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
            raise NotReady("the segment is being created: try again", segment=segment)
        raise TopicNotFound("the topic does not list this segment", segment=segment)
    if not live.layout.segment(segment).is_active:
        raise Sealed("the segment is sealed", segment=segment)


def check_cursor(subscription: Subscription | None, life: int) -> None:
    """No durable cursor without the topic's own record of the subscription (H-D3), of this life (H-D9)."""
    if subscription is None or subscription.standing is not SubscriptionState.LIVE or subscription.life != life:
        raise SubscriptionNotFound("subscription not found: create it on the topic, not on a segment")


def check_consumer(subscription: Subscription | None, kind: int, *, buckets: bool = False) -> bool:
    """The topic's record decides which consumers a segment accepts: one stream consumer, or several if they share it by
    entry `buckets`; queue consumers share it (H-D6). False: the record does not exist yet or is not finished. A queue
    consumer creates it by attaching (H-D3); a stream consumer has it created when it registers."""
    if subscription is None:
        if kind != SHARED:
            raise SubscriptionNotFound("subscription not found: create it on the topic, not on a segment")
        return False
    accepted = _KINDS.get(subscription.type)
    if buckets and kind == KEY_SHARED and subscription.type is Type.STREAM:
        accepted = KEY_SHARED
    if subscription.standing is not SubscriptionState.LIVE:
        raise Busy("the subscription is being removed: try again")
    if kind != accepted:
        requested, offered = TYPE_NAMES[kind], TYPE_NAMES.get(-1 if accepted is None else accepted, "no")
        raise Refused(
            f"subscription {subscription.name} is of type {subscription.type}: its segments accept {offered} "
            f"consumers, not {requested} consumers"
        )
    return subscription.ready


def check_granted(subscription: Subscription, segment: SegmentId, consumer: str) -> None:
    """Who had a segment before a seek and has not heard yet that it was taken away must not read it before its past
    (H-D7): of a stream that was moved, a segment is for whom the plan names. NotReady: not for this one, now."""
    name, separator, _ = consumer.rpartition(f"-seg-{segment}")
    if subscription.type is not Type.STREAM or not separator:
        return
    if not any(hold.segment == segment and name in (hold.holder, *hold.sharers) for hold in subscription.plan.holds):
        raise NotReady(
            f"segment {segment} is not assigned to {name} now: the positions of the subscription were reset",
            segment=segment,
        )


def check_order(record: Record, subscription: Subscription, segment: SegmentId, consumer: str) -> bool:
    """True: the stream consumer reads a segment before its ancestors are acknowledged (H-F20), as the plan allows this
    consumer. While it does, no consumer attaches to an ancestor. NotReady: the consumer must wait."""
    layout = record.layout
    if subscription.type is not Type.STREAM or segment not in layout:
        return False
    early = {hold.segment: hold for hold in subscription.plan.holds if hold.early is not Early.NO}
    if any(id in layout and descends(layout, id, segment) for id in early):
        raise NotReady(
            f"segment {segment} cannot be attached until its descendants are released by their reader: try again",
            segment=segment,
        )
    if not read_ahead.blocking(layout, segment, frozenset(subscription.latched)):
        return False
    hold = early.get(segment)
    if hold is None or hold.early is not Early.GRANTED or consumer != f"{hold.holder}-seg-{segment}":
        raise NotReady(
            f"segment {segment} cannot be read before its ancestor segments are acknowledged: try again",
            segment=segment,
        )
    return True


def check_buckets(record: Record, segment: SegmentId, key_shared: KeyShared) -> None:
    """Consumers that share a segment must use its current bucket boundaries. With other boundaries, two consumers would
    own the same key (PIP-486)."""
    if segment not in record.layout:
        raise TopicNotFound("the topic does not list this segment", segment=segment)
    if tuple(key_shared.ranges) != bucket_ranges(record.layout.segment(segment).bucket_splits):
        raise ConsumerAssignError(
            "the ranges of the consumer must be the entry buckets of the segment",
            segment=segment,
            asked=len(key_shared.ranges),
        )


def check_term(seen: Term, term: Term) -> None:
    """Owners remember the highest term that spoke to them; a lower one is a zombie (H-B3)."""
    if term < seen:
        raise Fenced(f"term {term} is over: term {seen} was seen", wire_code=6)


def _live(record: Record | None, incarnation: int) -> Record:
    if record is None or not record.is_live:
        raise TopicNotFound("the scalable topic does not exist or is being deleted")
    if record.incarnation != incarnation:
        raise TopicNotFound("the call is for an earlier incarnation of the topic")
    return record
