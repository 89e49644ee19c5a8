"""Names of topics for `magnetar topic list`: persistent topics page by page, then scalable topics."""

from __future__ import annotations

from collections.abc import Iterator

from magnetar.base.names import topic_name
from magnetar.cli.scalable import topics
from magnetar.cli.session import CommandSession


def walk(
    session: CommandSession, namespace: str, domain: str | None, after: str | None, limit: int | None
) -> Iterator[str]:
    """In the order of names: scalable topics come after the others."""
    if domain != "scalable" and not (domain is None and (after or "").startswith("topic://")):
        page = {} if limit is None else {"page": min(limit, 1000)}
        yield from session.admin.topics.walk(namespace, domain=domain or "persistent", after=after, **page)
    if domain in (None, "scalable"):
        yield from topics.names(session, namespace, after)


def topics_of(names: Iterator[str]) -> Iterator[str]:
    """Every topic once, without its partitions."""
    seen: set[str] = set()
    for name in names:
        topic = topic_name(name).partitioned_name
        if topic not in seen:
            seen.add(topic)
            yield topic


def counted(names: Iterator[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for text in names:
        name = topic_name(text)
        counts[name.partitioned_name] = counts.get(name.partitioned_name, 0) + name.is_partition
    return counts
