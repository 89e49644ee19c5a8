"""Invariant 3: no duplicates where none are allowed.

With deduplication, a value with one producer name and one sequence id has one position, for any number of sends with
any answers. Without it, a message is stored at most once for each call of send, and once more for each reconnection of
its producer while it waits for the receipt. For scalable topics the latter is checked only in histories without faults.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulation.check.finding import Finding
from simulation.check.history_index import (
    Attempt,
    Send,
    Topic,
    index_history,
)
from simulation.history import History


def check(history: History) -> Iterator[Finding]:
    story = index_history(history)
    for topic in story.topics.values():
        for value, places in topic.copies.items():
            send = topic.sends.get(value)
            if send is None or len(places) == 1:
                continue  # invariant 2 reports messages that were never sent
            allowed = _allowed(topic, send, bool(story.faults))
            if allowed is not None and len(places) > allowed:
                shown = (send.first, *(topic.seen[place] for place in places))
                once = "once, with deduplication" if topic.deduplication else f"{allowed} times at most"
                what = f"{value} may be stored {once}, and is at {places}"
                yield Finding(3, topic.name, what, shown)
        if topic.deduplication:
            yield from _sequences(topic)


def _allowed(topic: Topic, send: Send, faults: bool) -> int | None:
    """How often it may be stored; None: unknown."""
    if topic.deduplication:
        return len({_identity(attempt) for attempt in send.attempts})
    if topic.scalable and faults:
        return None  # each segment has an attachment of its own, and a reshape may take a message along
    writes = 0
    for attempt in send.attempts:
        if attempt.refused:
            continue
        if attempt.ended is None:
            return None
        writes += 1 + attempt.ended.epoch - attempt.invoked.epoch
    return writes


def _identity(attempt: Attempt) -> tuple[object, ...]:
    """The identity that the broker uses. A producer without a name of its own gets a new one at each attachment."""
    facts = attempt.invoked.facts
    if facts.get("name") and facts.get("sequence") is not None:
        return facts["name"], facts["sequence"]
    return attempt.invoked.session, attempt.invoked.value


def _sequences(topic: Topic) -> Iterator[Finding]:
    """One value for a sequence id: two different ones were both stored only if the broker took a repeated id."""
    held: dict[tuple[object, ...], Send] = {}
    for value in topic.copies:
        send = topic.sends.get(value)
        if send is None or len({_identity(attempt) for attempt in send.attempts}) != 1:
            continue
        identity = _identity(send.attempts[0])
        other = held.setdefault(identity, send)
        if other is not send:
            what = f"{other.value} and {value} are both stored under {identity}"
            yield Finding(3, topic.name, what, (other.first, send.first))
