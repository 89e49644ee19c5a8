"""`magnetar topic`: list, create, show, delete, statistics, terminate, unload and lookup.

A topic name is complete (`persistent://tenant/namespace/topic`), tenant/namespace/topic, or the last part of a topic in
public/default. Partitions appear under their topic.
"""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter, validators

from magnetar.base.errors import AlreadyExists, Conflict, Misuse, NotFound
from magnetar.base.names import topic_name
from magnetar.cli.commands.namespace_policies import retained
from magnetar.cli.commands.topic.migrate import migrate
from magnetar.cli.commands.topic.names import counted, topics_of, walk
from magnetar.cli.commands.topic.policies import set_
from magnetar.cli.commands.topic.reshape import explain, merge, rebucket, scale, split
from magnetar.cli.commands.topic.summaries import show_summaries
from magnetar.cli.commands.topic.verify import verify_order
from magnetar.cli.options import (
    CHANGE,
    COMMON,
    DESTRUCTION,
    Change,
    Common,
    Destruction,
    IfExists,
    IfNotExists,
    Properties,
    flag,
    properties,
)
from magnetar.cli.output.dry_run import deleted_topic
from magnetar.cli.output.output import KeyValues, TableData
from magnetar.cli.output.stats import (
    internal_parts,
    partition_sheet,
    place_of,
    producers,
    read,
    subscription_sheets,
    traffic_facts,
)
from magnetar.cli.output.values import Cell, Moment, Size, pairs, size
from magnetar.cli.scalable import topics
from magnetar.cli.session import CommandSession

Count = Annotated[int, Parameter(validator=validators.Number(gte=1))]


def list_(
    namespace: str = "public/default",
    /,
    *,
    domain: Literal["persistent", "non-persistent", "scalable"] | None = None,
    after: str | None = None,
    limit: Count | None = None,
    partitions: Annotated[bool, flag("List every partition, not only its topic.")] = False,
    long: Annotated[
        bool, flag("Add segments, messages and size of each topic. A terminal always shows them.", "--long", "-l")
    ] = False,
    common: Common = COMMON,
) -> None:
    """List the topics of a namespace.

    The partitions of a topic share one row. JSON, JSON lines and YAML list every name, as REST does. On a terminal, or
    with `--long`, the first 200 topics have their segments, messages and size.

    Parameters
    ----------
    namespace
        Namespace, as tenant/namespace.
    domain
        Kind of topics to list. Default: all stored topics, persistent topics before scalable topics.
    after
        Start after this topic, the last one of the previous page.
    limit
        Maximum number of names.

    Examples
    --------
    $ magnetar topic list
    $ magnetar topic list public/default --limit 100 -o json
    $ magnetar topic list --long
    """
    with common.session() as session:
        session.about(namespace=namespace)
        people = session.output.terminal and common.output == "table" and not partitions
        if (long or people) and domain != "non-persistent":
            try:
                show_summaries(session, namespace, domain, after, limit, partitions=partitions)
                return
            except NotFound:
                pass  # Apache Pulsar has no counts; listing the names reports a missing namespace
        names = islice(walk(session, namespace, domain, after, limit), limit)
        if common.output not in ("table", "csv", "name") or partitions:
            session.output.stream(names, "topic")
        elif not session.output.terminal or common.output != "table":
            session.output.stream(topics_of(names), "topic")
        else:
            counts = counted(names)
            rows: list[tuple[Cell, ...]] = [(name, count or None) for name, count in counts.items()]
            session.show(list(counts), TableData(("TOPIC", "PARTITIONS"), rows, optional=frozenset(("PARTITIONS",))))


