"""Invariant 11: children wait. A stream subscription gets nothing of a segment while an ancestor is not done, except
the one consumer that has received everything in its ancestors (H-F20).

In the store: a segment is assigned to a consumer only when every ancestor is latched, or early to the consumer that
holds all other ancestors alone; a latched segment is assigned to no consumer. At clients: when a message of a segment
is delivered, all that the subscription must get of its ancestors was acknowledged before, or the same consumer received
it since its last step back in that ancestor.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulation import history as record
from simulation.check.cursor_state import CursorState
from simulation.check.finding import Finding
from simulation.check.history_index import Subscription, index_history
from simulation.history import History, Line, Place
from simulation.world.workload import STREAM


def check(history: History) -> Iterator[Finding]:
    parents = _parents(history)
    yield from _given(history, parents)
    for subscription in index_history(history).subscriptions.values():
        if subscription.topic.scalable and subscription.type == STREAM:
            yield from _delivered(subscription, parents.get(subscription.topic.name, {}))


def _parents(history: History) -> dict[str, dict[int, list[int]]]:
    parents: dict[str, dict[int, list[int]]] = {}
    for line in history.lines:
        if line.operation == record.RECORD:
            segments = parents.setdefault(line.topic, {})
            segments.update({int(id): each[3] for id, each in line.facts["segments"].items()})
    return parents


def ancestors(parents: dict[int, list[int]], segment: int) -> list[int]:
    ancestors_: dict[int, None] = {}
    left = list(parents.get(segment, []))
    while left:
        id = left.pop()
        if id not in ancestors_:
            ancestors_[id] = None
            left += parents.get(id, [])
    return sorted(ancestors_)


def _given(history: History, parents: dict[str, dict[int, list[int]]]) -> Iterator[Finding]:
    before: dict[tuple[str, str, int], set[tuple[int, str]]] = {}
    for line in history.lines:
        if line.operation != record.STREAM:
            continue
        latched = set(line.facts["latched"])
        holds = {(segment, holder) for segment, holder in line.facts["holds"]}
        early = set(line.facts.get("early", ()))
        values = before.get((line.topic, line.subscription, line.facts["life"]), set())
        before[line.topic, line.subscription, line.facts["life"]] = holds
        for segment, holder in sorted(holds - values):
            waits = [one for one in ancestors(parents.get(line.topic, {}), segment) if one not in latched]
            if segment in early:
                waits = [one for one in waits if {who for id, who in holds if id == one} != {holder}]
            if waits or segment in latched:
                why = f"its ancestors {waits} are not latched" if waits else "it is latched"
                what = f"{line.subscription}: segment {segment} was given to {holder}, and {why}"
                yield Finding(11, line.topic, what, (line,))


def _delivered(subscription: Subscription, parents: dict[int, list[int]]) -> Iterator[Finding]:
    topic = subscription.topic
    by_segment: dict[int, list[Place]] = {}
    for place in topic.places:
        by_segment.setdefault(topic.segment(place), []).append(place)
    standing = CursorState()
    taken: dict[tuple[int, int], list[Place]] = {}  # by session and segment, since it last went back there
    done: set[int] = set()  # segments of which nothing is owed any more, until the subscription is moved
    moves = 0
    delivered: set[tuple[int, int]] = set()
    for line in subscription.lines:
        standing.feed(line)
        if standing.moves != moves:
            moves = standing.moves
            done.clear()
        if line.operation != record.RECEIVE or line.place is None or standing.adrift:
            continue
        segment = line.facts["segment"]
        mine = taken.setdefault((line.session, segment), [])
        if mine and line.place <= mine[-1]:
            mine.clear()
        mine.append(line.place)
        for older in ancestors(parents, segment):
            if older in done or (older, segment) in delivered:
                continue
            owed = _owed(subscription, standing, by_segment.get(older, []), line)
            if not owed:
                done.add(older)
                continue
            got = set(taken.get((line.session, older), ()))
            missing = next((place for place in owed if place not in got), None)
            if missing is None:
                continue
            delivered.add((older, segment))
            what = (
                f"{subscription.name}: {line.value} of segment {segment} came while {topic.value_at(missing)} of "
                f"{older}, before it, was not acknowledged"
            )
            yield Finding(11, topic.name, what, (topic.seen[missing], line))


def _owed(subscription: Subscription, standing: CursorState, places: list[Place], line: Line) -> list[Place]:
    """The positions that the subscription must get and that no consumer has acknowledged."""
    if standing.born is None:
        return []
    owed = []
    for place in places:
        value = subscription.topic.value_at(place)
        if value is None or standing.is_acked(place) or standing.passes(subscription.topic, value):
            continue
        if subscription.owed(standing.born, value, line.number) is not None:
            owed.append(place)
    return owed
