"""Previews of `--dry-run`: layouts before and after a change, deleted objects, and moved positions."""

from __future__ import annotations

from collections.abc import Sequence

from magnetar.base.ids import SegmentId
from magnetar.cli.output.formats import KeyValues, Part, TableData
from magnetar.cli.output.stats import lag_of
from magnetar.cli.output.values import Cell, Lag, Moment, Size
from magnetar.cli.scalable.tree import ScaleStep, hashes
from magnetar.client.documents.scalable import ScalableTopicStats
from magnetar.client.documents.stats import TopicStats
from magnetar.layout.layout import Layout

TITLE = "Would change:"


def after_all(layout: Layout, steps: Sequence[ScaleStep]) -> Layout:
    for step in steps:
        if step.is_split:
            layout = layout.split(SegmentId(step.parents[0]), now_ms=0, into=len(step.children))
        else:
            layout = layout.merge([SegmentId(id) for id in step.parents], now_ms=0)
    return layout


def reshape_parts(topic: str, before: Layout, after: Layout, steps: Sequence[ScaleStep] | None = None) -> list[Part]:
    """Each segment that is sealed or created. A segment can be created by one step and sealed by a later one."""
    facts: dict[str, Cell] = {"topic": topic}
    if steps is not None:
        facts["steps"] = len(steps)
    facts |= {"active segments now": len(before.active), "active segments afterwards": len(after.active)}
    rows: list[tuple[Cell, ...]] = []
    for segment in after.segments:
        old = before.segment(segment.id) if segment.id in before else None
        if old is not None and old.state == segment.state:
            continue
        origin = f"created from {_ids(segment.parents)}" if old is None else ""
        sealed = f"sealed, replaced by {_ids(segment.children)}" if segment.children else ""
        rows.append(
            (f"#{segment.id}", hashes(segment.range), ", then ".join(word for word in (origin, sealed) if word))
        )
    return [KeyValues(facts, title=TITLE), TableData(("SEGMENT", "RANGE", "CHANGE"), rows)]


def deleted_topic(topic: str, partitions: int, stats: TopicStats) -> list[Part]:
    consumers = sum(len(one.consumers) for one in stats.subscriptions.values())
    facts: dict[str, Cell] = {
        "deletes": topic,
        "partitions": partitions or None,
        "stored": Size(stats.storageSize),
        "producers": len(stats.publishers),
        "consumers": consumers,
    }
    rows: list[tuple[Cell, ...]] = [
        (name, Lag(lag_of(one).messages)) for name, one in sorted(stats.subscriptions.items())
    ]
    sheet = TableData(("SUBSCRIPTION DELETED", "LAG"), rows)
    return [KeyValues(facts, title=TITLE, optional=frozenset(("partitions",))), *([sheet] if rows else [])]


def deleted_scalable(topic: str, stats: ScalableTopicStats) -> list[Part]:
    facts: dict[str, Cell] = {"deletes": topic, "segments": stats.totalSegments}
    rows: list[tuple[Cell, ...]] = [
        (name, one.consumerCount, None if one.lag is None else Lag(one.lag))
        for name, one in sorted(stats.subscriptions.items())
    ]
    sheet = TableData(("SUBSCRIPTION DELETED", "CONSUMERS", "LAG"), rows, optional=frozenset(("LAG",)))
    return [KeyValues(facts, title=TITLE), *([sheet] if rows else [])]


def deleted_subscription(topic: str, name: str, lag: int | None, consumers: int) -> KeyValues:
    """`lag` is in messages; None: the owner of a segment does not answer."""
    facts: dict[str, Cell] = {
        "deletes": name,
        "topic": topic,
        "not consumed": None if lag is None else Lag(lag),
        "consumers": consumers,
    }
    return KeyValues(facts, title=TITLE, optional=frozenset(("not consumed",)))


def skipped(topic: str, name: str, what: str, lag: int | None) -> KeyValues:
    facts: dict[str, Cell] = {
        "moves": name,
        "topic": topic,
        "skips": what,
        "not consumed now": None if lag is None else Lag(lag),
    }
    return KeyValues(facts, title=TITLE, optional=frozenset(("not consumed now",)))


def deleted_namespace(name: str, topics: Sequence[str], *, force: bool) -> list[Part]:
    """Without `force`, the broker refuses to delete a namespace that has topics."""
    facts: dict[str, Cell] = {
        "deletes": name,
        "topics": len(topics),
        "refused": "it has topics: --force deletes them too" if topics and not force else None,
    }
    rows: list[tuple[Cell, ...]] = [(topic,) for topic in topics]
    sheet = [TableData(("TOPIC DELETED",), rows)] if rows and force else []
    return [KeyValues(facts, title=TITLE, optional=frozenset(("refused",))), *sheet]


def rebucketed(topic: str, segment: int, now: int, then: int) -> KeyValues:
    facts: dict[str, Cell] = {
        "topic": topic,
        "seals": f"#{segment}",
        "is followed by": "a segment of the same range",
        "entry buckets now": now,
        "entry buckets afterwards": then,
    }
    return KeyValues(facts, title=TITLE)


def moved_subscription(topic: str, name: str, to: str, where: object, *, lag: int | None, consumers: int) -> KeyValues:
    """`where` is a number of milliseconds if `to` is a time. `lag` is in messages; None: an owner does not answer."""
    facts: dict[str, Cell] = {
        "moves": name,
        "topic": topic,
        "to": to,
        "which is": Moment(where) if isinstance(where, int) else None,
        "not consumed now": None if lag is None else Lag(lag),
        "consumers": consumers,
    }
    return KeyValues(facts, title=TITLE, optional=frozenset(("which is", "not consumed now")))


def _ids(ids: Sequence[int]) -> str:
    return ", ".join(f"#{id}" for id in ids)
