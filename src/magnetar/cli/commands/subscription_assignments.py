"""`magnetar subscription explain|assignments`: consumers, segments and waiting segments of a subscription.

Both show the plan of the topic's controller. The owner of a segment reports its remaining messages, only for segments
that are read or that block others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from magnetar.base.ids import SegmentId
from magnetar.cli.options import COMMON, Common
from magnetar.cli.output.output import KeyValues, TableData
from magnetar.cli.output.stats import lag_of
from magnetar.cli.output.values import Cell, Duration, Lag
from magnetar.cli.scalable.queues import hold_facts, is_hold, is_queue, queue_parts, queued
from magnetar.cli.scalable.session import opened
from magnetar.cli.scalable.tree import hashes, layout_of
from magnetar.cli.session import CommandSession
from magnetar.client.documents.scalable import SubscribedConsumer, SubscriptionPlan
from magnetar.layout.layout import Layout
from magnetar.layout.lineage import blockers
from magnetar.layout.segment import Segment

SEGMENT_COLUMNS = ("SEGMENT", "RANGE", "STATE", "CONSUMER", "LEFT", "WHAT IT DOES")
ASSIGNMENT_COLUMNS = ("CONSUMER", "CONNECTED", "WAITED FOR", "SEGMENTS", "TO COME")


@dataclass(frozen=True, slots=True)
class SegmentAssignment:
    """One segment that a subscription has not finished."""

    segment: Segment
    consumer: str | None
    next: str | None
    waits_for: tuple[SegmentId, ...]
    children: tuple[SegmentId, ...]  # segments that wait for it
    ahead_of: tuple[SegmentId, ...] = ()  # ancestors that its consumer has received and not acknowledged (H-F20)


def explain(topic: str, name: str, /, *, common: Common = COMMON) -> None:
    """Explain the state of a subscription of a scalable topic: the consumer, lag and waiting children of each segment.

    A segment is read when all its ancestors are read to the end and acknowledged, or when one consumer has received all
    of them. If several consumers share a sealed segment, one unacknowledged message keeps its children waiting. This
    command shows that segment and its consumer. A queue subscription reads all segments in parallel, and no segment
    waits.

    Parameters
    ----------
    topic
        The scalable topic.
    name
        Subscription name.

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
        assignments = readings(layout, plan)
        left = {one.segment.id: _left(session, full, plan, one.segment.id) for one in assignments}
        waiting = [one for one in assignments if one.waits_for]
        read = len(assignments) - len(waiting)
        counts = [count for count in left.values() if count is not None]
        facts: dict[str, Cell] = {
            "subscription": name,
            "topic": full,
            "type": plan.type,
            "controller": plan.controller or "none: the next consumer or reshape elects one",
            "plan": plan.generation,
            "consumers": consumers_words(plan.consumers),
            "lag": Lag(sum(counts)),
            "segments": f"{read} read, {len(waiting)} waiting, {len(plan.drainedSegmentIds)} done",
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
            for one in assignments
        ]
        sheet = TableData(SEGMENT_COLUMNS, rows, optional=frozenset(("CONSUMER", "LEFT")))
        document = {
            "topic": full,
            "subscription": name,
            "plan": plan,
            "segments": [_document(one, left[one.segment.id]) for one in assignments],
        }
        session.show(document, KeyValues(facts), sheet, lines=document["segments"], table=sheet, names=[name])


