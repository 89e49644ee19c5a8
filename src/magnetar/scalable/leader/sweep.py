"""A slow sweep over all scalable topics, for reshapes and deletions without a leader and for expired tombstones.

Every broker sweeps; the brokers that find such a topic compete for its lock, and only one wins (H-B5). A tombstone is
removed only in the version that was read: a topic that was created again in between stays. If the store does not
answer, this sweep ends and the next one still runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from magnetar.base.errors import BadVersion, Corrupt, MagnetarError, NotFound
from magnetar.base.limits import SWEEP_S, TOMBSTONE_S
from magnetar.base.names import TopicName
from magnetar.metadata import paths
from magnetar.metadata.store import MetadataStore, Stat
from magnetar.observe.log import get
from magnetar.scalable.record import codec
from magnetar.scalable.record.record import Lifecycle, Record

log = get("scalable")


async def sweep(store: MetadataStore, poke: Callable[[TopicName], None], wall: Callable[[], int]) -> None:
    """Repeats the sweep until it is cancelled."""
    while True:
        try:
            async for name in unfinished(store):
                poke(name)
            await reap(store, wall())
        except MagnetarError as error:
            log.warning("sweep_failed", error=str(error))
        await asyncio.sleep(SWEEP_S)


async def unfinished(store: MetadataStore) -> AsyncIterator[TopicName]:
    async for name, record, _ in topics(store):
        if record.intent is not None or record.lifecycle is Lifecycle.DELETING:
            yield name


async def reap(store: MetadataStore, now_ms: int) -> None:
    """Removes expired tombstones. No broker writes to a tombstone: its age is the time since its last change."""
    over = [
        (name, stat)
        async for name, found, stat in topics(store)
        if found.lifecycle is Lifecycle.GONE and now_ms - stat.mtime_ms > TOMBSTONE_S * 1000
    ]
    for name, stat in over:
        try:
            await store.delete(stat.path, expected=stat.version)
            log.info("tombstone_removed", topic=str(name))
        except (BadVersion, NotFound):
            pass  # made again, or another broker was faster


async def topics(store: MetadataStore) -> AsyncIterator[tuple[TopicName, Record, Stat]]:
    """All of them, tombstones too."""
    for tenant in await store.children(paths.SCALABLE_TOPICS):
        for namespace in await store.children(f"{paths.SCALABLE_TOPICS}/{tenant}"):
            parent = f"{paths.SCALABLE_TOPICS}/{tenant}/{namespace}"
            async for part, node in store.scan(parent):
                try:
                    record = codec.decode(node.value)
                except Corrupt as error:
                    log.warning("record_decode_failed", path=f"{parent}/{part}", error=str(error))
                    continue
                name = paths.scalable_of(f"{parent}/{part}")
                if name is not None:
                    yield name, record, node.stat
