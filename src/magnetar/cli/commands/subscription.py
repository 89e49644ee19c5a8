"""`magnetar subscription`: list, create, delete, show, and moving one: seek, skip, clear.

The broker moves the subscription; its consumers disconnect and reconnect. The commands apply to all partitions of a
partitioned topic, and to all segments of a scalable or migrated topic (`scalable/seek.py`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter, validators

from magnetar.base.errors import AlreadyExists, Misuse, NotFound, SubscriptionNotFound
from magnetar.base.names import topic_name
from magnetar.cli.commands import subscription_assignments
from magnetar.cli.options import CHANGE, COMMON, DESTRUCTION, Change, Common, Destruction, IfExists, IfNotExists, flag
from magnetar.cli.output.dry_run import deleted_subscription, moved_subscription, skipped
from magnetar.cli.output.output import KeyValues, TableData
from magnetar.cli.output.stats import lag_of, oldest_of, read, subscription_sheet
from magnetar.cli.output.values import Cell, Moment, Rate, moment, pairs
from magnetar.cli.positions import Position, position, refuse_malformed
from magnetar.cli.scalable import seek as scalable_seek
from magnetar.cli.scalable import topics
from magnetar.cli.session import CommandSession
from magnetar.client.documents.stats import SubscriptionStats, TopicStats
from magnetar.client.documents.topics import MessageId

CONSUMER_COLUMNS = ("CONSUMER", "ADDRESS", "CONNECTED", "OUT", "UNACKED", "PERMITS", "CLIENT")
OPTIONAL_FACTS = frozenset(
    ("oldest message", "delayed", "out", "redelivered", "last acknowledged", "active consumer", "properties")
)


def list_(topic: str, /, *, common: Common = COMMON) -> None:
    """List the subscriptions of a topic with their lag, and for a scalable topic with the number of drained segments.

    LAG is the number of unacknowledged messages, OLDEST the age of the oldest of them. JSON has the subscriptions of
    the topic's statistics, by name. JSON lines have one subscription per line.

    Parameters
    ----------
    topic
        Topic name.

    Examples
    --------
    $ magnetar subscription list orders
    $ magnetar subscription list orders -o jsonl
    """
    with common.session() as session:
        topic = topics.present(session, topic)
        if topics.is_scalable(topic):
            topics.list_subscriptions(session, topic)
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
    type: Literal["stream", "queue"] | None = None,
    if_not_exists: IfNotExists = False,
    change: Change = CHANGE,
    common: Common = COMMON,
) -> None:
    """Create a subscription, so that the broker keeps messages before the first consumer connects.

    Parameters
    ----------
    topic
        Topic name. The topic is created too if the broker creates topics on first use.
    name
        Subscription name.
    start
        First message: earliest, latest (the next published message), or a message id (12:34).
    type
        Scalable topics only. stream: every key in order. queue: all consumers share the messages. Default: stream.

    Examples
    --------
    $ magnetar subscription create orders billing
    $ magnetar subscription create orders audit --start earliest
    $ magnetar subscription create topic://public/default/clicks workers --type queue
    """
    refuse_malformed(start)
    with common.session(change, unless=AlreadyExists if if_not_exists else None) as session:
        topic = topics.present(session, topic)
        if topics.is_scalable(topic):
            topics.create_subscription(session, topic, name, start, type or "stream")
            return
        if type is not None:
            raise Misuse("--type requires a scalable topic: here the first consumer decides the type", topic=topic)
        _about(session, topic, name)
        where = position(start, None)
        if isinstance(where, int):
            raise Misuse(
                "--start must be earliest, latest or a message id; to start at a time, seek afterwards", start=start
            )
        session.do(f"create {name} on {topic}", lambda: session.admin.subscriptions.create(topic, name, where))


def delete(
    topic: str,
    name: str,
    /,
    *,
    force: Annotated[bool, flag("Delete it even if consumers are connected.")] = False,
    if_exists: IfExists = False,
    change: Destruction = DESTRUCTION,
    common: Common = COMMON,
) -> None:
    """Delete a subscription. The broker no longer keeps its unconsumed messages.

    Parameters
    ----------
    topic
        Topic name.
    name
        Subscription name.

    Examples
    --------
    $ magnetar subscription delete orders billing --yes
    """
    with common.session(change, unless=NotFound if if_exists else None) as session:
        topic = topics.present(session, topic)
        if topics.is_scalable(topic):
            topics.delete_subscription(session, topic, name)
            return
        stats, _ = _one(session, topic, name)
        whole = str(topic_name(topic))
        session.describe(deleted_subscription(whole, name, lag_of(stats).messages, len(stats.consumers)))
        session.confirm(name, f"deletes {name} of {topic} with {lag_of(stats).messages:,} messages it has not consumed")
        session.do(f"delete {name} of {topic}", lambda: session.admin.subscriptions.delete(topic, name, force=force))


def show(topic: str, name: str, /, *, common: Common = COMMON) -> None:
    """Show lag, rates and consumers of a subscription.

    JSON has the subscription's part of the topic's statistics.

    Parameters
    ----------
    topic
        Topic name.
    name
        Subscription name.

    Examples
    --------
    $ magnetar subscription show orders billing
    """
    with common.session() as session:
        topic = topics.present(session, topic)
        if topics.is_scalable(topic):
            topics.show_subscription(session, topic, name)
            return
        stats, document = _one(session, topic, name)
        facts: dict[str, Cell] = {
            "subscription": name,
            "topic": str(topic_name(topic)),
            "type": stats.type if stats.type != "None" else None,
            "lag": lag_of(stats),
            "oldest message": oldest_of(stats),
            "unacknowledged": stats.unackedMessages,
            "delayed": stats.msgDelayed,
            "delivered": stats.msgOutCounter,
            "out": Rate(stats.msgRateOut),
            "redelivered": Rate(stats.msgRateRedeliver),
            "last acknowledged": Moment(stats.lastAckedTimestamp),
            "active consumer": stats.activeConsumerName or None,
            "properties": pairs(stats.subscriptionProperties),
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
            for consumer in stats.consumers
        ]
        sheet = TableData(CONSUMER_COLUMNS, rows, optional=frozenset(("OUT",)))
        session.show(document, KeyValues(facts, optional=OPTIONAL_FACTS), *([sheet] if rows else []))


def seek(
    topic: str,
    name: str,
    /,
    *,
    to: Annotated[str, Parameter(allow_leading_hyphen=True)],
    change: Change = CHANGE,
    common: Common = COMMON,
) -> None:
    """Move a subscription to another position: back to consume messages again, or forward to skip messages.

    Parameters
    ----------
    topic
        Topic name.
    name
        Subscription name.
    to
        earliest, latest, a message id (12:34; on a scalable topic with its segment, 3/12:34), a publish time
        (2026-11-15T10:00:00Z) or an age (10m, 2h).

    Examples
    --------
    $ magnetar subscription seek orders billing --to earliest --dry-run
    $ magnetar subscription seek orders billing --to 10m
    $ magnetar subscription seek orders billing --to 2026-11-15T10:00:00Z
    $ magnetar subscription seek topic://public/default/clicks billing --to 10m
    """
    scalable_seek.refuse_malformed(to)
    with common.session(change) as session:
        topic = topics.present(session, topic)
        if topics.is_scalable(topic):
            scalable_seek.seek(session, topic, name, to)
            return
        stats, _ = _one(session, topic, name)  # reports a missing subscription in a dry run too
        where = position(to, session.now_ms)
        lag, consumers = lag_of(stats).messages, len(stats.consumers)
        session.describe(moved_subscription(str(topic_name(topic)), name, to, where, lag=lag, consumers=consumers))
        for target in _targets(session, topic, where):
            _seek(session, target, name, where)


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
        Topic name, or the name of one partition.
    name
        Subscription name.
    count
        Number of entries to skip.

    Examples
    --------
    $ magnetar subscription skip orders billing 1 --yes
    """
    with common.session(change) as session:
        topic = topics.present(session, topic)
        topics.refuse_scalable(topic, "entries of several segments have no common order: use seek or clear")
        stats, _ = _one(session, topic, name)
        session.describe(skipped(str(topic_name(topic)), name, f"{count:,} entries", lag_of(stats).messages))
        session.confirm(name, f"makes {name} of {topic} skip {count:,} entries it has not consumed")
        session.do(f"skip {count} of {name}", lambda: session.admin.subscriptions.skip(topic, name, count))


