"""`magnetar segment`: the segments of a scalable topic as a list, as a tree, how they came to be, which takes a key."""

from __future__ import annotations

from magnetar.base.names import topic_name
from magnetar.base.ranges import HashRange
from magnetar.cli.cells import Cell, Moment
from magnetar.cli.drawing import hashes, layout_of, tree
from magnetar.cli.opening import opened
from magnetar.cli.options import COMMON, Common
from magnetar.cli.output import Facts, Sheet
from magnetar.layout.routing import DEFAULT, Routing, segment_hash

COLUMNS = ("SEGMENT", "RANGE", "STATE", "PARENTS", "CHILDREN", "CREATED", "SEALED", "BROKER")


def list_(topic: str, /, *, common: Common = COMMON) -> None:
    """The segments of a scalable topic, active and sealed.

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
        session.show(session.document, Sheet(COLUMNS, rows, optional=optional), lines=lines)


def tree_(topic: str, /, *, common: Common = COMMON) -> None:
    """How the segments of a scalable topic descend from each other.

    A segment that came of a merge stands under the first of its parents, and names the others.

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
        sheet = Sheet(("SEGMENT", "RANGE", "STATE", "ALSO OF"), rows, optional=frozenset(("ALSO OF",)))
        values: list[tuple[Cell, ...]] = [
            (one.id, hashes(one.range), str(one.state), _ids(one.parents)) for _, one in tree(layout)
        ]
        session.show(session.document, sheet, table=Sheet(("SEGMENT", "RANGE", "STATE", "PARENTS"), values))


def history(topic: str, /, *, common: Common = COMMON) -> None:
    """The splits and merges of a scalable topic, the newest first: what, when, by whom, why.

    Parameters
    ----------
    topic
        The scalable topic.

    Examples
    --------
    $ magnetar segment history topic://public/default/clicks
    """
    with opened(common, topic) as (session, name):
        found = session.admin.scalable.operations(name)
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
            for one in found
        ]
        columns = ("KIND", "PARENTS", "CHILDREN", "PHASE", "AT", "WHY", "TRIGGER", "OPERATION")
        optional = frozenset(("WHY", "TRIGGER", "OPERATION"))
        session.show(session.document, Sheet(columns, rows, optional=optional), names=[one.op for one in found])


def locate(topic: str, key: str, /, *, common: Common = COMMON) -> None:
    """The segment that takes a key now, and the broker that serves it. Where the key was before: `magnetar key where`.

    Parameters
    ----------
    topic
        The scalable topic.
    key
        As producers write it.

    Examples
    --------
    $ magnetar segment locate topic://public/default/clicks user-42
    $ magnetar segment locate topic://public/default/clicks user-42 -o name
    """
    with opened(common, topic) as (session, name):
        stats = session.admin.scalable.stats(name)
        layout = layout_of(session.admin.scalable.metadata(name))
        slot = segment_hash(key, Routing(stats.routing) if stats.routing else DEFAULT)
        found = layout.route(slot)
        owner = stats.segments.get(str(found.id))
        segment = str(found.topic(topic_name(name)))
        broker = None if owner is None else owner.ownerBroker
        facts: dict[str, Cell] = {
            "key": key,
            "hash": f"{slot:04x}",
            "segment": found.id,
            "range": hashes(found.range),
            "topic": segment,
            "broker": broker,
        }
        document = {"key": key, "hash": slot, "segment": found.id, "topic": segment, "broker": broker}
        session.show(document, Facts(facts, optional=frozenset(("broker",))), names=[segment])


VERBS = {"list": list_, "tree": tree_, "history": history, "locate": locate}


def _ids(ids: tuple[int, ...] | list[int]) -> str | None:
    return ", ".join(str(id) for id in ids) or None
