"""Reads unacknowledged messages of a subscription over REST, one entry per request, without consuming them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from magnetar.base.errors import NotFound

if TYPE_CHECKING:
    from magnetar.cli.session import CommandSession
    from magnetar.client.admin.messages import PeekedMessage


def segments_of(session: CommandSession, topic: str, subscription: str) -> list[str]:
    """The segment topics that the subscription has not read to the end, parents before their children."""
    drained = set(session.admin.scalable.subscription(topic, subscription).drainedSegmentIds)
    segments = session.admin.scalable.stats(topic).segments
    return [segments[id].name for id in sorted(segments, key=int) if int(id) not in drained]


def unacknowledged(session: CommandSession, topics: Iterable[str], subscription: str) -> Iterator[PeekedMessage]:
    """Messages of all these topics, in sequence. A batch entry has several messages."""
    admin = session.admin.messages
    for topic in topics:
        peek = admin.peek_segment if topic.startswith("segment://") else admin.peek
        position = 1
        while True:
            try:
                message = peek(topic, subscription, position)
            except NotFound as error:
                if "message" in error.what.lower() and (position > 1 or "not found" in error.what.lower()):
                    break
                raise
            yield from message
            position += 1
