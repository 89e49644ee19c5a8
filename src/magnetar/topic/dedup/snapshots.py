"""The deduplication map made durable: a snapshot now and then, and the entries behind it read again after a restart.

Ledgers that hold entries behind the newest snapshot are not trimmed, so nothing that must be read again is ever gone. A
snapshot is taken after a number of entries or some seconds, whichever comes first, and when the topic closes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import Corrupt
from magnetar.base.ids import Position
from magnetar.base.limits import BACKLOG_READ_BYTES_MAX, BACKLOG_READ_ENTRIES_MAX, TOPIC_NAME_CHARS_MAX
from magnetar.base.ranges import FULL
from magnetar.ledger.run import Run
from magnetar.ledger.snapshots import SnapshotLog
from magnetar.ledger.state_account import StateAccount, StateCharge
from magnetar.metadata import paths
from magnetar.observe.log import get
from magnetar.topic.dedup.dedup import Dedup
from magnetar.topic.producers.producer import base_name
from magnetar.wire import entry

if TYPE_CHECKING:
    from magnetar.topic.topic import Topic

log = get("dedup")

NAME = "pulsar.dedup"  # Pulsar's own name for its deduplication cursor: no subscription can take it
KIND = "dedup"


class DedupSnapshots:
    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._snapshots: SnapshotLog | None = None
        segment = topic.name.segment
        self._dedup = Dedup(FULL if segment is None else segment.range)
        self._behind = 0  # entries since the newest snapshot
        self._taken_at = topic.runtime.monotonic()
        self._charge = StateCharge(topic.managed.config.loaded)
        self.position: Position = topic.managed.before(topic.managed.first)  # everything up to here is in the snapshot

    async def load(self) -> Dedup:
        """The newest snapshot, and the sequence ids stored after it."""
        topic = self._topic
        managed = topic.managed
        self._snapshots = await SnapshotLog.open(
            paths.cursor(managed.path, NAME),
            kind=KIND,
            ledgers=managed.ledgers,
            metadata=topic.metadata,
            token=f"{topic.runtime.rng('dedup').getrandbits(64):016x}",
            create={},
            claim=managed.config.claim,
            quorum=lambda: managed.quorum,
        )
        if self._snapshots.last is not None:
            self.position = self._dedup.load(self._snapshots.last, managed.clock.now_ms())
        elif self._snapshots.damaged:
            log.warning(
                "dedup_snapshot_read_failed", topic=str(topic.name), do="dedup state is rebuilt from the first entry"
            )
        await self._replay()
        self.settle()
        return self._dedup

    @property
    def full(self) -> bool:
        """The objects of all loaded topics take too much memory, and these too: no further producer is remembered."""
        return self._charge.full

    def _release(self) -> None:
        self._charge.settle(0)
        self._charge = StateCharge(StateAccount())  # producers may still leave

    def settle(self) -> None:
        """The map has grown or shrunk."""
        self._charge.settle(self._dedup.bytes)

    async def _replay(self) -> None:
        """Entries that are in flight while this runs are not lost: they are confirmed to the map by their own
        publication.
        """
        managed = self._topic.managed
        position = managed.next_valid(managed.after(self.position))
        while position <= managed.last:
            run = await managed.read(position, BACKLOG_READ_BYTES_MAX, BACKLOG_READ_ENTRIES_MAX)
            if run is None:
                return
            self._topic.runtime.mark("dedup.replayed", topic=str(self._topic.name), entries=len(run))
            self._learn(run)
            position = managed.next_valid(Position(run.ledger, run.last + 1))

    def _learn(self, run: Run) -> None:
        for index in range(len(run)):
            start, end = run.offsets[index], run.offsets[index + 1]
            try:
                chunk = entry.chunk(run.body, start, end)
                if chunk is not None and chunk[1] < chunk[2] - 1:
                    continue
                producer, _, highest = entry.producer_and_sequence(run.body, start, end)
                slot_of = self._topic.slot_of
                slot = None if slot_of is None else slot_of(run.body, start, end)
            except Corrupt:
                continue  # unreadable for everybody: it cannot be a duplicate of anything
            if len(producer) > TOPIC_NAME_CHARS_MAX:
                continue  # no producer has such a name: its client wrote it into the metadata alone
            self._dedup.replay(base_name(self._topic.name, producer), highest, key_hash=slot)
        self._behind += len(run)

    async def seed(self, parents: Dedup) -> None:
        """Starts with the sequence ids of the parent topics; only before the first publish to this topic."""
        self._dedup.load(parents.snapshot(self._topic.managed.last), self._topic.managed.clock.now_ms())
        await self._take()

    def appended(self, entries: int) -> None:
        self._behind += entries

    async def maintain(self) -> None:
        """Called every few seconds: a snapshot if enough has happened, and producers gone for long are forgotten."""
        topic = self._topic
        now = topic.runtime.monotonic()
        due = now - self._taken_at >= topic.settings.dedup_snapshot_s
        if self._behind >= topic.settings.dedup_snapshot_entries or (due and self._behind):
            await self._take()
        clock = topic.managed.clock
        self.settle()
        if clock.trusted:  # a wrong clock must not make a producer's messages new again (H-H6)
            self._dedup.forget(clock.now_ms() - topic.settings.dedup_inactivity_ms)

    async def _take(self) -> None:
        assert self._snapshots is not None
        # The map holds confirmed entries only, and so does `last`: both are read in one iteration of the loop.
        position = self._topic.managed.last
        data = self._dedup.snapshot(position)
        behind, self._behind = self._behind, 0
        self._taken_at = self._topic.runtime.monotonic()
        try:
            await self._topic.managed.finish(self._snapshots.append(data))
        except BaseException:
            self._behind += behind
            raise
        self.position = position
        self._topic.trim_wanted = True

    async def close(self) -> None:
        assert self._snapshots is not None
        self._release()
        if self._behind:
            await self._take()
        await self._snapshots.close()

    def abandon(self) -> None:
        """Another broker owns the topic: write nothing more."""
        assert self._snapshots is not None
        self._release()
        self._snapshots.abandon()

    async def delete(self) -> None:
        """Deduplication was switched off: the stored ids would be outdated when it is switched on again."""
        assert self._snapshots is not None
        self._release()
        await self._topic.managed.finish(self._snapshots.delete())
