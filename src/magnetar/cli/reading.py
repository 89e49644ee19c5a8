"""`magnetar subscription explain|assignments`: who reads what of a scalable topic, who is waited for, what blocks whom.

What is shown is the plan as the topic's controller has it; what is left of a segment is asked of its owner, and only
where somebody waits for it or reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from magnetar.base.ids import SegmentId
from magnetar.cli.cells import Cell, Duration, Lag
from magnetar.cli.drawing import hashes, layout_of
from magnetar.cli.opening import opened
from magnetar.cli.options import COMMON, Common
from magnetar.cli.output import Facts, Sheet
from magnetar.cli.queueing import hold_facts, is_hold, is_queue, queue_parts, queued
from magnetar.cli.session import Session
from magnetar.client.documents.scalable import SubscribedConsumer, SubscriptionPlan
from magnetar.layout.layout import Layout
from magnetar.layout.lineage import blockers
from magnetar.layout.segment import Segment

SEGMENT_COLUMNS = ("SEGMENT", "RANGE", "STATE", "CONSUMER", "LEFT", "WHAT IT DOES")
ASSIGNMENT_COLUMNS = ("CONSUMER", "CONNECTED", "WAITED FOR", "SEGMENTS", "TO COME")


@dataclass(frozen=True, slots=True)
class Reading:
    """One segment that a subscription has not done with."""

    segment: Segment
    consumer: str | None
    next: str | None
    waits_for: tuple[SegmentId, ...]
    children: tuple[SegmentId, ...]  # what waits for it


def explain(topic: str, name: str, /, *, common: Common = COMMON) -> None:
    """What a subscription of a scalable topic does now: who reads which segment, what is left of it, what waits for it.

    A segment is read when all it descends from is read to the end and acknowledged. So one message that nobody
    acknowledges in a sealed segment keeps its children waiting: this shows which segment that is and who has it. A
    queue reads all segments at once, and nothing waits: of it the consumers and what is left are shown.

    Parameters
    ----------
    topic
        The scalable topic.
    name
        The subscription.

    Examples
    --------
    $ magnetar subscription explain topic://public/default/clicks billing
    $ magnetar subscription explain topic://public/default/clicks billing --watch
    """
    with opened(common, topic) as (session, full):
        session.about(topic=full, subscription=name)
        layout = layout_of(session.admin.scalable.metadata(full))
        plan = session.admin.scalable.subscription(full, name)
        if is_queue(plan) or is_hold(plan):
            _explain_unplanned(session, full, layout, plan)
            return
        found = readings(layout, plan)
        left = {one.segment.id: _left(session, full, name, one) for one in found}
        waiting = [one for one in found if one.waits_for]
        facts: dict[str, Cell] = {
            "subscription": name,
            "topic": full,
            "type": plan.type,
            "controller": plan.controller or "none now: the next consumer or reshape elects one",
            "plan": plan.generation,
            "consumers": consumers_words(plan.consumers),
            "segments": f"{len(found) - len(waiting)} read, {len(waiting)} waiting, {len(plan.drainedSegmentIds)} done",
        }
        rows: list[tuple[Cell, ...]] = [
            (
                one.segment.id,
                hashes(one.segment.range),
                str(one.segment.state),
                one.consumer,
                None if (count := left[one.segment.id]) is None else Lag(count),
                words(one, left),
            )
            for one in found
        ]
        sheet = Sheet(SEGMENT_COLUMNS, rows, optional=frozenset(("CONSUMER", "LEFT")))
        document = {
            "topic": full,
            "subscription": name,
            "plan": plan,
            "segments": [_document(one, left[one.segment.id]) for one in found],
        }
        session.show(document, Facts(facts), sheet, lines=document["segments"], table=sheet, names=[name])


def assignments(topic: str, name: str, /, *, common: Common = COMMON) -> None:
    """The consumers of a subscription of a scalable topic and the segments each of them has.

    A consumer that lost its connection keeps its segments while it is waited for. One that is to get a segment gets it
    when the one who has it has let go.

    Parameters
    ----------
    topic
        The scalable topic.
    name
        The subscription.

    Examples
    --------
    $ magnetar subscription assignments topic://public/default/clicks billing
    $ magnetar subscription assignments topic://public/default/clicks billing -o json
    """
    with opened(common, topic) as (session, full):
        session.about(topic=full, subscription=name)
        plan = session.admin.scalable.subscription(full, name)
        now_ms = session.now_ms
        rows: list[tuple[Cell, ...]] = [
            (
                one.consumerName,
                None if one.connected is None else "yes" if one.connected else "no",
                _grace(one, now_ms),
                _ids(one.segmentIds),
                _ids([hold.segmentId for hold in plan.segments if hold.nextConsumerName == one.consumerName]),
            )
            for one in plan.consumers
        ]
        optional = frozenset(("WAITED FOR", "SEGMENTS", "TO COME", "CONNECTED"))
        session.show(session.document, Sheet(ASSIGNMENT_COLUMNS, rows, optional=optional), lines=plan.consumers)


def _explain_unplanned(session: Session, topic: str, layout: Layout, plan: SubscriptionPlan) -> None:
    """A queue, or a hold: nothing waits for anything."""
    document: dict[str, Any] = {"topic": topic, "subscription": plan.subscription, "plan": plan, "segments": []}
    if is_hold(plan):
        facts = hold_facts(topic, plan)
        session.show(document, facts, lines=[], table=facts, names=[plan.subscription])
        return
    names = {one.segmentId: one.consumerName for one in plan.segments}
    document["segments"] = [
        _document(Reading(one.segment, names.get(one.segment.id), None, (), ()), one.left)
        for one in queued(layout, plan)
    ]
    facts, sheet = queue_parts(topic, layout, plan)
    session.show(document, facts, sheet, lines=document["segments"], table=sheet, names=[plan.subscription])


VERBS = {"explain": explain, "assignments": assignments}


def readings(layout: Layout, plan: SubscriptionPlan) -> list[Reading]:
    """Each segment that is not done, by id: who has it, who gets it, what it waits for and what waits for it."""
    done = {SegmentId(id) for id in plan.drainedSegmentIds}
    holds = {hold.segmentId: hold for hold in plan.segments}
    left = [one for one in layout.segments if one.id not in done]
    waits = {one.id: tuple(blockers(layout, one.id, done)) for one in left}
    found = []
    for one in left:
        hold = holds.get(one.id)
        children = tuple(id for id, blocking in waits.items() if one.id in blocking)
        consumer = None if hold is None else hold.consumerName
        next = None if hold is None else hold.nextConsumerName
        found.append(Reading(one, consumer, next, waits[one.id], children))
    return found


def words(one: Reading, left: dict[SegmentId, int | None]) -> str:
    """What a segment does now, in a sentence's half."""
    if one.waits_for:
        parents = ", ".join(f"#{id} ({_count(left.get(id))})" for id in one.waits_for)
        return f"waits for {parents}"
    if one.next is not None:
        return f"goes to {one.next} when {one.consumer} has let go" if one.consumer else f"goes to {one.next}"
    if one.consumer is None:
        return "waits for a consumer"
    if one.children:
        waiting = ", ".join(f"#{id}" for id in one.children)
        return f"is read to its end; {waiting} {'waits' if len(one.children) == 1 else 'wait'} for it"
    return "is read"


