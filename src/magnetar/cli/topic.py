"""`magnetar topic`: list, create, show, delete, statistics, and the life of a topic.

A topic is named in full (`persistent://tenant/namespace/topic`), as tenant/namespace/topic, or by its last part alone
in public/default. Partitions are shown under the topic they belong to.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter, validators

from magnetar.base.errors import AlreadyExists, Conflict, Misuse, NotFound
from magnetar.base.names import topic_name
from magnetar.cli import scalables
from magnetar.cli.cells import Cell, Moment, Size, pairs, size
from magnetar.cli.migrating import migrate
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
from magnetar.cli.output import Facts, Sheet
from magnetar.cli.reshaping import explain, merge, rebucket, scale, split
from magnetar.cli.session import Session
from magnetar.cli.statistics import (
    internal_parts,
    partition_sheet,
    place_of,
    producers,
    read,
    subscription_sheets,
    traffic_facts,
)
from magnetar.cli.verify import verify_order

Count = Annotated[int, Parameter(validator=validators.Number(gte=1))]


def list_(
    namespace: str = "public/default",
    /,
    *,
    domain: Literal["persistent", "non-persistent", "scalable"] | None = None,
    after: str | None = None,
    limit: Count | None = None,
    partitions: Annotated[bool, flag("Every partition, not only the topic it belongs to.")] = False,
    common: Common = COMMON,
) -> None:
    """The topics of a namespace.

    The partitions of a topic are one row; JSON, JSON lines and YAML have every name, as REST does.

    Parameters
    ----------
    namespace
        As tenant/namespace.
    domain
        Which kind; without, all that are stored: persistent ones, then scalable ones.
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
        names = islice(_walk(session, namespace, domain, after, limit), limit)
        if common.output not in ("table", "csv", "name") or partitions:
            session.output.stream(names, "topic")
        elif not session.output.terminal or common.output != "table":
            session.output.stream(_topics(names), "topic")
        else:
            counted = _counted(names)
            rows: list[tuple[Cell, ...]] = [(name, count or None) for name, count in counted.items()]
            session.show(list(counted), Sheet(("TOPIC", "PARTITIONS"), rows, optional=frozenset(("PARTITIONS",))))


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
        Its name; of a scalable topic it begins with topic://.
    partitions
        How many partitions; without, the topic has none.
    segments
        How many segments a scalable topic begins with; without, one.

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
        raise Misuse("a scalable topic (topic://) has segments, any other one partitions", topic=name)
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
        topic = scalables.present(session, topic)
        if scalables.is_scalable(topic):
            scalables.show(session, topic)
            return
        found = read(session, topic)
        broker = session.admin.topics.lookup(found.name)
        broker_document = session.document
        own = session.admin.topics.properties(found.name) if found.name.startswith("persistent") else {}
        stats = found.stats
        facts: dict[str, Cell] = {
            "topic": found.name,
            "partitions": found.partitions or None,
            "broker": broker.brokerUrl or broker.nativeUrl,
            "created": Moment(stats.topicCreationTimeStamp),
            "last publish": Moment(stats.lastPublishTimeStamp),
            "producers": producers(stats),
            "subscriptions": len(stats.subscriptions),
            "stored": Size(stats.storageSize),
            "properties": pairs(own),
        }
        document = {
            "topic": found.name,
            "partitions": found.partitions,
            "broker": msgspec.Raw(broker_document),
            "properties": own,
            "stats": msgspec.Raw(found.document),
        }
        optional = frozenset(("partitions", "created", "last publish", "properties"))
        session.show(document, Facts(facts, optional=optional), *subscription_sheets(stats))


