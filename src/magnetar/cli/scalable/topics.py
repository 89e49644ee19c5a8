"""Scalable topics in commands for any topic: the parts of `topic` and `subscription` that show and change them.

Statistics are requested segment by segment. A migrated topic is a scalable topic, also by its old name. Requests that a
scalable topic does not support (a partition, a position to seek to) are rejected, and the error names the verb that
supports them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from magnetar.base.errors import Misuse, NotAuthorized, NotFound, SubscriptionNotFound
from magnetar.base.names import Domain, topic_name
from magnetar.cli.commands.namespace_policies import retained
from magnetar.cli.output.dry_run import deleted_scalable, deleted_subscription
from magnetar.cli.output.formats import KeyValues, TableData
from magnetar.cli.output.stats import largest_lag, since
from magnetar.cli.output.values import Cell, Duration, Lag, Rate, Size, pairs
from magnetar.cli.scalable.queues import UNDECIDED, hold_words, is_hold, is_queue
from magnetar.cli.session import CommandSession
from magnetar.client.documents.scalable import ScalableSubscriptionStats, ScalableTopicStats
from magnetar.client.documents.stats import TopicStats

STAT_COLUMNS = ("SEGMENT", "STATE", "IN", "OUT", "MESSAGES IN", "LAG", "STORED", "BROKER")
SUBSCRIPTION_COLUMNS = ("SUBSCRIPTION", "TYPE", "CONSUMERS", "LAG", "OLDEST", "DRAINED SEGMENTS")
CONSUMER_COLUMNS = ("CONSUMER", "SEGMENTS")


def is_scalable(topic: str) -> bool:
    return topic_name(topic).is_scalable


def present(session: CommandSession, topic: str) -> str:
    """The name under which a topic has all its messages: for a migrated topic, the name of the scalable topic. A
    partition is shown as such.
    """
    name = topic_name(topic)
    if name.domain is not Domain.PERSISTENT or name.is_partition:
        return topic
    try:
        metadata = session.admin.scalable.metadata(str(name.scalable))
    except (NotFound, NotAuthorized):
        # the topic does not exist, or the broker has no scalable topics, or this user may see only the plain topic
        return topic
    return str(name.scalable) if any(one.legacyTopicName for one in metadata.segments.values()) else topic


def refuse_scalable(topic: str, why: str) -> None:
    if is_scalable(topic):
        raise Misuse(f"not supported for a scalable topic: {why}", topic=topic)


def names(session: CommandSession, namespace: str, after: str | None) -> list[str]:
    """Names of a namespace; empty if the broker does not support scalable topics."""
    try:
        names = session.admin.scalable.names(namespace)
    except NotFound:
        return []
    return [name for name in sorted(names) if after is None or name > after]


def show(session: CommandSession, topic: str) -> None:
    name = _about(session, topic)
    metadata = session.admin.scalable.metadata(name)
    layout = session.document
    stats = session.admin.scalable.stats(name)
    facts: dict[str, Cell] = {
        "topic": name,
        **layout_facts(stats),
        "subscriptions": len(stats.subscriptions),
        "properties": pairs(metadata.properties),
    }
    document = {"topic": name, "layout": msgspec.Raw(layout), "stats": msgspec.Raw(session.document)}
    facts["retention"] = retained(session.admin.scalable.retention, name)
    sheets = [subscription_sheet(stats.subscriptions)] if stats.subscriptions else []
    session.show(document, KeyValues(facts, optional=frozenset(("properties", "retention"))), *sheets)


def layout_facts(stats: ScalableTopicStats) -> dict[str, Cell]:
    return {
        "epoch": stats.epoch,
        "segments": f"{stats.activeSegments} active, {stats.sealedSegments} sealed",
        "controller": stats.controller or "none yet: the next consumer or reshape elects one",
        "term": stats.term,
        "routing": stats.routing or "the first producer decides",
    }


def statistics(session: CommandSession, topic: str) -> None:
    name = _about(session, topic)
    stats = session.admin.scalable.stats(name)
    rows: list[tuple[Cell, ...]] = []
    documents: dict[str, Any] = {}
    statistics_: list[TopicStats] = []
    for id, segment in sorted(stats.segments.items(), key=lambda pair: int(pair[0])):
        segment_stats = session.admin.scalable.segment_stats(name, int(id))
        documents[id] = msgspec.Raw(session.document)
        statistics_.append(segment_stats)
        lag = largest_lag(segment_stats)
        rates = Rate(segment_stats.msgRateIn), Rate(segment_stats.msgRateOut)
        rows.append(
            (
                int(id),
                segment.state,
                *rates,
                segment_stats.msgInCounter,
                lag,
                Size(segment_stats.storageSize),
                segment.ownerBroker,
            )
        )
    facts: dict[str, Cell] = {
        "topic": name,
        "segments": f"{stats.activeSegments} active, {stats.sealedSegments} sealed",
        "in": Rate(sum(one.msgRateIn for one in statistics_)),
        "out": Rate(sum(one.msgRateOut for one in statistics_)),
        "messages in": sum(one.msgInCounter for one in statistics_),
        "counted since": min(
            (moment for one in statistics_ if (moment := since(one))), key=lambda one: one.ms, default=None
        ),
        "stored": Size(sum(one.storageSize for one in statistics_)),
    }
    sheet = TableData(STAT_COLUMNS, rows, optional=frozenset(("BROKER",)))
    lines = [{"segment": int(id), **msgspec.json.decode(raw)} for id, raw in documents.items()]
    session.show(
        {"topic": name, "segments": documents},
        KeyValues(facts, optional=frozenset(("counted since",))),
        sheet,
        lines=lines,
        table=sheet,
    )


def delete(session: CommandSession, topic: str, *, force: bool) -> None:
    name = _about(session, topic)
    stats = session.admin.scalable.stats(name)
    session.describe(*deleted_scalable(name, stats))
    loses = f"permanently deletes {name}, {stats.totalSegments} segments and {len(stats.subscriptions)} subscriptions"
    session.confirm(name, loses)
    session.do(f"delete {name}", lambda: session.admin.scalable.delete(name, force=force))


# Subscriptions


def subscription_sheet(subscriptions: dict[str, ScalableSubscriptionStats]) -> TableData:
    rows: list[tuple[Cell, ...]] = [
        (
            name,
            "undecided" if one.undecided else one.type or None,
            one.consumerCount,
            None if one.lag is None else Lag(one.lag),
            oldest_age(one),
            None if is_queue(one) or is_hold(one) else len(one.drainedSegmentIds),
        )
        for name, one in sorted(subscriptions.items())
    ]
    return TableData(SUBSCRIPTION_COLUMNS, rows, optional=frozenset(("LAG", "OLDEST")))


def oldest_age(stats: ScalableSubscriptionStats) -> Duration | None:
    """The age of the oldest unacknowledged message; None if no such message exists."""
    return Duration(stats.lagAgeS) if stats.lag and stats.lagOldestMs else None


def drained_words(ids: list[int]) -> str:
    """The number of segments and their ids: a single id alone would look like a number of segments."""
    return f"{len(ids)}: {', '.join(f'#{id}' for id in ids)}" if ids else "0"


def list_subscriptions(session: CommandSession, topic: str) -> None:
    name = _about(session, topic)
    subscriptions = session.admin.scalable.subscriptions(name)
    documents = msgspec.json.decode(session.document)
    lines = [{"subscription": key, **one} for key, one in sorted(documents.items())]
    session.show(session.document, subscription_sheet(subscriptions), lines=lines)


def show_subscription(session: CommandSession, topic: str, subscription: str) -> None:
    stats = _subscription(session, topic, subscription)
    document = msgspec.json.decode(session.document)[subscription]
    facts: dict[str, Cell] = {
        "subscription": subscription,
        "topic": str(topic_name(topic)),
        "type": UNDECIDED if stats.undecided else stats.type or None,
        "consumers": stats.consumerCount,
        "lag": None if stats.lag is None else Lag(stats.lag),
        "oldest message": oldest_age(stats),
        "kept messages": hold_words(str(topic_name(topic)), subscription) if is_hold(stats) else None,
        "drained segments": None if is_queue(stats) or is_hold(stats) else drained_words(stats.drainedSegmentIds),
        "properties": pairs(stats.subscriptionProperties),
    }
    rows: list[tuple[Cell, ...]] = [
        (consumer.consumerName, ", ".join(str(id) for id in consumer.segmentIds) or None)
        for consumer in stats.consumers
    ]
    sheets = [TableData(CONSUMER_COLUMNS, rows)] if rows else []
    optional = frozenset(("lag", "oldest message", "kept messages", "drained segments", "properties"))
    session.show(document, KeyValues(facts, optional=optional), *sheets)


def create_subscription(session: CommandSession, topic: str, subscription: str, start: str, type: str) -> None:
    name = _about(session, topic, subscription)
    if start not in ("earliest", "latest"):
        raise Misuse("--start of a subscription of a scalable topic must be earliest or latest", start=start)
    admin, earliest = session.admin.scalable, start == "earliest"
    what = f"create {subscription} on {topic}"
    session.do(what, lambda: admin.create_subscription(name, subscription, type=type.upper(), earliest=earliest))


def delete_subscription(session: CommandSession, topic: str, subscription: str) -> None:
    stats = _subscription(session, topic, subscription)
    name = _about(session, topic, subscription)
    session.describe(deleted_subscription(name, subscription, stats.lag, stats.consumerCount))
    session.confirm(subscription, f"deletes {subscription} of {name} with its {stats.consumerCount} consumers")
    admin = session.admin.scalable
    session.do(f"delete {subscription} of {name}", lambda: admin.delete_subscription(name, subscription))


def _subscription(session: CommandSession, topic: str, subscription: str) -> ScalableSubscriptionStats:
    name = _about(session, topic, subscription)
    subscriptions = session.admin.scalable.subscriptions(name)
    if subscription not in subscriptions:
        raise SubscriptionNotFound(f"Subscription {subscription} not found for topic {name}")
    return subscriptions[subscription]


def _about(session: CommandSession, topic: str, subscription: str | None = None) -> str:
    name = str(topic_name(topic))
    session.about(topic=name, subscription=subscription)
    return name
