"""`magnetar subscription`: list, create, delete, show, and moving one: seek, skip, clear.

Moving is done by the broker, which sends the consumers away and back. Of a partitioned topic the subscription is that
of all partitions, of a scalable topic that of all segments (`moving`), of a topic that was migrated too.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from cyclopts import Parameter, validators

from magnetar.base.errors import AlreadyExists, Misuse, NotFound, SubscriptionNotFound
from magnetar.base.names import topic_name
from magnetar.cli import moving, reading, scalables
from magnetar.cli.cells import Cell, Duration, Lag, Moment, Rate, moment, pairs
from magnetar.cli.options import CHANGE, COMMON, DESTRUCTION, Change, Common, Destruction, IfExists, IfNotExists, flag
from magnetar.cli.output import Facts, Sheet
from magnetar.cli.places import Place, place
from magnetar.cli.session import Session
from magnetar.cli.statistics import read, subscription_sheet
from magnetar.client.documents.stats import SubscriptionStats, TopicStats
from magnetar.client.documents.topics import MessageId

CONSUMER_COLUMNS = ("CONSUMER", "ADDRESS", "CONNECTED", "OUT", "UNACKED", "PERMITS", "CLIENT")
OPTIONAL_FACTS = frozenset(
    ("lag in time", "delayed", "out", "redelivered", "last acknowledged", "active consumer", "properties")
)


def list_(topic: str, /, *, common: Common = COMMON) -> None:
    """The subscriptions of a topic with their lag; of a scalable topic, with the segments they have drained.

    JSON is the part of the topic's statistics that holds them, by name; JSON lines have one each.

    Parameters
    ----------
    topic
        Its name.

    Examples
    --------
    $ magnetar subscription list orders
    $ magnetar subscription list orders -o jsonl
    """
    with common.session() as session:
        topic = scalables.present(session, topic)
        if scalables.is_scalable(topic):
            scalables.list_subscriptions(session, topic)
            return
        stats, documents = _stats(session, topic)
        lines = [{"subscription": name, **one} for name, one in sorted(documents.items())]
        session.show(documents, subscription_sheet(stats), lines=lines)


def create(
    topic: str,
    name: str,
    /,
    *,
    start: str = "latest",
    if_not_exists: IfNotExists = False,
    change: Change = CHANGE,
    common: Common = COMMON,
) -> None:
    """Create a subscription, so that messages are kept for it before its first consumer comes.

    Parameters
    ----------
    topic
        The topic; it is made too where using it would.
    name
        The subscription.
    start
        Its first message: earliest, latest (what comes next), or an id (12:34).

    Examples
    --------
    $ magnetar subscription create orders billing
    $ magnetar subscription create orders audit --start earliest
    """
    with common.session(change, unless=AlreadyExists if if_not_exists else None) as session:
        topic = scalables.present(session, topic)
        if scalables.is_scalable(topic):
            scalables.create_subscription(session, topic, name, start)
            return
        _about(session, topic, name)
        where = place(start, None)
        if isinstance(where, int):
            raise Misuse("a subscription starts at earliest, latest or an id; seek moves it to a time", start=start)
        session.do(f"create {name} on {topic}", lambda: session.admin.subscriptions.create(topic, name, where))


def delete(
    topic: str,
    name: str,
    /,
    *,
    force: Annotated[bool, flag("Also while consumers use it.")] = False,
    if_exists: IfExists = False,
    change: Destruction = DESTRUCTION,
    common: Common = COMMON,
) -> None:
    """Delete a subscription: what it has not consumed is no longer kept for it.

    Parameters
    ----------
    topic
        The topic.
    name
        The subscription.

    Examples
    --------
    $ magnetar subscription delete orders billing --yes
    """
    with common.session(change, unless=NotFound if if_exists else None) as session:
        topic = scalables.present(session, topic)
        if scalables.is_scalable(topic):
            scalables.delete_subscription(session, topic, name)
            return
        one, _ = _one(session, topic, name)
        session.confirm(name, f"deletes {name} of {topic} with {one.msgBacklog:,} entries it has not consumed")
        session.do(f"delete {name} of {topic}", lambda: session.admin.subscriptions.delete(topic, name, force=force))


def show(topic: str, name: str, /, *, common: Common = COMMON) -> None:
    """Lag, rates and consumers of a subscription.

    JSON is its part of the topic's statistics.

    Parameters
    ----------
    topic
        The topic.
    name
        The subscription.

    Examples
    --------
    $ magnetar subscription show orders billing
    """
    with common.session() as session:
        topic = scalables.present(session, topic)
        if scalables.is_scalable(topic):
            scalables.show_subscription(session, topic, name)
            return
        one, document = _one(session, topic, name)
        now_ms = session.now_ms
        oldest = one.earliestMsgPublishTimeInBacklog
        facts: dict[str, Cell] = {
            "subscription": name,
            "topic": str(topic_name(topic)),
            "type": one.type if one.type != "None" else None,
            "lag": Lag(one.msgBacklog),
            "lag in time": Duration((now_ms - oldest) / 1000) if now_ms and oldest > 0 else None,
            "unacknowledged": one.unackedMessages,
            "delayed": one.msgDelayed,
            "delivered": one.msgOutCounter,
            "out": Rate(one.msgRateOut),
            "redelivered": Rate(one.msgRateRedeliver),
            "last acknowledged": Moment(one.lastAckedTimestamp),
            "active consumer": one.activeConsumerName or None,
            "properties": pairs(one.subscriptionProperties),
        }
        rows: list[tuple[Cell, ...]] = [
            (
                consumer.consumerName,
                consumer.address.lstrip("/"),
                moment(consumer.connectedSince),
                Rate(consumer.msgRateOut),
                consumer.unackedMessages,
                consumer.availablePermits,
                consumer.clientVersion,
            )
            for consumer in one.consumers
        ]
        sheet = Sheet(CONSUMER_COLUMNS, rows, optional=frozenset(("OUT",)))
        session.show(document, Facts(facts, optional=OPTIONAL_FACTS), *([sheet] if rows else []))


def seek(
    topic: str,
    name: str,
    /,
    *,
    to: Annotated[str, Parameter(allow_leading_hyphen=True)],
    change: Change = CHANGE,
    common: Common = COMMON,
) -> None:
    """Move a subscription to another place: back to consume again, or forward to leave messages out.

    Parameters
    ----------
    topic
        The topic.
    name
        The subscription.
    to
        earliest, latest, a message id (12:34; of a scalable topic with its segment, 3/12:34), a moment of publishing
        (2026-11-15T10:00:00Z) or how long ago (10m, 2h).

    Examples
    --------
    $ magnetar subscription seek orders billing --to earliest --dry-run
    $ magnetar subscription seek orders billing --to 10m
    $ magnetar subscription seek orders billing --to 2026-11-15T10:00:00Z
    $ magnetar subscription seek topic://public/default/clicks billing --to 10m
    """
    with common.session(change) as session:
        topic = scalables.present(session, topic)
        if scalables.is_scalable(topic):
            moving.seek(session, topic, name, to)
            return
        _one(session, topic, name)  # what is not there cannot be moved, also in a dry run
        where = place(to, session.now_ms)
        for one in _targets(session, topic, where):
            _seek(session, one, name, where)


def skip(
    topic: str,
    name: str,
    count: Annotated[int, Parameter(validator=validators.Number(gte=1))],
    /,
    *,
    change: Destruction = DESTRUCTION,
    common: Common = COMMON,
) -> None:
    """Acknowledge the next entries without consuming them. A batch is one entry.

    Parameters
    ----------
    topic
        The topic, or one partition.
    name
        The subscription.
    count
        How many.

    Examples
    --------
    $ magnetar subscription skip orders billing 1 --yes
    """
    with common.session(change) as session:
        topic = scalables.present(session, topic)
        scalables.refuse_scalable(topic, "its segments have no order among them to count entries in: seek or clear it")
        _about(session, topic, name)
        session.confirm(name, f"makes {name} of {topic} skip {count:,} entries it has not consumed")
        session.do(f"skip {count} of {name}", lambda: session.admin.subscriptions.skip(topic, name, count))


def clear(topic: str, name: str, /, *, change: Destruction = DESTRUCTION, common: Common = COMMON) -> None:
    """Acknowledge everything there is without consuming it.

    Parameters
    ----------
    topic
        The topic.
    name
        The subscription.

    Examples
    --------
    $ magnetar subscription clear orders billing --yes
    $ magnetar subscription clear topic://public/default/clicks billing --yes
    """
    with common.session(change) as session:
        topic = scalables.present(session, topic)
        if scalables.is_scalable(topic):
            moving.clear(session, topic, name)
            return
        one, _ = _one(session, topic, name)
        session.confirm(name, f"makes {name} of {topic} skip all {one.msgBacklog:,} entries it has not consumed")
        session.do(f"clear {name}", lambda: session.admin.subscriptions.clear(topic, name))


VERBS = {
    "list": list_,
    "create": create,
    "delete": delete,
    "show": show,
    "seek": seek,
    "skip": skip,
    "clear": clear,
    **reading.VERBS,
}


# A subscription as it is read


def _about(session: Session, topic: str, name: str) -> None:
    session.about(topic=str(topic_name(topic)), subscription=name)


def _stats(session: Session, topic: str) -> tuple[TopicStats, dict[str, Any]]:
    """The topic's statistics, and the part with subscriptions as REST gave it."""
    found = read(session, topic)
    return found.stats, msgspec.json.decode(found.document).get("subscriptions", {})


def _one(session: Session, topic: str, name: str) -> tuple[SubscriptionStats, dict[str, Any]]:
    stats, documents = _stats(session, topic)
    _about(session, topic, name)
    if name not in stats.subscriptions:
        raise SubscriptionNotFound(f"Subscription {name} not found for topic {topic_name(topic)}")
    return stats.subscriptions[name], documents[name]


def _targets(session: Session, topic: str, where: Place) -> list[str]:
    """A time is found in every partition by the broker; other places are told to each partition."""
    full = topic_name(topic)
    count = session.admin.topics.partitions(str(full)).partitions
    if not count or isinstance(where, int):
        return [str(full)]
    if isinstance(where, MessageId):
        if where.partitionIndex < 0:
            raise Misuse("a message is in one partition: name it, or write ledger:entry:partition", topic=topic)
        return [str(full.partition(where.partitionIndex))]
    return [str(full.partition(index)) for index in range(count)]


def _seek(session: Session, topic: str, name: str, where: Place) -> None:
    admin = session.admin.subscriptions
    if isinstance(where, int):
        session.do(f"move {name} of {topic}", lambda: admin.seek_to_time(topic, name, where))
    else:
        session.do(f"move {name} of {topic}", lambda: admin.seek(topic, name, where))