def assignments(topic: str, name: str, /, *, common: Common = COMMON) -> None:
    """List the consumers of a subscription of a scalable topic and the segments of each consumer.

    A disconnected consumer keeps its segments for a grace period. A segment moves to another consumer after its current
    consumer has released it.

    Parameters
    ----------
    topic
        The scalable topic.
    name
        Subscription name.

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
        session.show(session.document, TableData(ASSIGNMENT_COLUMNS, rows, optional=optional), lines=plan.consumers)


def _explain_unplanned(session: CommandSession, topic: str, layout: Layout, plan: SubscriptionPlan) -> None:
    """A queue or a hold: no segment waits for another."""
    document: dict[str, Any] = {"topic": topic, "subscription": plan.subscription, "plan": plan, "segments": []}
    if is_hold(plan):
        facts = hold_facts(topic, plan)
        session.show(document, facts, lines=[], table=facts, names=[plan.subscription])
        return
    names = {one.segmentId: one.consumerName for one in plan.segments}
    document["segments"] = [
        _document(SegmentAssignment(one.segment, names.get(one.segment.id), None, (), ()), one.left)
        for one in queued(layout, plan)
    ]
    facts, sheet = queue_parts(topic, layout, plan)
    session.show(document, facts, sheet, lines=document["segments"], table=sheet, names=[plan.subscription])


VERBS = {"explain": explain, "assignments": assignments}


def readings(layout: Layout, plan: SubscriptionPlan) -> list[SegmentAssignment]:
    """Each unfinished segment, by id: its current and next consumer, its blockers, and the segments it blocks."""
    done = {SegmentId(id) for id in plan.drainedSegmentIds}
    holds = {hold.segmentId: hold for hold in plan.segments}
    left = [one for one in layout.segments if one.id not in done]
    blocking = {one.id: tuple(blockers(layout, one.id, done)) for one in left}
    held = {id for id, hold in holds.items() if hold.consumerName is not None}
    waiting = [id for id, ancestors in blocking.items() if ancestors and id not in held]  # H-F20: a held one is read
    assignments = []
    for segment in left:
        hold = holds.get(segment.id)
        consumer = None if hold is None else hold.consumerName
        next = None if hold is None else hold.nextConsumerName
        children = tuple(id for id in waiting if segment.id in blocking[id])
        waits_for, ahead_of = (blocking[segment.id], ()) if segment.id in waiting else ((), blocking[segment.id])
        assignments.append(SegmentAssignment(segment, consumer, next, waits_for, children, ahead_of))
    return assignments


def words(assignment: SegmentAssignment, left: dict[SegmentId, int | None]) -> str:
    """The state of a segment, as the end of a sentence."""
    if assignment.waits_for:
        parents = ", ".join(f"#{id} ({_count(left.get(id))})" for id in assignment.waits_for)
        return f"waits for {parents}"
    if assignment.next is not None:
        return (
            f"moves to {assignment.next} when {assignment.consumer} releases it"
            if assignment.consumer
            else f"moves to {assignment.next}"
        )
    if assignment.consumer is None:
        return "waits for a consumer"
    if assignment.ahead_of:
        parents = ", ".join(f"#{id} ({_count(left.get(id))})" for id in assignment.ahead_of)
        return f"is read ahead of acknowledgements in {parents}"
    if assignment.children:
        waiting = ", ".join(f"#{id}" for id in assignment.children)
        return f"is read to its end; {waiting} {'waits' if len(assignment.children) == 1 else 'wait'} for it"
    return "is read"


def consumers_words(consumers: list[SubscribedConsumer]) -> str:
    away = sum(one.connected is False for one in consumers)
    return f"{len(consumers)}, {away} of them not connected" if away else str(len(consumers))


def _left(session: CommandSession, topic: str, plan: SubscriptionPlan, segment: SegmentId) -> int | None:
    """Unacknowledged messages of a segment, also while it waits. None: its owner does not answer."""
    if plan.leftMessages is not None:
        return plan.leftMessages.get(str(segment))
    stats = session.admin.scalable.segment_stats(topic, segment).subscriptions.get(plan.subscription)
    return None if stats is None else lag_of(stats).messages


def _count(left: int | None) -> str:
    return "unknown" if left is None else f"{left:,} left"


def _grace(consumer: SubscribedConsumer, now_ms: int | None) -> Cell:
    if consumer.connected is not False or not consumer.graceUntilMs or now_ms is None:
        return None
    return Duration(max(0.0, (consumer.graceUntilMs - now_ms) / 1000))


def _ids(ids: list[int]) -> str | None:
    return ", ".join(str(id) for id in ids) or None


def _document(assignment: SegmentAssignment, left: int | None) -> dict[str, Any]:
    return {
        "segmentId": assignment.segment.id,
        "state": str(assignment.segment.state),
        "consumerName": assignment.consumer,
        "nextConsumerName": assignment.next,
        "left": left,
        "waitsFor": list(assignment.waits_for),
        "readAheadOf": list(assignment.ahead_of),
        "holdsBack": list(assignment.children),
    }
