"""Scalable topics where any topic may be named: what `topic` and `subscription` show and do of them.

Their statistics are those of their segments, asked for one by one. A topic that was migrated is one of them, by its old
name too. What they have no word for (a partition, a place to
seek to) is refused with the verb that fits.
"""

from __future__ import annotations

from typing import Any

import msgspec

from magnetar.base.errors import Misuse, NotAuthorized, NotFound, SubscriptionNotFound
from magnetar.base.names import Domain, topic_name
from magnetar.cli.cells import Cell, Lag, Rate, Size, pairs
from magnetar.cli.forms import Facts, Sheet
from magnetar.cli.queueing import UNDECIDED, hold_words, is_hold, is_queue
from magnetar.cli.session import Session
from magnetar.client.documents.scalable import ScalableSubscriptionStats, ScalableTopicStats
from magnetar.client.documents.stats import TopicStats

STAT_COLUMNS = ("SEGMENT", "STATE", "IN", "OUT", "MESSAGES IN", "LAG", "STORED", "BROKER")
SUBSCRIPTION_COLUMNS = ("SUBSCRIPTION", "TYPE", "CONSUMERS", "LAG", "DRAINED SEGMENTS")
CONSUMER_COLUMNS = ("CONSUMER", "SEGMENTS")


def is_scalable(topic: str) -> bool:
    return topic_name(topic).is_scalable


def present(session: Session, topic: str) -> str:
    """The name under which a topic has all its messages: of one that was migrated, its scalable topic's. A partition
    is shown as the part that it is."""
    name = topic_name(topic)
    if name.domain is not Domain.PERSISTENT or name.is_partition:
        return topic
    try:
        found = session.admin.scalable.metadata(str(name.scalable))
    except (NotFound, NotAuthorized):
        return topic  # no such topic, or a broker that has none; or not for this user, who may still see the plain one
    return str(name.scalable) if any(one.legacyTopicName for one in found.segments.values()) else topic


def refuse_scalable(topic: str, why: str) -> None:
    if is_scalable(topic):
        raise Misuse(f"not of a scalable topic: {why}", topic=topic)


def names(session: Session, namespace: str, after: str | None) -> list[str]:
    """Of a namespace; none where the broker knows of no such topics."""
    try:
        found = session.admin.scalable.names(namespace)
    except NotFound:
        return []
    return [name for name in sorted(found) if after is None or name > after]


def show(session: Session, topic: str) -> None:
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
    sheets = [subscription_sheet(stats.subscriptions)] if stats.subscriptions else []
    session.show(document, Facts(facts, optional=frozenset(("properties",))), *sheets)


def layout_facts(stats: ScalableTopicStats) -> dict[str, Cell]:
    return {
        "epoch": stats.epoch,
        "segments": f"{stats.activeSegments} active, {stats.sealedSegments} sealed",
        "controller": stats.controller or "none yet: the next consumer or reshape elects one",
        "term": stats.term,
        "routing": stats.routing or "the first producer decides",
    }


def statistics(session: Session, topic: str) -> None:
    name = _about(session, topic)
    stats = session.admin.scalable.stats(name)
    rows: list[tuple[Cell, ...]] = []
    documents: dict[str, Any] = {}
    found: list[TopicStats] = []
    for id, segment in sorted(stats.segments.items(), key=lambda pair: int(pair[0])):
        one = session.admin.scalable.segment_stats(name, int(id))
        documents[id] = msgspec.Raw(session.document)
        found.append(one)
        lag = max((subscription.msgBacklog for subscription in one.subscriptions.values()), default=0)
        rates = Rate(one.msgRateIn), Rate(one.msgRateOut)
        rows.append(
            (int(id), segment.state, *rates, one.msgInCounter, Lag(lag), Size(one.storageSize), segment.ownerBroker)
        )
    facts: dict[str, Cell] = {
        "topic": name,
        "segments": f"{stats.activeSegments} active, {stats.sealedSegments} sealed",
        "in": Rate(sum(one.msgRateIn for one in found)),
        "out": Rate(sum(one.msgRateOut for one in found)),
        "messages in": sum(one.msgInCounter for one in found),
        "stored": Size(sum(one.storageSize for one in found)),
    }
    sheet = Sheet(STAT_COLUMNS, rows, optional=frozenset(("BROKER",)))
    lines = [{"segment": int(id), **msgspec.json.decode(raw)} for id, raw in documents.items()]
    session.show({"topic": name, "segments": documents}, Facts(facts), sheet, lines=lines, table=sheet)


