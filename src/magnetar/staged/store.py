"""The records of sinks: read, decided on, compared and set; one at a time, the truth for every broker.

A read is as fresh as the store can make it: a stage that was begun at one broker is sealed at another. Refuses nothing
by itself: what a change means is decided by the step that is handed in, which may be called several times.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import msgspec

from magnetar.base.errors import BadVersion, Corrupt, NotFound, NotReady, StageNotFound
from magnetar.base.limits import SINK_TRIES_MAX
from magnetar.metadata import paths
from magnetar.metadata.filtered_scan import filtered_scan
from magnetar.metadata.put_checked import put_checked
from magnetar.metadata.store import ABSENT, MetadataStore
from magnetar.observe.log import get
from magnetar.runtime.runtime import Runtime
from magnetar.staged import codec
from magnetar.staged.codec import StageId
from magnetar.staged.machine import Sink

log = get("staged")

T = TypeVar("T")


class SinkStore:
    """Keys are digests (`codec.digest`)."""

    def __init__(self, store: MetadataStore, runtime: Runtime) -> None:
        self.store = store
        self._runtime = runtime

    async def read(self, key: str) -> tuple[Sink | None, int]:
        node = await self.store.fresh(paths.sink(key))
        return (None, ABSENT) if node is None else (codec.decode(node.value), node.stat.version)

    async def of(self, id: StageId) -> Sink:
        """The sink of a stage. StageNotFound: it is gone, or it is not the one that issued the stage."""
        sink, _ = await self.read(id.sink)
        if sink is None or sink.life != id.life:
            raise StageNotFound(f"stage {id} belongs to a sink that was deleted")
        return sink

    async def all(self) -> AsyncIterator[tuple[str, Sink]]:
        async for key, node in self.store.scan(paths.SINKS):
            try:
                yield key, codec.decode(node.value)
            except Corrupt as error:
                log.warning("sink_decode_failed", path=paths.sink(key), error=str(error))

    async def some(self, keep: Callable[[str], Awaitable[bool]]) -> AsyncIterator[tuple[str, Sink]]:
        """Sinks with a path that `keep` accepts. No other record is read."""
        async for path, node in filtered_scan(self.store, paths.SINKS, keep):
            try:
                yield path.rpartition("/")[2], codec.decode(node.value)
            except Corrupt as error:
                log.warning("sink_decode_failed", path=path, error=str(error))

    async def delete(self, key: str, version: int) -> bool:
        """False: it has changed since it was read, or is gone."""
        try:
            await self.store.delete(paths.sink(key), expected=version)
        except (BadVersion, NotFound):
            return False
        return True

    async def issued(self, id: StageId, step: Callable[[Sink], Sink]) -> Sink:
        """A change for a stage. StageNotFound: its sink is gone, or not the one that issued it."""

        def checked(sink: Sink) -> Sink:
            if sink.life != id.life:
                raise StageNotFound(f"stage {id} belongs to a sink that was deleted")
            return step(sink)

        return await self.update(id.sink, checked)

    async def update(self, key: str, step: Callable[[Sink], Sink]) -> Sink:
        def known(sink: Sink | None) -> tuple[Sink, None]:
            if sink is None:
                raise StageNotFound("the sink was deleted")
            return step(sink), None

        return (await self.change(key, known))[0]

    async def change(self, key: str, step: Callable[[Sink | None], tuple[Sink, T]]) -> tuple[Sink, T]:
        """Read, decide, compare and set. Unknown: it may be written; steps are such that asking again finds it."""
        for _ in range(SINK_TRIES_MAX):
            before, version = await self.read(key)
            after, outcome = step(before)
            if after == before:
                return after, outcome
            # Two brokers may decide the same from the same: each must know its own write (`put_checked`).
            after = msgspec.structs.replace(after, token=f"{self._runtime.rng('sinks').getrandbits(48):012x}")
            try:
                await put_checked(self.store, paths.sink(key), codec.encode(after), expected=version)
                return after, outcome
            except BadVersion:
                continue  # another writer was faster
        raise NotReady("other clients keep changing the record of the sink: try again", sink=key)
