"""`magnetar topic split|merge|rebucket|scale|explain`: the verbs of scalable topics."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from cyclopts import Parameter, validators

from magnetar.base.errors import Misuse
from magnetar.base.ids import SegmentId
from magnetar.cli import queueing
from magnetar.cli.cells import Cell
from magnetar.cli.drawing import Step, layout_of, plan
from magnetar.cli.opening import opened
from magnetar.cli.operating import operate, operation_parts, operations_sheet
from magnetar.cli.options import CHANGE, COMMON, Change, Common
from magnetar.cli.output import Facts, Sheet
from magnetar.cli.scalables import layout_facts
from magnetar.cli.session import Session
from magnetar.client.documents.scalable import Operation, ScalableTopicStats
from magnetar.layout.layout import Layout
from magnetar.layout.lineage import blockers

Count = Annotated[int, Parameter(validator=validators.Number(gte=1))]


def split(
    topic: str,
    segment: int,
    /,
    *,
    at: str | None = None,
    into: Annotated[int | None, Parameter(validator=validators.Number(gte=2))] = None,
    reason: str = "",
    change: Change = CHANGE,
    common: Common = COMMON,
) -> None:
    """Split a segment of a scalable topic, under whatever traffic it has. Every key stays in order.

    Parameters
    ----------
    topic
        The scalable topic.
    segment
        The number of an active segment.
    at
        The first hash of the upper child, in hexadecimal; without, in equal parts.
    into
        Into so many equal parts, instead of two.
    reason
        Kept in the topic's history.

    Examples
    --------
    $ magnetar topic split topic://public/default/clicks 0
    $ magnetar topic split topic://public/default/clicks 0 --at 4000 --reason "a hot key"
    $ magnetar topic split topic://public/default/clicks 0 --into 4 --dry-run
    """
    if at is not None and into is not None:
        raise Misuse("--at says where two parts meet, --into how many there are: one of them")
    with opened(common, topic, change) as (session, name):
        split = partial(session.admin.scalable.split, name, segment, reason=reason or None, wait=False)
        begin = partial(split, at=_hash(at), into=into)
        _told(session, operate(session, name, f"split segment {segment}", begin))


def merge(topic: str, /, *segments: int, reason: str = "", change: Change = CHANGE, common: Common = COMMON) -> None:
    """Merge neighbouring segments of a scalable topic into one, under whatever traffic it has.

    Parameters
    ----------
    topic
        The scalable topic.
    segments
        The numbers of active segments whose ranges are neighbours: two or more.
    reason
        Kept in the topic's history.

    Examples
    --------
    $ magnetar topic merge topic://public/default/clicks 0 1
    """
    if len(segments) < 2:
        raise Misuse("a merge needs at least two segments")
    with opened(common, topic, change) as (session, name):
        shown = ", ".join(str(id) for id in segments)
        begin = partial(session.admin.scalable.merge, name, segments, reason=reason or None, wait=False)
        _told(session, operate(session, name, f"merge segments {shown}", begin))


def rebucket(
    topic: str,
    segment: int,
    buckets: Count,
    /,
    *,
    reason: str = "",
    change: Change = CHANGE,
    common: Common = COMMON,
) -> None:
    """Give a segment of a scalable topic another number of entry buckets: so many stream consumers can share it.

    A segment of the same range follows it; what it holds is read first. Every key stays in order. More buckets make
    smaller batches.

    Parameters
    ----------
    topic
        The scalable topic.
    segment
        The number of an active segment.
    buckets
        How many entry buckets its successor has, 1 to 1024.
    reason
        Kept in the topic's history.

    Examples
    --------
    $ magnetar topic rebucket topic://public/default/clicks 0 16
    """
    with opened(common, topic, change) as (session, name):
        begin = partial(session.admin.scalable.rebucket, name, segment, buckets, reason=reason or None, wait=False)
        _told(session, operate(session, name, f"give segment {segment} {buckets} entry buckets", begin))


def scale(topic: str, segments: Count, /, *, change: Change = CHANGE, common: Common = COMMON) -> None:
    """Split and merge until a scalable topic has so many active segments: the widest first, the narrowest together.

    Parameters
    ----------
    topic
        The scalable topic.
    segments
        How many active segments it is to have.

    Examples
    --------
    $ magnetar topic scale topic://public/default/clicks 4 --dry-run
    $ magnetar topic scale topic://public/default/clicks 4
    """
    with opened(common, topic, change) as (session, name):
        steps = plan(layout_of(session.admin.scalable.metadata(name)), segments)
        if len(steps) > 1 and not session.waits and not session.is_dry:
            raise Misuse(f"this takes {len(steps)} splits and merges, each on the one before: leave --no-wait out")
        done = [operate(session, name, *_reshape(session, name, step)) for step in steps]
        found = [one for one in done if one is not None]
        if common.output != "jsonl" and not session.is_dry:
            if not steps:
                session.say(f"{name} has {segments} active segments ✓")
            session.show(found, operations_sheet(found))


def _reshape(session: Session, name: str, step: Step) -> tuple[str, Callable[[], Operation | None]]:
    """What to say, and what to do."""
    became = ", ".join(str(id) for id in step.children)
    admin = session.admin.scalable
    if step.is_split:
        what = f"split segment {step.parents[0]} into {became}"
        return what, partial(admin.split, name, step.parents[0], reason="scale", wait=False)
    what = f"merge segments {' and '.join(str(id) for id in step.parents)} into {became}"
    return what, partial(admin.merge, name, step.parents, reason="scale", wait=False)


def explain(topic: str, /, *, common: Common = COMMON) -> None:
    """What a scalable topic does now: its segments, who leads it, who reads what, and who waits for whom.

    Parameters
    ----------
    topic
        The scalable topic.

    Examples
    --------
    $ magnetar topic explain topic://public/default/clicks
    """
    with opened(common, topic) as (session, name):
        layout = layout_of(session.admin.scalable.metadata(name))
        stats = session.admin.scalable.stats(name)
        facts: dict[str, Cell] = {"topic": name, **layout_facts(stats)}
        rows = _readers(layout, stats)
        document = {"topic": name, "stats": stats, "waiting": [_row(row) for row in rows]}
        unplanned = [found for key, told in stats.subscriptions.items() if (found := queueing.row(key, told))]
        columns = ("SUBSCRIPTION", "SEGMENT", "CONSUMER", "WAITS FOR")
        waiting = Sheet(columns, sorted(rows + unplanned, key=lambda row: str(row[0])))
        session.show(document, Facts(facts), waiting, table=waiting, names=[name])


def _readers(layout: Layout, stats: ScalableTopicStats) -> list[tuple[Cell, ...]]:
    """Of every subscription that has a plan each segment that is not done: who reads it, or what it waits for."""
    rows: list[tuple[Cell, ...]] = []
    for subscription, told in sorted(stats.subscriptions.items()):
        if queueing.row(subscription, told) is not None:
            continue
        done = {SegmentId(id) for id in told.drainedSegmentIds}
        readers = {id: one.consumerName for one in told.consumers for id in one.segmentIds}
        for segment in layout.segments:
            if segment.id not in done:
                waits = ", ".join(str(id) for id in blockers(layout, segment.id, done))
                rows.append((subscription, segment.id, readers.get(segment.id), waits or None))
    return rows


def _row(row: tuple[Cell, ...]) -> dict[str, Any]:
    return dict(zip(("subscription", "segment", "consumer", "waitsFor"), row, strict=True))


def _told(session: Session, done: Operation | None) -> None:
    if done is None or session.common.output == "jsonl":
        return  # nothing to tell, or told step by step
    session.show(done, *operation_parts(done))


def _hash(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return int(text, 16)
    except ValueError:
        raise Misuse("a hash is written in hexadecimal: 0000 to ffff", at=text) from None
