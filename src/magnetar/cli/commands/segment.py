"""`magnetar segment`: segments of a scalable topic as a list or a tree, their history, and the segment of a key."""

from __future__ import annotations

from magnetar.base.names import topic_name
from magnetar.base.ranges import HashRange
from magnetar.cli.options import COMMON, Common
from magnetar.cli.output.output import KeyValues, TableData
from magnetar.cli.output.values import Cell, Moment
from magnetar.cli.scalable.session import opened
from magnetar.cli.scalable.tree import hashes, layout_of, tree
from magnetar.layout.routing import DEFAULT, Routing, segment_hash

COLUMNS = ("SEGMENT", "RANGE", "STATE", "PARENTS", "CHILDREN", "CREATED", "SEALED", "BROKER")


def list_(topic: str, /, *, common: Common = COMMON) -> None:
    """List the active and sealed segments of a scalable topic.

    Parameters
    ----------
    topic
        The scalable topic.

    Examples
    --------
    $ magnetar segment list topic://public/default/clicks
    $ magnetar segment list topic://public/default/clicks -o json
    """
    with opened(common, topic) as (session, name):
        stats = session.admin.scalable.stats(name)
        metadata = session.admin.scalable.metadata(name)
        rows: list[tuple[Cell, ...]] = [
            (
                one.segmentId,
                hashes(HashRange(one.hashRange.start, one.hashRange.end)),
                one.state,
                _ids(one.parentIds),
                _ids(one.childIds),
                Moment(max(one.createdAtMs, 0)),
                Moment(max(one.sealedAtMs, 0)),
                stats.segments[key].ownerBroker if key in stats.segments else None,
            )
            for key, one in sorted(metadata.segments.items(), key=lambda item: item[1].segmentId)
        ]
        optional = frozenset(("PARENTS", "CHILDREN", "SEALED", "BROKER"))
        lines = list(metadata.segments.values())
        session.show(session.document, TableData(COLUMNS, rows, optional=optional), lines=lines)


def tree_(topic: str, /, *, common: Common = COMMON) -> None:
    """Show how the segments of a scalable topic descend from each other.

    A merged segment appears under its first parent and names the other parents.

    Parameters
    ----------
    topic
        The scalable topic.

    Examples
    --------
    $ magnetar segment tree topic://public/default/clicks
    """
    with opened(common, topic) as (session, name):
        metadata = session.admin.scalable.metadata(name)
        layout = layout_of(metadata)
        rows: list[tuple[Cell, ...]] = [
            (f"{before}#{one.id}", hashes(one.range), str(one.state), _ids(one.parents[1:]))
            for before, one in tree(layout)
        ]
        sheet = TableData(("SEGMENT", "RANGE", "STATE", "ALSO OF"), rows, optional=frozenset(("ALSO OF",)))
        values: list[tuple[Cell, ...]] = [
            (one.id, hashes(one.range), str(one.state), _ids(one.parents)) for _, one in tree(layout)
        ]
        session.show(session.document, sheet, table=TableData(("SEGMENT", "RANGE", "STATE", "PARENTS"), values))


def history(topic: str, /, *, common: Common = COMMON) -> None:
    """List the splits and merges of a scalable topic, newest first, with their time, trigger and reason.

    Parameters
    ----------
    topic
        The scalable topic.

    Examples
    --------
    $ magnetar segment history topic://public/default/clicks
    """
    with opened(common, topic) as (session, name):
        operations = session.admin.scalable.operations(name)
        rows: list[tuple[Cell, ...]] = [
            (
                one.kind,
                _ids(one.parentIds),
                _ids(one.childIds),
                one.phase,
                Moment(one.steps[-1].atMs if one.steps else 0),
                one.reason or one.error,
                one.trigger,
                one.op,
            )
            for one in operations
        ]
        columns = ("KIND", "PARENTS", "CHILDREN", "PHASE", "AT", "WHY", "TRIGGER", "OPERATION")
        optional = frozenset(("WHY", "TRIGGER", "OPERATION"))
        session.show(
            session.document, TableData(columns, rows, optional=optional), names=[one.op for one in operations]
        )


def locate(topic: str, key: str, /, *, common: Common = COMMON) -> None:
    """Show the segment that takes a key now, and its broker. `magnetar key where` also shows earlier segments of the
    key.

    Parameters
    ----------
    topic
        The scalable topic.
    key
        Key, as producers write it.

    Examples
    --------
    $ magnetar segment locate topic://public/default/clicks user-42
    $ magnetar segment locate topic://public/default/clicks user-42 -o name
    """
    with opened(common, topic) as (session, name):
        stats = session.admin.scalable.stats(name)
        layout = layout_of(session.admin.scalable.metadata(name))
        slot = segment_hash(key, Routing(stats.routing) if stats.routing else DEFAULT)
        active = layout.route(slot)
        owner = stats.segments.get(str(active.id))
        segment = str(active.topic(topic_name(name)))
        broker = None if owner is None else owner.ownerBroker
        facts: dict[str, Cell] = {
            "key": key,
            "hash": f"{slot:04x}",
            "segment": active.id,
            "range": hashes(active.range),
            "topic": segment,
            "broker": broker,
        }
        document = {"key": key, "hash": slot, "segment": active.id, "topic": segment, "broker": broker}
        session.show(document, KeyValues(facts, optional=frozenset(("broker",))), names=[segment])


VERBS = {"list": list_, "tree": tree_, "history": history, "locate": locate}


def _ids(ids: tuple[int, ...] | list[int]) -> str | None:
    return ", ".join(str(id) for id in ids) or None
