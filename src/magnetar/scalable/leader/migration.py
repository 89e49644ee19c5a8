"""Carries the subscriptions of plain topics over to the scalable topic that they become, under one term.

Done whenever the migration is about to give its new segments their cursors: first every plain topic is guarded, so that
no subscription comes or goes but through the record, then each that has no record gets one, with its cursors taken over
where they stand. Every step may be repeated: a leader that finds the migration under way begins here again. A
subscription that this makes raises the generation, so the migration lists again before it commits (H-D1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from magnetar.base.limits import CALLS_AT_ONCE_MAX
from magnetar.base.names import TopicName, topic_name
from magnetar.cluster.calls.topic_calls import PlainFacts
from magnetar.scalable.leader.segment_client import SegmentClient
from magnetar.scalable.machines import subscription_change
from magnetar.scalable.machines.effects import Effect
from magnetar.scalable.machines.migration import carried, missing
from magnetar.scalable.machines.subscription_change import SubscriptionChange
from magnetar.scalable.record.record import Record
from magnetar.scalable.record.store import RecordStore
from magnetar.scalable.record.subscription import Start

Begin = Callable[[tuple[SubscriptionChange, tuple[Effect, ...]]], Awaitable[None]]


async def carry(
    name: TopicName, record: Record, op: str, *, records: RecordStore, segment_client: SegmentClient, begin: Begin
) -> int:
    """How many subscriptions got a record. Any error: not all of it is done, ask again."""
    facts = await look(record, op, segment_client, guard=True)
    existing = [one for one, _ in await records.subscriptions(name, record.incarnation)]
    new = missing(carried(facts), existing)
    for subscription in new:
        begun = subscription_change.create(
            f"{op}-{subscription.name}",
            subscription.name,
            type=subscription.type,
            start=Start.EARLIEST,
            undecided=subscription.undecided,
        )
        await begin(begun)
    return len(new)


async def look(record: Record, op: str, segment_client: SegmentClient, *, guard: bool = False) -> list[PlainFacts]:
    """The state of the plain topics of a record, in the order of their partitions."""
    topics = [topic_name(one.legacy_topic) for one in record.layout.segments if one.legacy_topic]
    facts: list[PlainFacts] = []
    for start in range(0, len(topics), CALLS_AT_ONCE_MAX):
        batch = topics[start : start + CALLS_AT_ONCE_MAX]
        facts += await asyncio.gather(*(segment_client.look(one, op, guard=guard) for one in batch))
    return facts
