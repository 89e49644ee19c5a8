"""Looks from time to time, during a term, for sealed segments that can be pruned, and has them pruned.

`machines/pruning.py` decides which. Only the ledger records of segments that are due are read, parents before their
children, so a look at a topic that has nothing to prune costs no request. Errors of the store end one look; the next
one comes. A topic without a leader is found by the sweep (`sweep.py`), which asks for one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Protocol

from magnetar.base.errors import Corrupt, MagnetarError, NotFound
from magnetar.base.ids import SegmentId
from magnetar.base.limits import PRUNE_S, PRUNED_AT_ONCE_MAX
from magnetar.base.names import TopicName
from magnetar.layout.layout import Child
from magnetar.ledger.retention import Rule
from magnetar.observe.log import get
from magnetar.scalable.machines import pruning
from magnetar.scalable.record.record import Record

log = get("controller")


class Contents(Protocol):
    """Access to facts about the messages of segments (`broker/segments/contents.py`)."""

    async def rule(self, topic: TopicName) -> Rule: ...

    async def empty(self, topic: TopicName, segments: Collection[Child]) -> frozenset[SegmentId]: ...


async def prunable(topic: TopicName, record: Record, contents: Contents) -> frozenset[SegmentId]:
    """Segments without a message that may go, in generations from the oldest on; at most one round of them."""
    layout = record.layout
    if not record.is_live or record.is_plain or len(layout) == len(layout.active):
        return frozenset()
    due = {one.id for one in pruning.due(layout, await contents.rule(topic))}
    legacy = {one.id for one in layout.segments if one.legacy_topic and not one.is_active}
    empty: set[SegmentId] = set()
    checked: set[SegmentId] = set()
    while len(empty) < PRUNED_AT_ONCE_MAX:
        passed = empty | set(record.going())
        next_ids = [
            one.id
            for one in layout.segments
            if one.id in due | legacy and one.id not in checked and all(parent in passed for parent in one.parents)
        ][:PRUNED_AT_ONCE_MAX]
        if not next_ids or not due - checked:
            break
        checked.update(next_ids)
        empty |= await contents.empty(topic, [layout.child(id) for id in next_ids])
    return frozenset(empty)


async def is_due(topic: TopicName, record: Record, contents: Contents) -> bool:
    """Whether a leader would find something to prune."""
    if record.going():
        return True
    try:
        return bool(pruning.chosen(record.layout, await prunable(topic, record, contents)))
    except (Corrupt, NotFound) as error:  # of its namespace or its policies: this stops no other topic
        log.warning("pruning_look_failed", topic=str(topic), error=str(error))
        return False


class Pruner:
    """`prune` carries a round out: its argument are the segments without a message."""

    def __init__(
        self,
        topic: TopicName,
        contents: Contents,
        *,
        record: Callable[[], Awaitable[Record | None]],
        prune: Callable[[frozenset[SegmentId]], Awaitable[None]],
    ) -> None:
        self._topic = topic
        self._contents = contents
        self._record = record
        self._prune = prune

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                await self._look()
            except MagnetarError as error:
                log.warning("pruning_look_failed", topic=str(self._topic), error=str(error))
            await asyncio.sleep(PRUNE_S)

    async def _look(self) -> None:
        """Rounds until nothing is left to prune."""
        before = -1
        while (record := await self._record()) is not None and record.epoch != before:
            empty = await prunable(self._topic, record, self._contents)
            if not record.going() and not pruning.chosen(record.layout, empty):
                return
            before = record.epoch
            await self._prune(empty)