def create(
    topic: str,
    /,
    *,
    partitions: Count | None = None,
    segments: Count | None = None,
    property: Properties = None,
    if_not_exists: IfNotExists = False,
    change: Change = CHANGE,
    common: Common = COMMON,
) -> None:
    """Create a topic.

    Parameters
    ----------
    topic
        Topic name. The name of a scalable topic begins with topic://.
    partitions
        Number of partitions. Default: the topic has no partitions.
    segments
        Number of initial segments of a scalable topic. Default: 1.

    Examples
    --------
    $ magnetar topic create orders
    $ magnetar topic create payments --partitions 4 --property team=billing
    $ magnetar topic create topic://public/default/visits --segments 4
    $ magnetar topic create orders --if-not-exists
    """
    name, own = str(topic_name(topic)), properties(property) or None
    scalable = topic_name(topic).is_scalable
    if (partitions is not None and scalable) or (segments is not None and not scalable):
        raise Misuse("--segments requires a scalable topic (topic://), --partitions any other topic", topic=name)
    with common.session(change, unless=AlreadyExists if if_not_exists else None) as session:
        session.about(topic=name)
        if scalable:
            count = segments or 1
            session.do(f"create {name}", lambda: session.admin.scalable.create(name, segments=count, properties=own))
            return
        if if_not_exists:
            _check_partitions(session, name, partitions or 0)
        session.do(f"create {name}", lambda: session.admin.topics.create(name, partitions=partitions, properties=own))


def show(topic: str, /, *, common: Common = COMMON) -> None:
    """Show partitions, broker and properties of a topic, and its subscriptions with their lag.

    Parameters
    ----------
    topic
        Topic name.

    Examples
    --------
    $ magnetar topic show orders
    """
    with common.session() as session:
        topic = topics.present(session, topic)
        if topics.is_scalable(topic):
            topics.show(session, topic)
            return
        answer = read(session, topic)
        broker = session.admin.topics.lookup(answer.name)
        broker_document = session.document
        own = session.admin.topics.properties(answer.name) if answer.name.startswith("persistent") else {}
        stats = answer.stats
        facts: dict[str, Cell] = {
            "topic": answer.name,
            "partitions": answer.partitions or None,
            "broker": broker.brokerUrl or broker.nativeUrl,
            "created": Moment(stats.topicCreationTimeStamp),
            "last publish": Moment(stats.lastPublishTimeStamp),
            "producers": producers(stats),
            "subscriptions": len(stats.subscriptions),
            "stored": Size(stats.storageSize),
            "retention": retained(session.admin.topics.retention, answer.name),
            "properties": pairs(own),
        }
        document = {
            "topic": answer.name,
            "partitions": answer.partitions,
            "broker": msgspec.Raw(broker_document),
            "properties": own,
            "stats": msgspec.Raw(answer.document),
        }
        optional = frozenset(("partitions", "created", "last publish", "retention", "properties"))
        session.show(document, KeyValues(facts, optional=optional), *subscription_sheets(stats))


def delete(
    topic: str,
    /,
    *,
    force: Annotated[bool, flag("Delete it even if it has producers, consumers or subscriptions.")] = False,
    if_exists: IfExists = False,
    change: Destruction = DESTRUCTION,
    common: Common = COMMON,
) -> None:
    """Delete a topic with all its data.

    Parameters
    ----------
    topic
        Topic name. The command deletes all partitions of a partitioned topic, and all segments of a scalable one.

    Examples
    --------
    $ magnetar topic delete orders --dry-run
    $ magnetar topic delete orders --force --yes
    """
    with common.session(change, unless=NotFound if if_exists else None) as session:
        if topics.is_scalable(topic):
            topics.delete(session, topic, force=force)
            return
        answer = read(session, topic)
        stored, users = size(answer.stats.storageSize), len(answer.stats.subscriptions)
        session.describe(*deleted_topic(answer.name, answer.partitions, answer.stats))
        session.confirm(answer.name, f"permanently deletes {answer.name} with {stored} and {users} subscriptions")
        session.do(
            f"delete {answer.name}",
            lambda: session.admin.topics.delete(answer.name, partitioned=bool(answer.partitions), force=force),
        )


