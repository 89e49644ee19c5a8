"""`magnetar topic`: list, create, show, delete, statistics, and the life of a topic.

A topic is named in full (`persistent://tenant/namespace/topic`), as tenant/namespace/topic, or by its last part alone
in public/default. Partitions are shown under the topic they belong to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter, validators

from magnetar.base.names import topic_name
from magnetar.cli.cells import Cell, Lag, Moment, Rate, Size, pairs, size
from magnetar.cli.options import CHANGE, COMMON, DESTRUCTION, Change, Common, Destruction, Properties, flag, properties
from magnetar.cli.output import Facts, Sheet
from magnetar.cli.session import Session
from magnetar.client.documents.stats import SubscriptionStats, TopicStats

Count = Annotated[int, Parameter(validator=validators.Number(gte=1))]
SUBSCRIPTION_COLUMNS = ("SUBSCRIPTION", "TYPE", "CONSUMERS", "LAG", "UNACKED", "DELIVERED", "OUT", "LAST ACK")
OPTIONAL = frozenset(("OUT", "LAST ACK"))  # not every broker measures them


def list_(
    namespace: str = "public/default",
    /,
    *,
    domain: Literal["persistent", "non-persistent"] = "persistent",
    after: str | None = None,
    limit: Count | None = None,
    partitions: Annotated[bool, flag("Every partition, not only the topic it belongs to.")] = False,
    common: Common = COMMON,
) -> None:
    """The topics of a namespace.

    On a terminal the partitions of a topic are one row; JSON and JSON lines have every name, as REST does.

    Parameters
    ----------
    namespace
        As tenant/namespace.
    domain
        Topics that are stored, or those that are not.
    after
        Begin behind this topic: the last one of the page before.
    limit
        At most so many names.

    Examples
    --------
    $ magnetar topic list
    $ magnetar topic list public/default --limit 100 -o json
    """
    with common.session() as session:
        session.about(namespace=namespace)
        page = {} if limit is None else {"page": min(limit, 1000)}
        names = islice(session.admin.topics.walk(namespace, domain=domain, after=after, **page), limit)
        if common.output != "table" or partitions:
            session.output.stream(names)
        elif not session.output.terminal:
            session.output.stream(_topics(names))
        else:
            counted = _counted(names)
            rows: list[tuple[Cell, ...]] = [(name, count or None) for name, count in counted.items()]
            session.show(list(counted), Sheet(("TOPIC", "PARTITIONS"), rows))


def create(
    topic: str,
    /,
    *,
    partitions: Count | None = None,
    property: Properties = None,
    change: Change = CHANGE,
    common: Common = COMMON,
) -> None:
    """Create a topic.

    Parameters
    ----------
    topic
        Its name.
    partitions
        How many partitions; without, the topic has none.

    Examples
    --------
    $ magnetar topic create orders
    $ magnetar topic create payments --partitions 4 --property team=billing
    """
    name, own = str(topic_name(topic)), properties(property) or None
    with common.session(change) as session:
        session.about(topic=name)
        session.do(f"create {name}", lambda: session.admin.topics.create(name, partitions=partitions, properties=own))


def show(topic: str, /, *, common: Common = COMMON) -> None:
    """What a topic is: partitions, broker, properties, and its subscriptions with their lag.

    Parameters
    ----------
    topic
        Its name.

    Examples
    --------
    $ magnetar topic show orders
    """
    with common.session() as session:
        read = _read(session, topic)
        broker = session.admin.topics.lookup(read.name)
        broker_document = session.document
        own = session.admin.topics.properties(read.name) if read.name.startswith("persistent") else {}
        stats = read.stats
        facts: dict[str, Cell] = {
            "topic": read.name,
            "partitions": read.partitions or None,
            "broker": broker.brokerUrl or broker.nativeUrl,
            "created": Moment(stats.topicCreationTimeStamp),
            "last publish": Moment(stats.lastPublishTimeStamp),
            "producers": _producers(stats),
            "subscriptions": len(stats.subscriptions),
            "stored": Size(stats.storageSize),
            "properties": pairs(own),
        }
        document = {
            "topic": read.name,
            "partitions": read.partitions,
            "broker": msgspec.Raw(broker_document),
            "properties": own,
            "stats": msgspec.Raw(read.document),
        }
        optional = frozenset(("partitions", "created", "last publish", "properties"))
        session.show(document, Facts(facts, optional=optional), *_subscriptions(stats))


def delete(
    topic: str,
    /,
    *,
    force: Annotated[bool, flag("Also while it has producers, consumers or subscriptions.")] = False,
    change: Destruction = DESTRUCTION,
    common: Common = COMMON,
) -> None:
    """Delete a topic with everything in it.

    Parameters
    ----------
    topic
        Its name; of a partitioned topic, all partitions go.

    Examples
    --------
    $ magnetar topic delete orders --dry-run
    $ magnetar topic delete orders --force --yes
    """
    with common.session(change) as session:
        read = _read(session, topic)
        stored, users = size(read.stats.storageSize), len(read.stats.subscriptions)
        session.confirm(read.name, f"deletes {read.name} for good, {stored} and {users} subscriptions")
        session.do(
            f"delete {read.name}",
            lambda: session.admin.topics.delete(read.name, partitioned=bool(read.partitions), force=force),
        )


def stats(
    topic: str,
    /,
    *,
    partitions: Annotated[bool, flag("One row a partition.")] = False,
    internal: Annotated[bool, flag("Ledgers and cursors instead.")] = False,
    common: Common = COMMON,
) -> None:
    """Rates, sizes, producers and subscriptions of a topic.

    LAG counts entries nobody acknowledged, as Pulsar does: a batch is one.

    Parameters
    ----------
    topic
        Its name.

    Examples
    --------
    $ magnetar topic stats orders
    $ magnetar topic stats orders -o json
    $ magnetar topic stats orders --internal
    """
    with common.session() as session:
        if internal:
            _show_internal(session, topic)
            return
        read = _read(session, topic)
        found = read.stats
        facts: dict[str, Cell] = {
            "in": Rate(found.msgRateIn),
            "in bytes": Rate(found.msgThroughputIn, size=True),
            "out": Rate(found.msgRateOut),
            "out bytes": Rate(found.msgThroughputOut, size=True),
            "messages in": found.msgInCounter,
            "messages out": found.msgOutCounter,
            "average size": Size(found.averageMsgSize),
            "stored": Size(found.storageSize),
            "backlog": Size(found.backlogSize),
            "producers": _producers(found),
        }
        parts: list[Sheet | Facts] = [Facts(facts, title=read.name), *_subscriptions(found)]
        if partitions and read.partitions:
            parts.append(_by_partition(found))
        lines = None
        if partitions and isinstance(found.partitions, dict):
            document = msgspec.json.decode(read.document)["partitions"]
            lines = [{"topic": name, **one} for name, one in sorted(document.items(), key=lambda pair: _place(pair[0]))]
        session.show(read.document, *parts, lines=lines)


def terminate(topic: str, /, *, change: Destruction = DESTRUCTION, common: Common = COMMON) -> None:
    """Take no more messages, for ever. What is there can still be read.

    Parameters
    ----------
    topic
        Its name; of a partitioned topic, all partitions end.

    Examples
    --------
    $ magnetar topic terminate orders --yes
    """
    with common.session(change) as session:
        read = _read(session, topic)
        session.confirm(read.name, f"ends {read.name} for good: nothing can be published to it again")
        admin, name = session.admin.topics, read.name
        if read.partitions:
            ends = session.do(f"terminate {name}", lambda: admin.terminate_partitions(name))
            if ends is not None:
                rows: list[tuple[Cell, ...]] = [(index, f"{end.ledgerId}:{end.entryId}") for index, end in ends.items()]
                session.show(session.document, Sheet(("PARTITION", "LAST MESSAGE"), rows))
            return
        end = session.do(f"terminate {name}", lambda: admin.terminate(name))
        if end is not None:
            session.show(session.document, Facts({"last message": f"{end.ledgerId}:{end.entryId}"}))


def unload(topic: str, /, *, change: Change = CHANGE, common: Common = COMMON) -> None:
    """Let go of a topic: its clients look it up again and come back.

    Parameters
    ----------
    topic
        Its name.

    Examples
    --------
    $ magnetar topic unload orders
    """
    name = str(topic_name(topic))
    with common.session(change) as session:
        session.about(topic=name)
        session.do(f"unload {name}", lambda: session.admin.topics.unload(name))


def lookup(topic: str, /, *, common: Common = COMMON) -> None:
    """Which broker serves a topic.

    Parameters
    ----------
    topic
        Its name.

    Examples
    --------
    $ magnetar topic lookup orders
    """
    name = str(topic_name(topic))
    with common.session() as session:
        session.about(topic=name)
        bundle = session.admin.topics.bundle(name)
        found = session.admin.topics.lookup(name)
        facts: dict[str, Cell] = {
            "topic": name,
            "broker": found.brokerUrl or found.nativeUrl,
            "http": found.httpUrl,
            "bundle": bundle,
        }
        session.show(session.document, Facts(facts))


VERBS = {
    "list": list_,
    "create": create,
    "show": show,
    "delete": delete,
    "stats": stats,
    "terminate": terminate,
    "unload": unload,
    "lookup": lookup,
}


# A topic as it is read


@dataclass(frozen=True, slots=True)
class Read:
    name: str
    partitions: int
    stats: TopicStats
    document: bytes  # the statistics as REST gave them


def _read(session: Session, topic: str) -> Read:
    """A topic that exists, partitioned or not, with its statistics."""
    name = str(topic_name(topic))
    session.about(topic=name)
    count = session.admin.topics.partitions(name).partitions
    found = session.admin.topics.partitioned_stats(name) if count else session.admin.topics.stats(name)
    return Read(name, count, found, session.document)


def _producers(stats: TopicStats) -> int:
    if isinstance(stats.partitions, dict) and not stats.publishers:
        return max((len(one.publishers) for one in stats.partitions.values()), default=0)
    return len(stats.publishers)


def _row(name: str, one: SubscriptionStats) -> tuple[Cell, ...]:
    return (
        name,
        one.type if one.type != "None" else None,
        len(one.consumers),
        Lag(one.msgBacklog),
        one.unackedMessages,
        one.msgOutCounter,
        Rate(one.msgRateOut),
        Moment(one.lastAckedTimestamp),
    )


def _subscriptions(stats: TopicStats) -> list[Sheet]:
    return [subscription_sheet(stats)] if stats.subscriptions else []


def subscription_sheet(stats: TopicStats) -> Sheet:
    rows = [_row(name, one) for name, one in sorted(stats.subscriptions.items())]
    return Sheet(SUBSCRIPTION_COLUMNS, rows, optional=OPTIONAL)


def _by_partition(stats: TopicStats) -> Sheet:
    assert isinstance(stats.partitions, dict)
    rows: list[tuple[Cell, ...]] = []
    for name, one in sorted(stats.partitions.items(), key=lambda pair: _place(pair[0])):
        lag = max((subscription.msgBacklog for subscription in one.subscriptions.values()), default=0)
        rates = Rate(one.msgRateIn), Rate(one.msgRateOut)
        rows.append((str(_place(name)), *rates, one.msgInCounter, Lag(lag), Size(one.storageSize)))
    return Sheet(("PARTITION", "IN", "OUT", "MESSAGES IN", "LAG", "STORED"), rows)


def _show_internal(session: Session, topic: str) -> None:
    name = str(topic_name(topic))
    session.about(topic=name)
    found = session.admin.topics.internal_stats(name)
    facts: dict[str, Cell] = {
        "entries": found.numberOfEntries,
        "size": Size(found.totalSize),
        "last entry": found.lastConfirmedEntry or None,
        "state": found.state or None,
    }
    ledgers = found.ledgers or []
    ledger_rows = [(str(one.ledgerId), one.entries, Size(one.size)) for one in ledgers]
    cursor_rows = [
        (key, one.markDeletePosition or None, one.readPosition or None, one.totalNonContiguousDeletedMessagesRange)
        for key, one in sorted(found.cursors.items())
    ]
    session.show(
        session.document,
        Facts(facts, title=name),
        Sheet(("LEDGER", "ENTRIES", "SIZE"), ledger_rows),
        Sheet(("CURSOR", "ACKNOWLEDGED TO", "READS AT", "HOLES"), cursor_rows),
    )


def _place(partition: str) -> int:
    return topic_name(partition).partition_index


def _topics(names: Iterator[str]) -> Iterator[str]:
    """Every topic once, whatever its partitions."""
    seen: set[str] = set()
    for name in names:
        topic = topic_name(name).partitioned_name
        if topic not in seen:
            seen.add(topic)
            yield topic


def _counted(names: Iterator[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in names:
        name = topic_name(text)
        found[name.partitioned_name] = found.get(name.partitioned_name, 0) + name.is_partition
    return found
