"""Moves a subscription of a scalable topic from the command line: the topic's controller moves it on all segments."""

from __future__ import annotations

import re
from typing import Literal

from magnetar.base.errors import Misuse, SubscriptionNotFound
from magnetar.base.names import topic_name
from magnetar.cli import positions
from magnetar.cli.output.dry_run import moved_subscription, skipped
from magnetar.cli.positions import position
from magnetar.cli.session import CommandSession
from magnetar.client.documents.scalable import ScalableSubscriptionStats
from magnetar.client.documents.topics import MessageId

_IN_A_SEGMENT = re.compile(r"(\d+)/(\d+):(\d+)")


def seek(session: CommandSession, topic: str, name: str, to: str) -> None:
    full, stats = _known(session, topic, name)
    where = _where(session, to)
    place = to if isinstance(where, dict) else f"{to}, on every segment"
    session.describe(moved_subscription(full, name, place, where, lag=stats.lag, consumers=stats.consumerCount))
    session.do(f"move {name} of {full}", lambda: session.admin.scalable.seek(full, name, where))


def clear(session: CommandSession, topic: str, name: str) -> None:
    full, stats = _known(session, topic, name)
    session.describe(skipped(full, name, "all messages, on every segment", stats.lag))
    session.confirm(name, f"makes {name} of {full} skip all messages it has not consumed, on all segments")
    session.do(f"clear {name}", lambda: session.admin.scalable.skip_all(full, name))


def refuse_malformed(to: str) -> None:
    """As `positions.refuse_malformed`, which does not know positions in a segment."""
    if _IN_A_SEGMENT.fullmatch(to) is None:
        positions.refuse_malformed(to)


def _known(session: CommandSession, topic: str, name: str) -> tuple[str, ScalableSubscriptionStats]:
    """The full name of the topic, and the subscription. Reports a missing subscription, in a dry run too."""
    full = str(topic_name(topic))
    session.about(topic=full, subscription=name)
    stats = session.admin.scalable.subscriptions(full).get(name)
    if stats is None:
        raise SubscriptionNotFound(f"Subscription {name} not found for topic {full}")
    return full, stats


def _where(session: CommandSession, to: str) -> Literal["earliest", "latest"] | int | dict[int, tuple[int, int]]:
    match = _IN_A_SEGMENT.fullmatch(to)
    if match is not None:
        return {int(match[1]): (int(match[2]), int(match[3]))}
    where = position(to, session.now_ms)
    if isinstance(where, MessageId):
        raise Misuse("a message id of a scalable topic must name its segment: pass segment/ledger:entry", position=to)
    return where