def clear(topic: str, name: str, /, *, change: Destruction = DESTRUCTION, common: Common = COMMON) -> None:
    """Acknowledge the whole backlog of a subscription without consuming it.

    Parameters
    ----------
    topic
        Topic name.
    name
        Subscription name.

    Examples
    --------
    $ magnetar subscription clear orders billing --yes
    $ magnetar subscription clear topic://public/default/clicks billing --yes
    """
    with common.session(change) as session:
        topic = topics.present(session, topic)
        if topics.is_scalable(topic):
            scalable_seek.clear(session, topic, name)
            return
        stats, _ = _one(session, topic, name)
        session.describe(skipped(str(topic_name(topic)), name, "everything", lag_of(stats).messages))
        session.confirm(
            name, f"makes {name} of {topic} skip all {lag_of(stats).messages:,} messages it has not consumed"
        )
        session.do(f"clear {name}", lambda: session.admin.subscriptions.clear(topic, name))


VERBS = {
    "list": list_,
    "create": create,
    "delete": delete,
    "show": show,
    "seek": seek,
    "skip": skip,
    "clear": clear,
    **subscription_assignments.VERBS,
}


# A subscription as it is read


def _about(session: CommandSession, topic: str, name: str) -> None:
    session.about(topic=str(topic_name(topic)), subscription=name)


def _stats(session: CommandSession, topic: str) -> tuple[TopicStats, dict[str, Any]]:
    """The statistics of the topic, and the subscriptions as REST returns them."""
    answer = read(session, topic)
    return answer.stats, msgspec.json.decode(answer.document).get("subscriptions", {})


def _one(session: CommandSession, topic: str, name: str) -> tuple[SubscriptionStats, dict[str, Any]]:
    stats, documents = _stats(session, topic)
    _about(session, topic, name)
    if name not in stats.subscriptions:
        raise SubscriptionNotFound(f"Subscription {name} not found for topic {topic_name(topic)}")
    return stats.subscriptions[name], documents[name]


def _targets(session: CommandSession, topic: str, where: Position) -> list[str]:
    """The broker resolves a time for all partitions; other positions need a request per partition."""
    full = topic_name(topic)
    count = session.admin.topics.partitions(str(full)).partitions
    if not count or isinstance(where, int):
        return [str(full)]
    if isinstance(where, MessageId):
        if where.partitionIndex < 0:
            raise Misuse(
                "a message id needs its partition: name the partition, or pass ledger:entry:partition", topic=topic
            )
        return [str(full.partition(where.partitionIndex))]
    return [str(full.partition(index)) for index in range(count)]


def _seek(session: CommandSession, topic: str, name: str, where: Position) -> None:
    admin = session.admin.subscriptions
    if isinstance(where, int):
        session.do(f"move {name} of {topic}", lambda: admin.seek_to_time(topic, name, where))
    else:
        session.do(f"move {name} of {topic}", lambda: admin.seek(topic, name, where))
