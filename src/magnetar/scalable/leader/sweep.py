"""A slow sweep over the scalable topics of this broker, for reshapes and deletions without a leader, for segments that
can be pruned and for expired tombstones.

One broker sweeps each topic while the brokers agree on its owner; brokers that do not agree compete for its lock, and
only one wins (H-B5). A tombstone is removed only in the version that was read: a topic that was created again in
between stays. If the store does not answer, this sweep ends and the next one still runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from magnetar.base.errors import BadVersion, MagnetarError, NotFound
from magnetar.base.limits import SWEEP_S, TOMBSTONE_S
from magnetar.base.names import TopicName
from magnetar.metadata.store import MetadataStore, Stat
from magnetar.observe.log import get
from magnetar.scalable.leader.topic_walk import TopicWalk
from magnetar.scalable.record.record import Lifecycle, Record

log = get("scalable")


Prunable = Callable[[TopicName, Record], Awaitable[bool]]


async def sweep(
    walk: TopicWalk, poke: Callable[[TopicName], None], wall: Callable[[], int], prunable: Prunable
) -> None:
    """Repeats the sweep until it is cancelled."""
    while True:
        try:
            for name in await sweep_once(walk, wall(), prunable):
                poke(name)
        except MagnetarError as error:
            log.warning("sweep_failed", error=str(error))
        await asyncio.sleep(SWEEP_S)


async def sweep_once(walk: TopicWalk, now_ms: int, prunable: Prunable) -> list[TopicName]:
    """Removes expired tombstones, and returns the topics with an unfinished operation or a segment to prune. No broker
    writes to a tombstone: its age is the time since its last change."""
    unfinished: list[TopicName] = []
    over: list[tuple[TopicName, Stat]] = []
    async for name, record, stat in walk.changed():
        if record.lifecycle is Lifecycle.GONE:
            left_ms = stat.mtime_ms + TOMBSTONE_S * 1000 - now_ms
            if left_ms < 0:
                over.append((name, stat))
            else:
                walk.rest(name, left_ms / 1000)
        elif record.intent is not None or record.lifecycle is Lifecycle.DELETING:
            unfinished.append(name)
        else:
            if await prunable(name, record):
                unfinished.append(name)
            walk.rest(name)
    for name, stat in over:
        await _remove(walk.store, name, stat)
    return unfinished


async def _remove(store: MetadataStore, name: TopicName, stat: Stat) -> None:
    try:
        await store.delete(stat.path, expected=stat.version)
        log.info("tombstone_removed", topic=str(name))
    except (BadVersion, NotFound):
        pass  # made again, or another broker was faster
