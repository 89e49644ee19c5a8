"""Somebody must look: a slow walk over all scalable topics for a reshape or a deletion that nobody leads.

Every broker walks; whoever is poked competes for the lock, and only one wins (1.2, point 11; H-B5). A store that does
not answer ends one walk, not the walking.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from magnetar.base.errors import Corrupt, MagnetarError
from magnetar.base.limits import SWEEP_S
from magnetar.base.names import TopicName
from magnetar.metadata import paths
from magnetar.metadata.store import MetadataStore
from magnetar.observe.log import get
from magnetar.scalable import recordform
from magnetar.scalable.record import Lifecycle

log = get("scalable")


async def sweep(store: MetadataStore, poke: Callable[[TopicName], None]) -> None:
    """For ever."""
    while True:
        try:
            async for name in unfinished(store):
                poke(name)
        except MagnetarError as error:
            log.warning("sweep failed", error=str(error))
        await asyncio.sleep(SWEEP_S)


async def unfinished(store: MetadataStore) -> AsyncIterator[TopicName]:
    for tenant in await store.children(paths.SCALABLE_TOPICS):
        for namespace in await store.children(f"{paths.SCALABLE_TOPICS}/{tenant}"):
            parent = f"{paths.SCALABLE_TOPICS}/{tenant}/{namespace}"
            async for part, node in store.scan(parent):
                try:
                    found = recordform.decode(node.value)
                except Corrupt as error:
                    log.warning("record not understood", path=f"{parent}/{part}", error=str(error))
                    continue
                name = paths.scalable_of(f"{parent}/{part}")
                if name is not None and (found.intent is not None or found.lifecycle is Lifecycle.DELETING):
                    yield name
