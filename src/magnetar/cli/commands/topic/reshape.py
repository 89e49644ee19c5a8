"""`magnetar topic split|merge|rebucket|scale|explain`: commands for scalable topics."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from cyclopts import Parameter, validators

from magnetar.base.errors import Misuse
from magnetar.base.ids import SegmentId
from magnetar.cli.options import CHANGE, COMMON, Change, Common
from magnetar.cli.output.dry_run import after_all, rebucketed, reshape_parts
from magnetar.cli.output.output import KeyValues, TableData
from magnetar.cli.output.values import Cell
from magnetar.cli.scalable import queues
from magnetar.cli.scalable.operations import operate, operation_parts, operations_sheet
from magnetar.cli.scalable.session import opened
from magnetar.cli.scalable.topics import layout_facts
from magnetar.cli.scalable.tree import ScaleStep, layout_of, plan
from magnetar.cli.session import CommandSession
from magnetar.client.documents.scalable import Operation, ScalableTopicStats
from magnetar.layout.layout import Layout
from magnetar.layout.lineage import blockers

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
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
    """Split a segment of a scalable topic under live traffic. Every key stays in order.

    Parameters
    ----------
    topic
        The scalable topic.
    segment
        Number of an active segment.
    at
        First hash of the upper child, in hexadecimal. Default: equal parts.
    into
        Number of equal parts. Default: 2.
    reason
        Reason to record in the history of the topic.

    Examples
    --------
    $ magnetar topic split topic://public/default/clicks 0
    $ magnetar topic split topic://public/default/clicks 0 --at 4000 --reason "a hot key"
    $ magnetar topic split topic://public/default/clicks 0 --into 4 --dry-run
    """
    if at is not None and into is not None:
        raise Misuse("--at and --into exclude each other: pass one of them")
    with opened(common, topic, change) as (session, name):
        if session.is_dry:
            before = layout_of(session.admin.scalable.metadata(name))
            after = before.split(SegmentId(segment), now_ms=0, at=_hash(at), into=into or 2)
            session.describe(*reshape_parts(name, before, after))
        split = partial(session.admin.scalable.split, name, segment, reason=reason or None, wait=False)
        begin = partial(split, at=_hash(at), into=into)
        _told(session, operate(session, name, f"split segment {segment}", begin))


def merge(topic: str, /, *segments: int, reason: str = "", change: Change = CHANGE, common: Common = COMMON) -> None:
    """Merge adjacent segments of a scalable topic into one segment under live traffic.

    Parameters
    ----------
    topic
        The scalable topic.
    segments
        Numbers of two or more active segments with adjacent ranges.
    reason
        Reason to record in the history of the topic.

    Examples
    --------
    $ magnetar topic merge topic://public/default/clicks 0 1
    """
    if len(segments) < 2:
        raise Misuse("a merge needs at least two segments")
    with opened(common, topic, change) as (session, name):
        if session.is_dry:
            before = layout_of(session.admin.scalable.metadata(name))
            after = before.merge([SegmentId(id) for id in segments], now_ms=0)
            session.describe(*reshape_parts(name, before, after))
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
    """Change the number of entry buckets of a segment. One stream consumer per bucket can share the segment.

    A new segment with the same range replaces the segment. Consumers read the messages of the old segment first. Every
    key stays in order. More buckets make smaller batches.

    Parameters
    ----------
    topic
        The scalable topic.
    segment
        Number of an active segment.
    buckets
        Number of entry buckets of the new segment, 1 to 1024.
    reason
        Reason to record in the history of the topic.

    Examples
    --------
    $ magnetar topic rebucket topic://public/default/clicks 0 16
    """
    with opened(common, topic, change) as (session, name):
        if session.is_dry:
            before = layout_of(session.admin.scalable.metadata(name))
            before.rebucket_range(SegmentId(segment), buckets)
            session.describe(rebucketed(name, segment, before.segment(SegmentId(segment)).buckets, buckets))
        begin = partial(session.admin.scalable.rebucket, name, segment, buckets, reason=reason or None, wait=False)
        _told(session, operate(session, name, f"set entry buckets of segment {segment} to {buckets}", begin))


def scale(
    topic: str,
    segments: Count,
    /,
    *,
    hold: str | None = None,
    change: Change = CHANGE,
    common: Common = COMMON,
) -> None:
    """Split and merge segments until a scalable topic has the given number of active segments. The widest segments are
    split, the narrowest are merged.

    Parameters
    ----------
    topic
        The scalable topic.
    segments
        Wanted number of active segments.
    hold
        Time for which automatic scaling keeps at least this number, such as 90m or 2h. The broker then splits in
        one step, by the load of the keys, and merges nothing.

    Examples
    --------
    $ magnetar topic scale topic://public/default/clicks 4 --dry-run
    $ magnetar topic scale topic://public/default/clicks 32 --hold 2h
    $ magnetar topic scale topic://public/default/clicks 4
    """
    hold_s = None if hold is None else _hold_s(hold)
    with opened(common, topic, change) as (session, name):
        if hold_s is not None:
            what = f"scale {name} to at least {segments} segments for {hold}"
            result = session.do(what, lambda: session.admin.scalable.scale(name, segments, hold_s=hold_s))
            if result is not None:
                session.show(result, KeyValues({"segments before": result.before, "segments": result.after}))
            return
        before = layout_of(session.admin.scalable.metadata(name))
        steps = plan(before, segments)
        session.describe(*reshape_parts(name, before, after_all(before, steps), steps))
        if len(steps) > 1 and not session.waits and not session.is_dry:
            raise Misuse(f"this takes {len(steps)} splits and merges, one after the other: omit --no-wait")
        done = [operate(session, name, *_reshape(session, name, step)) for step in steps]
        answers = [one for one in done if one is not None]
        if common.output != "jsonl" and not session.is_dry:
            if not steps:
                session.say(f"{name} has {segments} active segments ✓")
            session.show(answers, operations_sheet(answers))


def _hold_s(text: str) -> int:
    unit = _SECONDS.get(text[-1:].lower())
    digits = text[:-1]
    if unit is None or not digits.isascii() or not digits.isdecimal() or not int(digits):
        raise Misuse(f"--hold must be a number with s, m, h or d, such as 2h; got {text!r}")
    return int(digits) * unit


def _reshape(session: CommandSession, name: str, step: ScaleStep) -> tuple[str, Callable[[], Operation | None]]:
    """The description of a step, and the call that starts it."""
    became = ", ".join(str(id) for id in step.children)
    admin = session.admin.scalable
    if step.is_split:
        what = f"split segment {step.parents[0]} into {became}"
        return what, partial(admin.split, name, step.parents[0], reason="scale", wait=False)
    what = f"merge segments {' and '.join(str(id) for id in step.parents)} into {became}"
    return what, partial(admin.merge, name, step.parents, reason="scale", wait=False)


def explain(topic: str, /, *, common: Common = COMMON) -> None:
    """Explain the state of a scalable topic: segments, controller, the consumer of each segment, and the segments that
    wait for others.

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
        unplanned = [cells for key, group in stats.subscriptions.items() if (cells := queues.row(key, group))]
        columns = ("SUBSCRIPTION", "SEGMENT", "CONSUMER", "WAITS FOR")
        waiting = TableData(columns, sorted(rows + unplanned, key=lambda row: str(row[0])))
        session.show(document, KeyValues(facts), waiting, table=waiting, names=[name])


def _readers(layout: Layout, stats: ScalableTopicStats) -> list[tuple[Cell, ...]]:
    """For every subscription with a plan, each unfinished segment: its consumer, or the segments that it waits for."""
    rows: list[tuple[Cell, ...]] = []
    for subscription, group in sorted(stats.subscriptions.items()):
        if queues.row(subscription, group) is not None:
            continue
        done = {SegmentId(id) for id in group.drainedSegmentIds}
        readers = {id: one.consumerName for one in group.consumers for id in one.segmentIds}
        for segment in layout.segments:
            if segment.id not in done:
                waits = ", ".join(str(id) for id in blockers(layout, segment.id, done))
                rows.append((subscription, segment.id, readers.get(segment.id), waits or None))
    return rows


def _row(row: tuple[Cell, ...]) -> dict[str, Any]:
    return dict(zip(("subscription", "segment", "consumer", "waitsFor"), row, strict=True))


def _told(session: CommandSession, done: Operation | None) -> None:
    if done is None or session.common.output == "jsonl":
        return  # nothing to show, or already shown step by step
    session.show(done, *operation_parts(done))


def _hash(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return int(text, 16)
    except ValueError:
        raise Misuse("a hash must be hexadecimal, 0000 to ffff", at=text) from None
