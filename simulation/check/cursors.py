"""Invariant 9: cursors never skip. A message that no client began to acknowledge comes again after every crash.

It is checked for every subscription that one fresh consumer read to its end after its consumers left (DRAIN): this
consumer got every position that was seen before and not acknowledged. It is also checked when the subscription's own
consumers reached the end in a healed world (SETTLE): a message without acknowledgement is with one of them, on its
present attachment, and was not refused since; or the last consumer that got it has left or refused it. For ordered
subscriptions invariant 4 requires the same of every attachment.

A crash may move a cursor back, so an acknowledged message may come again. An acknowledgement with a receipt of the
broker is final only in a history without FAULT lines, since effects of a fault may come late, and only if it was made
on the attachment that brought the message: otherwise the redelivery may already be in flight.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulation import history as record
from simulation.check.cursor_state import CursorState
from simulation.check.finding import Finding
from simulation.check.history_index import (
    READER,
    HistoryIndex,
    Subscription,
    index_history,
)
from simulation.history import INVOKE, OK, History, Line, Place


def check(history: History) -> Iterator[Finding]:
    story = index_history(history)
    for subscription in story.subscriptions.values():
        if subscription.type != READER:
            yield from _drained(subscription)
            yield from _settled(subscription)
            if subscription.type != "Failover":  # whose idle consumers keep what they had queued
                yield from _confirmed(story, subscription)


def _drained(subscription: Subscription) -> Iterator[Finding]:
    standing = CursorState()
    owed: dict[Place, Line] = {}
    began: Line | None = None
    for line in subscription.lines:
        standing.feed(line)
        if line.operation == record.RECEIVE and line.place is not None:
            owed.pop(line.place, None)
        elif line.operation == record.DRAIN:
            if line.phase == INVOKE:
                began = line
                owed = _owed(subscription, standing, line)
            elif line.phase == OK and began is not None:
                for place, seen in owed.items():
                    what = f"{subscription.name}: {seen.value} at {place} was not acknowledged and did not come again"
                    yield Finding(9, subscription.topic.name, what, (seen, began, line))
                owed = {}


def _settled(subscription: Subscription) -> Iterator[Finding]:
    standing = CursorState()
    holders: dict[Place, dict[tuple[int, int], Line]] = {}  # on which attachments it was delivered, and not refused
    for line in subscription.lines:
        standing.feed(line)
        if line.operation == record.RECEIVE and line.place is not None:
            holders.setdefault(line.place, {})[line.session, line.epoch] = line
        elif line.operation == record.NACK and line.place is not None:
            for place, holder in holders.items():
                if place[:2] == line.place[:2]:
                    holder.pop((line.session, line.epoch), None)
        elif line.operation == record.SETTLE and "attachments" in line.facts:
            present = {(session, epoch) for session, epoch in line.facts["attachments"]}
            for place, seen in _owed(subscription, standing, line).items():
                if present.isdisjoint(holders.get(place, {})):
                    what = f"{subscription.name}: {seen.value} at {place} is not acknowledged, and nobody there has it"
                    yield Finding(9, subscription.topic.name, what, (seen, line))


def _owed(subscription: Subscription, standing: CursorState, began: Line) -> dict[Place, Line]:
    """The positions that the drain must bring. A position that was first seen later counts if its send was acknowledged
    before."""
    topic = subscription.topic
    born = standing.born
    if born is None or standing.loose:
        return {}
    owed: dict[Place, Line] = {}
    for place, seen in topic.seen.items():
        value = seen.value
        if value is None or standing.is_acked(place) or subscription.owed(born, value, began.number) is None:
            continue
        if standing.passes(topic, value):
            continue
        acked = topic.sends[value].acked
        if seen.number < began.number or (acked is not None and acked.number < began.number):
            owed[place] = seen
    return owed


def _confirmed(story: HistoryIndex, subscription: Subscription) -> Iterator[Finding]:
    held: dict[Place, Line] = {}  # acknowledged with a receipt
    taken: dict[Place, tuple[int, int]] = {}  # on which attachment it was received last
    refused: set[object] = set()  # entries that were asked for again; all of an attachment, where that asks for all
    single = subscription.type == "Exclusive"
    moves = 0
    standing = CursorState()
    for line in subscription.lines:
        standing.feed(line)
        if standing.moves != moves or standing.loose:
            moves = standing.moves
            held.clear()
            taken.clear()  # what was taken before a seek may come again while it is acknowledged
        if line.place is None:
            continue
        attachment = (line.session, line.epoch)
        if line.operation == record.NACK:
            refused.add(line.place[:2] if not single else attachment)
        elif line.operation == record.ACK and line.phase == OK:
            if taken.get(line.place) == attachment and refused.isdisjoint((line.place[:2], attachment)):
                held.setdefault(line.place, line)
        elif line.operation == record.RECEIVE and line.place not in held:
            taken[line.place] = attachment
        elif line.operation == record.RECEIVE:
            acked = held[line.place]
            if not story.faults or story.faults[0] > line.number:
                what = f"{subscription.name}: {line.value} was acknowledged with a receipt and came again unprovoked"
                yield Finding(9, subscription.topic.name, what, (acked, line))