def delete(session: Session, topic: str, *, force: bool) -> None:
    name = _about(session, topic)
    stats = session.admin.scalable.stats(name)
    loses = f"deletes {name} for good, {stats.totalSegments} segments and {len(stats.subscriptions)} subscriptions"
    session.confirm(name, loses)
    session.do(f"delete {name}", lambda: session.admin.scalable.delete(name, force=force))


# Subscriptions


def subscription_sheet(found: dict[str, ScalableSubscriptionStats]) -> Sheet:
    rows: list[tuple[Cell, ...]] = [
        (
            name,
            "undecided" if one.undecided else one.type or None,
            one.consumerCount,
            None if one.lag is None else Lag(one.lag),
            None if is_queue(one) or is_hold(one) else len(one.drainedSegmentIds),
        )
        for name, one in sorted(found.items())
    ]
    return Sheet(SUBSCRIPTION_COLUMNS, rows, optional=frozenset(("LAG",)))


def list_subscriptions(session: Session, topic: str) -> None:
    name = _about(session, topic)
    found = session.admin.scalable.subscriptions(name)
    documents = msgspec.json.decode(session.document)
    lines = [{"subscription": key, **one} for key, one in sorted(documents.items())]
    session.show(session.document, subscription_sheet(found), lines=lines)


def show_subscription(session: Session, topic: str, subscription: str) -> None:
    one = _subscription(session, topic, subscription)
    document = msgspec.json.decode(session.document)[subscription]
    facts: dict[str, Cell] = {
        "subscription": subscription,
        "topic": str(topic_name(topic)),
        "type": UNDECIDED if one.undecided else one.type or None,
        "consumers": one.consumerCount,
        "lag": None if one.lag is None else Lag(one.lag),
        "what it keeps": hold_words(str(topic_name(topic)), subscription) if is_hold(one) else None,
        "drained segments": ", ".join(str(id) for id in one.drainedSegmentIds) or None,
        "properties": pairs(one.subscriptionProperties),
    }
    rows: list[tuple[Cell, ...]] = [
        (consumer.consumerName, ", ".join(str(id) for id in consumer.segmentIds) or None) for consumer in one.consumers
    ]
    sheets = [Sheet(CONSUMER_COLUMNS, rows)] if rows else []
    optional = frozenset(("lag", "what it keeps", "drained segments", "properties"))
    session.show(document, Facts(facts, optional=optional), *sheets)


def create_subscription(session: Session, topic: str, subscription: str, start: str) -> None:
    name = _about(session, topic, subscription)
    if start not in ("earliest", "latest"):
        raise Misuse("a subscription of a scalable topic starts at earliest or latest", start=start)
    admin, earliest = session.admin.scalable, start == "earliest"
    what = f"create {subscription} on {topic}"
    session.do(what, lambda: admin.create_subscription(name, subscription, earliest=earliest))


def delete_subscription(session: Session, topic: str, subscription: str) -> None:
    one = _subscription(session, topic, subscription)
    name = _about(session, topic, subscription)
    session.confirm(subscription, f"deletes {subscription} of {name} with its {one.consumerCount} consumers")
    admin = session.admin.scalable
    session.do(f"delete {subscription} of {name}", lambda: admin.delete_subscription(name, subscription))


def _subscription(session: Session, topic: str, subscription: str) -> ScalableSubscriptionStats:
    name = _about(session, topic, subscription)
    found = session.admin.scalable.subscriptions(name)
    if subscription not in found:
        raise SubscriptionNotFound(f"Subscription {subscription} not found for topic {name}")
    return found[subscription]


def _about(session: Session, topic: str, subscription: str | None = None) -> str:
    name = str(topic_name(topic))
    session.about(topic=name, subscription=subscription)
    return name