def stats(
    topic: str,
    /,
    *,
    partitions: Annotated[bool, flag("Show one row per partition.")] = False,
    internal: Annotated[bool, flag("Show ledgers and cursors instead.")] = False,
    common: Common = COMMON,
) -> None:
    """Show rates, sizes, producers and subscriptions of a topic.

    LAG is the number of unacknowledged messages of the subscription that is furthest behind. OLDEST is the age of the
    oldest of them. An Apache Pulsar broker counts entries instead. For a scalable topic, the command shows every
    segment.

    Parameters
    ----------
    topic
        Topic name.

    Examples
    --------
    $ magnetar topic stats orders
    $ magnetar topic stats orders -o json
    $ magnetar topic stats orders --internal
    """
    with common.session() as session:
        topic = topic if internal else topics.present(session, topic)
        if partitions or internal:
            topics.refuse_scalable(topic, "it has segments: run stats without this option")
        if topics.is_scalable(topic):
            topics.statistics(session, topic)
            return
        if internal:
            name = str(topic_name(topic))
            session.about(topic=name)
            internals = session.admin.topics.internal_stats(name)
            session.show(session.document, *internal_parts(name, internals))
            return
        answer = read(session, topic)
        parts: list[TableData | KeyValues] = [traffic_facts(answer), *subscription_sheets(answer.stats)]
        lines = table = names = None
        if partitions and answer.partitions:
            table = partition_sheet(answer.stats)
            parts.append(table)
            document = msgspec.json.decode(answer.document)["partitions"]
            names = sorted(document, key=place_of)
            lines = [{"topic": name, **document[name]} for name in names]
        session.show(answer.document, *parts, lines=lines, table=table, names=names)


def terminate(topic: str, /, *, change: Destruction = DESTRUCTION, common: Common = COMMON) -> None:
    """Reject new messages to a topic permanently. Stored messages can still be read.

    Parameters
    ----------
    topic
        Topic name. All partitions of a partitioned topic are terminated.

    Examples
    --------
    $ magnetar topic terminate orders --yes
    """
    topics.refuse_scalable(topic, "a split or a merge seals its segments")
    with common.session(change) as session:
        answer = read(session, topic)
        session.confirm(answer.name, f"permanently terminates {answer.name}: the broker rejects all later messages")
        admin, name = session.admin.topics, answer.name
        if answer.partitions:
            ends = session.do(f"terminate {name}", lambda: admin.terminate_partitions(name))
            if ends is not None:
                rows: list[tuple[Cell, ...]] = [(index, f"{end.ledgerId}:{end.entryId}") for index, end in ends.items()]
                session.show(session.document, TableData(("PARTITION", "LAST MESSAGE"), rows))
            return
        end = session.do(f"terminate {name}", lambda: admin.terminate(name))
        if end is not None:
            session.show(session.document, KeyValues({"topic": name, "last message": f"{end.ledgerId}:{end.entryId}"}))


def unload(topic: str, /, *, change: Change = CHANGE, common: Common = COMMON) -> None:
    """Unload a topic from its broker. Clients reconnect automatically.

    Parameters
    ----------
    topic
        Topic name.

    Examples
    --------
    $ magnetar topic unload orders
    """
    topics.refuse_scalable(topic, "each segment is a topic with its own broker")
    name = str(topic_name(topic))
    with common.session(change) as session:
        session.about(topic=name)
        session.do(f"unload {name}", lambda: session.admin.topics.unload(name))


def lookup(topic: str, /, *, common: Common = COMMON) -> None:
    """Show the broker that serves a topic.

    Parameters
    ----------
    topic
        Topic name.

    Examples
    --------
    $ magnetar topic lookup orders
    """
    name = str(topic_name(topic))
    with common.session() as session:
        session.about(topic=name)
        bundle = session.admin.topics.bundle(name)
        broker = session.admin.topics.lookup(name)
        facts: dict[str, Cell] = {
            "topic": name,
            "broker": broker.brokerUrl or broker.nativeUrl,
            "http": broker.httpUrl,
            "bundle": bundle,
        }
        session.show(session.document, KeyValues(facts))


VERBS = {
    "list": list_,
    "create": create,
    "show": show,
    "delete": delete,
    "stats": stats,
    "set": set_,
    "terminate": terminate,
    "unload": unload,
    "lookup": lookup,
    "split": split,
    "rebucket": rebucket,
    "merge": merge,
    "scale": scale,
    "migrate": migrate,
    "explain": explain,
    "verify-order": verify_order,
}


def _check_partitions(session: CommandSession, name: str, count: int) -> None:
    """Accepts an existing topic only if it has the requested number of partitions."""
    try:
        there = session.admin.topics.partitions(name).partitions
    except NotFound:
        return
    if there != count:
        raise Conflict(f"Topic {name} exists with {there or 'no'} partitions", asked=count or "none")
    raise AlreadyExists(f"Topic {name} exists")