def delete(
    topic: str,
    /,
    *,
    force: Annotated[bool, flag("Also while it has producers, consumers or subscriptions.")] = False,
    if_exists: IfExists = False,
    change: Destruction = DESTRUCTION,
    common: Common = COMMON,
) -> None:
    """Delete a topic with everything in it.

    Parameters
    ----------
    topic
        Its name; of a partitioned topic, all partitions go, of a scalable one all segments.

    Examples
    --------
    $ magnetar topic delete orders --dry-run
    $ magnetar topic delete orders --force --yes
    """
    with common.session(change, unless=NotFound if if_exists else None) as session:
        if scalables.is_scalable(topic):
            scalables.delete(session, topic, force=force)
            return
        found = read(session, topic)
        stored, users = size(found.stats.storageSize), len(found.stats.subscriptions)
        session.confirm(found.name, f"deletes {found.name} for good, {stored} and {users} subscriptions")
        session.do(
            f"delete {found.name}",
            lambda: session.admin.topics.delete(found.name, partitioned=bool(found.partitions), force=force),
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

    LAG counts entries nobody acknowledged, as Pulsar does: a batch is one. Of a scalable topic, every segment.

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
        topic = topic if internal else scalables.present(session, topic)
        if partitions or internal:
            scalables.refuse_scalable(topic, "it has segments, which stats shows without an option")
        if scalables.is_scalable(topic):
            scalables.statistics(session, topic)
            return
        if internal:
            name = str(topic_name(topic))
            session.about(topic=name)
            internals = session.admin.topics.internal_stats(name)
            session.show(session.document, *internal_parts(name, internals))
            return
        found = read(session, topic)
        parts: list[Sheet | Facts] = [traffic_facts(found), *subscription_sheets(found.stats)]
        lines = table = names = None
        if partitions and found.partitions:
            table = partition_sheet(found.stats)
            parts.append(table)
            document = msgspec.json.decode(found.document)["partitions"]
            names = sorted(document, key=place_of)
            lines = [{"topic": name, **document[name]} for name in names]
        session.show(found.document, *parts, lines=lines, table=table, names=names)


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
    scalables.refuse_scalable(topic, "its segments end when they are split or merged")
    with common.session(change) as session:
        found = read(session, topic)
        session.confirm(found.name, f"ends {found.name} for good: nothing can be published to it again")
        admin, name = session.admin.topics, found.name
        if found.partitions:
            ends = session.do(f"terminate {name}", lambda: admin.terminate_partitions(name))
            if ends is not None:
                rows: list[tuple[Cell, ...]] = [(index, f"{end.ledgerId}:{end.entryId}") for index, end in ends.items()]
                session.show(session.document, Sheet(("PARTITION", "LAST MESSAGE"), rows))
            return
        end = session.do(f"terminate {name}", lambda: admin.terminate(name))
        if end is not None:
            session.show(session.document, Facts({"topic": name, "last message": f"{end.ledgerId}:{end.entryId}"}))


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
    scalables.refuse_scalable(topic, "its segments are topics of their own, each with its broker")
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
    "split": split,
    "rebucket": rebucket,
    "merge": merge,
    "scale": scale,
    "migrate": migrate,
    "explain": explain,
    "verify-order": verify_order,
}


# Names


def _walk(session: Session, namespace: str, domain: str | None, after: str | None, limit: int | None) -> Iterator[str]:
    """By name, which puts scalable topics behind the others."""
    if domain != "scalable" and not (domain is None and (after or "").startswith("topic://")):
        page = {} if limit is None else {"page": min(limit, 1000)}
        yield from session.admin.topics.walk(namespace, domain=domain or "persistent", after=after, **page)
    if domain in (None, "scalable"):
        yield from scalables.names(session, namespace, after)


def _check_partitions(session: Session, name: str, wanted: int) -> None:
    """A topic that is there is taken for the one that was asked for only if it has as many partitions."""
    try:
        there = session.admin.topics.partitions(name).partitions
    except NotFound:
        return
    if there != wanted:
        raise Conflict(f"Topic {name} exists with {there or 'no'} partitions", asked=wanted or "none")
    raise AlreadyExists(f"Topic {name} exists")


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
