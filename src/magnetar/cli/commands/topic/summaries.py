"""`magnetar topic list` with counts: segments, messages and size of each topic, from one request to a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from magnetar.base.limits import TOPIC_SUMMARIES_MAX
from magnetar.base.names import topic_name
from magnetar.cli.output.formats import TableData
from magnetar.cli.output.values import Cell, Size
from magnetar.client.documents.topics import TopicSummary

if TYPE_CHECKING:
    from magnetar.cli.session import CommandSession

COLUMNS = ("TOPIC", "PARTITIONS", "SEGMENTS", "MESSAGES", "SIZE")


def show_summaries(
    session: CommandSession,
    namespace: str,
    domain: str | None,
    after: str | None,
    limit: int | None,
    *,
    partitions: bool,
) -> None:
    """Shows one page; a line on standard error has the command for the next page."""
    page = TOPIC_SUMMARIES_MAX if limit is None else min(limit, TOPIC_SUMMARIES_MAX)
    if domain == "scalable" and after is None:
        after = f"topic://{namespace}/!"  # sorts before every name: scalable topics come after the others
    summaries = session.admin.topics.summaries(namespace, after=after, limit=page)
    more = summaries[-1].topic if len(summaries) == page and (limit is None or limit > page) else None
    summaries = [
        one for one in summaries if domain is None or topic_name(one.topic).is_scalable == (domain == "scalable")
    ]
    rows = [_row(one, 0) for one in summaries] if partitions else [_row(*pair) for pair in summed(summaries)]
    document = [msgspec.to_builtins(one) for one in summaries]
    optional = frozenset(("PARTITIONS", "SEGMENTS"))
    session.show(document, TableData(COLUMNS, rows, optional=optional), names=[str(row[0]) for row in rows])
    if more is not None:
        session.say(f"{page:,} topics shown; next page: magnetar topic list {namespace} --after {more}")


def summed(summaries: list[TopicSummary]) -> list[tuple[TopicSummary, int]]:
    """Each topic once, with the number of its partitions and the sum of their counts."""
    by_topic: dict[str, tuple[TopicSummary, int]] = {}
    for summary in summaries:
        name = topic_name(summary.topic)
        whole, count = by_topic.get(name.partitioned_name, (None, 0))
        if whole is None:
            total = msgspec.structs.replace(summary, topic=name.partitioned_name)
        else:
            total = msgspec.structs.replace(
                whole, messages=_sum(whole.messages, summary.messages), bytes=_sum(whole.bytes, summary.bytes)
            )
        by_topic[name.partitioned_name] = (total, count + name.is_partition)
    return list(by_topic.values())


def _row(summary: TopicSummary, partitions: int) -> tuple[Cell, ...]:
    stored = None if summary.bytes is None else Size(summary.bytes)
    return summary.topic, partitions or None, summary.segments, summary.messages, stored


def _sum(first: int | None, other: int | None) -> int | None:
    return None if first is None or other is None else first + other
