"""Free space of the data directory: below a floor the broker refuses new messages and continues to read and trim.

A broker with a full disk has to stop, and a stopped broker cannot be drained. So publishing ends while enough space is
left for the operations that free space: acknowledgements, records and the copies of compaction. Producers are closed
and refused until space is free again, and clients retry automatically. Topics are unloaded once, which closes the open
ledgers, because only closed ledgers can be trimmed.

A file named `reserve`, created when the disk begins to fill, reserves a little space. If another program fills the disk
nevertheless, the next start removes it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import MagnetarError, StorageFull
from magnetar.base.limits import (
    DISK_FLOOR_SHARE,
    DISK_LOOK_NEAR_S,
    DISK_LOOK_S,
    DISK_LOOK_SHARE,
    DISK_RESERVE_SHARE,
    DISK_WARN_FLOORS,
    DISK_WARN_PERCENT,
    UNLOADS_AT_ONCE_MAX,
)
from magnetar.observe.log import get
from magnetar.observe.metrics import Sample
from magnetar.runtime.files import Files
from magnetar.topic.topic import Topic

if TYPE_CHECKING:
    from magnetar.broker.topics.topics import Topics
    from magnetar.observe.metrics import Metrics
    from magnetar.policy.settings import Settings
    from magnetar.runtime.runtime import Owner, Runtime

log = get("disk_space")

RESERVE = "reserve"
MIB = 1024 * 1024
PRODUCER_BLOCKED = 7  # on the wire: a client that had a producer tries again, one that asks for its first is refused


class DiskSpaceNode(Protocol):
    """What DiskSpace uses of the node."""

    runtime: Runtime
    settings: Settings
    registry: Metrics
    owner: Owner
    topics: Topics
    blocked: MagnetarError | None


def floor_bytes(asked_mib: int, capacity: int) -> int:
    """The space that must stay free: the configured value, at most a tenth of a small file system."""
    return min(asked_mib * MIB, capacity // DISK_FLOOR_SHARE)


def is_low(was_low: bool, free: int, floor: int) -> bool:
    """Whether publishing is refused. The state ends a quarter above the floor, so that it does not start again
    immediately."""
    return free < (floor * 5 // 4 if was_low else floor)


def release_reserve(files: Files, data: str) -> None:
    """Removes the reserve before the start if the disk has less free space than the reserve. Blocks."""
    path = os.path.join(data, RESERVE)
    if not files.exists(path):
        return
    file = files.open(path)
    size = file.size()
    file.close()
    if files.free(data) < size:
        files.remove(path)
        files.sync_dir(data)


class DiskSpace:
    """Call `begin` before clients are accepted."""

    def __init__(self, node: DiskSpaceNode, data: str) -> None:
        self._node = node
        self._data = data
        self._asked_mib = node.settings.number("diskFreeFloorMbytes")
        self._low = False
        self._warned = False
        self._free = -1
        self._capacity = 0
        self._unmeasured = 0  # bytes written since the last measurement
        self._due = asyncio.Event()

    def journal_written(self, size: int) -> None:
        """Measures early after a part of the floor was written: a fast disk fills faster than the timer fires."""
        self._unmeasured += size
        if self._unmeasured * DISK_LOOK_SHARE >= self.floor > 0:
            self._due.set()

    async def begin(self) -> None:
        await self._look()
        self._node.registry.provide(self.samples)
        self._node.runtime.spawn(self._node.owner, self._watch())

    @property
    def floor(self) -> int:
        return floor_bytes(self._asked_mib, self._capacity)

    def samples(self) -> Iterator[Sample]:
        if self._free >= 0:
            yield "magnetar_data_free_bytes", (), self._free
            yield "magnetar_data_floor_bytes", (), self.floor
            yield "magnetar_data_writable", (), int(not self._low)

    async def _watch(self) -> None:
        while True:
            near = 0 <= self._free < 4 * self.floor
            with suppress(TimeoutError):
                await asyncio.wait_for(self._due.wait(), DISK_LOOK_NEAR_S if near else DISK_LOOK_S)
            self._due.clear()
            await self._look()

    async def _look(self) -> None:
        runtime = self._node.runtime
        self._unmeasured = 0
        try:
            self._free, self._capacity = await runtime.offload(self._measured, "journal")
        except MagnetarError as error:
            log.once("disk_not_measured", error=str(error))
            return
        was_low, self._low = self._low, is_low(self._low, self._free, self.floor)
        if self._low:
            if not was_low:
                self._refuse()
            # A producer that was being made when this began may attach after it.
            await self._unload([one for one in self._topics() if len(one.producers) or not was_low])
        elif was_low:
            self._node.blocked = None
            log.warning(
                "disk_space_recovered",
                free_bytes=self._free,
                floor_bytes=self.floor,
                do="nothing; producers can send again",
            )
        self._warn()

    def _measured(self) -> tuple[int, int]:
        """Runs in the thread of the journal, so that few batches are written before the result. Creates the reserve
        when the disk begins to fill, because it is not needed earlier."""
        files = self._node.runtime.files
        free, capacity = files.free(self._data), files.capacity(self._data)
        floor = floor_bytes(self._asked_mib, capacity)
        path = os.path.join(self._data, RESERVE)
        if 2 * floor < free < DISK_WARN_FLOORS * floor and not files.exists(path):
            file = files.open(path, create=True)
            try:
                file.allocate(floor // DISK_RESERVE_SHARE, written=False)
                file.datasync()
            finally:
                file.close()
        return free, capacity

    def _refuse(self) -> None:
        text = (
            f"the disk of the broker is almost full: {self._free // MIB} MiB are free, {self.floor // MIB} MiB must "
            "stay free (diskFreeFloorMbytes). Consume messages, shorten retention or delete topics, then send again"
        )
        self._node.blocked = StorageFull(text, wire_code=PRODUCER_BLOCKED)
        log.error(
            "disk_floor_reached",
            free_bytes=self._free,
            floor_bytes=self.floor,
            why="publishing is refused until space is free; reading, acknowledging and trimming continue",
            do="consume messages, shorten retention (magnetar topic set), delete topics, or enlarge the disk",
        )

    def _topics(self) -> list[Topic]:
        """Topics that have messages or may get some."""
        loaded = self._node.topics.loaded.values()
        return [one for one in loaded if isinstance(one, Topic) and (len(one.producers) or one.managed.bytes)]

    async def _unload(self, topics: list[Topic]) -> None:
        for first in range(0, len(topics), UNLOADS_AT_ONCE_MAX):
            part = topics[first : first + UNLOADS_AT_ONCE_MAX]
            unloads = (self._node.topics.unload(one.name) for one in part)
            for outcome in await asyncio.gather(*unloads, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    log.warning("topic_unload_failed", error=str(outcome))

    def _warn(self) -> None:
        """Warns once until space is free again. On a large disk a fifth is enough for a long time."""
        used = 100 - self._free * 100 // max(1, self._capacity)
        if used < DISK_WARN_PERCENT or self._free > DISK_WARN_FLOORS * self.floor:
            self._warned = False
        elif not self._warned:
            self._warned = True
            log.warning("disk_floor_approached", used_percent=used, free_bytes=self._free, floor_bytes=self.floor)
