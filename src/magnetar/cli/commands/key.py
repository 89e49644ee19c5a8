"""`magnetar key`: the segments that hold the messages of a key, now and in every generation of its topic."""

from __future__ import annotations

from magnetar.cli.options import COMMON, Common
from magnetar.cli.output.output import KeyValues, TableData
from magnetar.cli.output.values import Cell, Moment
from magnetar.cli.scalable.session import opened
from magnetar.cli.scalable.tree import generations, hashes, layout_of
from magnetar.layout.routing import DEFAULT, Routing, segment_hash


def where(topic: str, key: str, /, *, common: Common = COMMON) -> None:
    """Show the hash of a key, its current segment, and its earlier segments, oldest first.

    Parameters
    ----------
    topic
        The scalable topic.
    key
        Key, as producers write it.

    Examples
    --------
    $ magnetar key where topic://public/default/clicks user-42
    """
    with opened(common, topic) as (session, name):
        stats = session.admin.scalable.stats(name)
        layout = layout_of(session.admin.scalable.metadata(name))
        routing = Routing(stats.routing) if stats.routing else DEFAULT
        slot = segment_hash(key, routing)
        now = layout.route(slot)
        owner = stats.segments.get(str(now.id))
        readers = {
            subscription: one.consumerName
            for subscription, told in sorted(stats.subscriptions.items())
            for one in told.consumers
            if now.id in one.segmentIds
        }
        past = generations(layout, slot)
        facts: dict[str, Cell] = {
            "key": key,
            "hash": f"{slot:04x}",
            "routing": str(routing) if stats.routing else f"{routing} (not pinned yet)",
            "segment": now.id,
            "broker": None if owner is None else owner.ownerBroker,
            "read by": ", ".join(f"{name} ({who})" for name, who in readers.items()) or None,
        }
        rows: list[tuple[Cell, ...]] = [
            (one.id, hashes(one.range), str(one.state), Moment(one.created_ms), Moment(max(one.sealed_ms, 0)))
            for one in past
        ]
        document = {
            "key": key,
            "hash": slot,
            "routing": str(routing),
            "pinned": stats.routing is not None,
            "segment": now.id,
            "generations": [one.id for one in past],
            "consumers": readers,
        }
        sheet = TableData(("SEGMENT", "RANGE", "STATE", "CREATED", "SEALED"), rows, optional=frozenset(("SEALED",)))
        session.show(document, KeyValues(facts, optional=frozenset(("broker", "read by"))), sheet)


VERBS = {"where": where}