def consumers_words(consumers: list[SubscribedConsumer]) -> str:
    away = sum(one.connected is False for one in consumers)
    return f"{len(consumers)}, {away} of them not connected" if away else str(len(consumers))


def _left(session: Session, topic: str, subscription: str, one: Reading) -> int | None:
    """Messages; None: nobody can tell now, or nobody has begun to read it."""
    if one.waits_for:
        return None
    found = session.admin.scalable.segment_stats(topic, one.segment.id).subscriptions.get(subscription)
    return None if found is None else found.msgBacklog


def _count(left: int | None) -> str:
    return "itself waiting" if left is None else f"{left:,} left"


def _grace(one: SubscribedConsumer, now_ms: int | None) -> Cell:
    if one.connected is not False or not one.graceUntilMs or now_ms is None:
        return None
    return Duration(max(0.0, (one.graceUntilMs - now_ms) / 1000))


def _ids(ids: list[int]) -> str | None:
    return ", ".join(str(id) for id in ids) or None


def _document(one: Reading, left: int | None) -> dict[str, Any]:
    return {
        "segmentId": one.segment.id,
        "state": str(one.segment.state),
        "consumerName": one.consumer,
        "nextConsumerName": one.next,
        "left": left,
        "waitsFor": list(one.waits_for),
        "holdsBack": list(one.children),
    }
