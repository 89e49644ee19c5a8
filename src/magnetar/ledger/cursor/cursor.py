"""A cursor: what one subscription has acknowledged, remembered across crashes.

Acknowledging is memory alone; `flush` writes a snapshot of the state as it is at that moment, and what is not
flushed yet is delivered again after a crash. So a cursor steps back and never skips. `drained` looks at flushed
acknowledgements only, because a crash forgets the others (H-F2). Which entries are acknowledged is decided in
`acks.py`; this file carries it to the disk. A cursor that is not durable lives in memory and vanishes with its
reader. It trusts its managed ledger to be the only owner of the topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from magnetar.base.errors import Corrupt, MagnetarError, NotFound, SubscriptionNotFound
from magnetar.base.ids import Position
from magnetar.base.limits import CURSOR_OFFLOAD_BYTES_MIN
from magnetar.ledger.chain import LedgerSpan
from magnetar.ledger.cursor.acks import Acks
from magnetar.ledger.cursor.flusher import CursorFlusher
from magnetar.ledger.managed import ManagedLedger
from magnetar.ledger.record import decode_record
from magnetar.ledger.snapshots import VERSION, SnapshotLog
from magnetar.ledger.state_account import StateAccount, StateCharge
from magnetar.metadata import paths
from magnetar.metadata.store import MetadataStore, Node
from magnetar.observe.log import get

log = get("cursor")

KIND = "cursor"
LANE = "cursors"  # of the thread that encodes large states

__all__ = ["Cursor", "CursorFlusher"]


class Cursor:
    """Made by `open`."""

    def __init__(self, managed: ManagedLedger, name: str, acks: Acks, snapshots: SnapshotLog | None) -> None:
        self.managed = managed
        self.name = name
        self.durable = snapshots is not None
        self.snapshot_bytes = 0  # size of the last flush
        self.touched: Callable[[Cursor], None] | None = None  # called once when there are changes to flush
        self._acks = acks
        self._snapshots = snapshots
        self._changes = 0
        self._written = 0
        self._told = False
        self._durable_mark = acks.mark
        self._callbacks: list[Callable[[Position], None]] = []
        self._flushing: asyncio.Task[None] | None = None
        self._account = managed.config.acks
        self._charge = StateCharge(self._account)
        self._charge.settle(acks.memory_bytes)
        self._restricted = False

    @classmethod
    async def open(
        cls,
        managed: ManagedLedger,
        name: str,
        *,
        durable: bool,
        initial: Position | None,
        properties: Mapping[str, str] | None = None,
        record: Node | None = None,
    ) -> Cursor:
        """The cursor of this name. A durable one that exists is loaded as it was; a new one starts with `initial` as
        its mark, or is SubscriptionNotFound without one. `record`: as `records` returned it, which saves a read.
        """

        def many(holes: int) -> None:
            log.warning("ack_hole_limit_exceeded", path=managed.path, cursor=name, holes=holes)

        chain = managed.chain
        start = None if initial is None else chain.at_or_before(initial)
        if not durable:
            return cls(managed, name, Acks(chain, managed.last if start is None else start, many), None)
        create = None
        if start is not None:
            created_ms = managed.runtime.wall()
            create = {"name": name, "mark": start, "properties": dict(properties or {}), "created_ms": created_ms}
        try:
            snapshots = await SnapshotLog.open(
                paths.cursor(managed.path, name),
                kind=KIND,
                ledgers=managed.ledgers,
                metadata=managed.metadata,
                token=f"{managed.runtime.rng('cursor').getrandbits(64):016x}",
                create=create,
                claim=managed.config.claim,
                record=record,
                quorum=lambda: managed.quorum,
            )
        except NotFound as error:
            raise SubscriptionNotFound("subscription not found", path=managed.path, cursor=name) from error
        if snapshots.last is None:
            acks = Acks(chain, _mark(snapshots.fields), many)
            acks.settle()
        else:
            acks = Acks.decode(snapshots.last, chain, many)
            managed.runtime.mark("cursor.recovered", path=managed.path, cursor=name, mark=acks.mark, holes=acks.holes)
        return cls(managed, name, acks, snapshots)

    @staticmethod
    async def names(managed: ManagedLedger) -> list[str]:
        """The durable cursors of a topic."""
        return [name for name, _ in await Cursor.records(managed)]

    @staticmethod
    async def records(managed: ManagedLedger) -> list[tuple[str, Node]]:
        """The durable cursors of a topic: the name and the metadata record of each."""
        return [
            (paths.cursor_name(part), node)
            async for part, node in managed.metadata.scan(managed.path)
            if decode_record(f"{managed.path}/{part}", node.value, VERSION).get("kind") == KIND
        ]

    # What is acknowledged

    @property
    def mark(self) -> Position:
        """Everything at or before is acknowledged (mark-delete)."""
        return self._acks.mark

    @property
    def properties(self) -> Mapping[str, str]:
        return {} if self._snapshots is None else self._snapshots.fields.get("properties", {})

    @property
    def created_ms(self) -> int:
        return 0 if self._snapshots is None else int(self._snapshots.fields.get("created_ms", 0))

    @property
    def contiguous(self) -> bool:
        """Nothing after the mark is acknowledged, even in part, and nothing was delivered again."""
        return self._acks.contiguous

    def untouched(self, position: Position) -> bool:
        """No entry from this one on is acknowledged or was delivered again: callers need not check each of them."""
        return position > self._acks.mark and self._acks.contiguous

    @property
    def backlog(self) -> int:
        """Entries that are not acknowledged as a whole."""
        return self._acks.backlog

    @property
    def holes(self) -> int:
        return self._acks.holes

    @property
    def refused(self) -> int:
        """Acknowledgements that were not kept because there are too many gaps; grows."""
        return self._acks.refused

    @property
    def changes(self) -> int:
        """Grows with every change of the acknowledgements."""
        return self._changes

    def acked_after_mark(self, count: int) -> tuple[Sequence[tuple[int, int, int]], Sequence[tuple[Position, int]]]:
        """The first intervals of acknowledged entries after the mark (ledger, first, last), and the first entries that
        are acknowledged in part with the number of their messages that are not; `count` of each at most."""
        return self._acks.intervals(count), self._acks.batches(count)

    @property
    def dirty(self) -> bool:
        return self._changes > self._written

    def is_acked(self, position: Position) -> bool:
        return self._acks.is_acked(position)

    def next_unacked(self, position: Position) -> Position:
        return self._acks.next_unacked(position)

    def bits(self, position: Position, messages: int = 0) -> list[int] | None:
        """The messages of a batch still open, as signed words of an `ack_set`; None when all of them are. `messages`:
        the number in the batch, if known."""
        return self._acks.unacked_bits(position, messages)

    def words(self, position: Position) -> int:
        """The number of words that `bits` returns without `messages`."""
        return self._acks.words(position)

    def open_messages(self, position: Position) -> int | None:
        """How many messages of a batch are still open; None when all of them are."""
        return self._acks.open_messages(position)

    def redelivery(self, position: Position) -> int:
        return self._acks.redelivery(position)

    # Changing it

    def ack(self, positions: Iterable[Position]) -> int:
        """Whole entries; returns how many were not acknowledged before."""
        self._fit()
        ack = self._acks.ack
        new = 0
        for position in positions:
            if ack(position):
                new += 1
        if new:
            self._changed()
        return new

    def ack_bits(self, position: Position, words: Sequence[int], batch_size: int = 0) -> bool:
        """Messages inside an entry; returns whether the entry is complete now."""
        self._fit()
        if self._acks.ack_bits(position, words, batch_size):
            self._changed()
        return self._acks.is_acked(position)

    def ack_to(self, position: Position) -> bool:
        """Everything at or before (cumulative); returns whether the mark moved."""
        changed = self._acks.ack_to(position)
        if changed:
            self._changed()
        return changed

    def ack_to_bits(self, position: Position, words: Sequence[int], batch_size: int = 0) -> bool:
        """Everything before, and messages inside; returns whether the entry is complete now."""
        self._fit()
        if self._acks.ack_to_bits(position, words, batch_size):
            self._changed()
        return self._acks.is_acked(position)

    def redelivered(self, positions: Iterable[Position]) -> None:
        """These go out once more: their counts grow by one."""
        self._fit()
        if self._acks.redelivered(positions):
            self._changed()

    def reset(self, mark: Position) -> None:
        """Everything at or before `mark` is acknowledged and nothing after it: a seek to the entry after it."""
        self._acks.reset(mark)
        self._changed()

    # Remembering it

    async def flush(self) -> Position:
        """Waits until everything acknowledged before this call is durable; returns the durable mark. The flush
        continues if the caller gives up.
        """
        if self._snapshots is None:
            return self.mark
        target = self._changes
        while self._written < target:
            if self._flushing is None:
                self._flushing = self.managed.start(self._write(self._snapshots))
            await self.managed.wait(self._flushing)
        return self._durable_mark

    def on_durable(self, callback: Callable[[Position], None]) -> None:
        """Called with the durable mark after every flush."""
        self._callbacks.append(callback)

    def drained(self, end: Position) -> bool:
        """True if everything up to and including `end` is acknowledged durably, so that no crash can undo it."""
        mark = self._durable_mark if self.durable else self.mark
        return end <= mark or (end <= self.managed.last and self.managed.entries_between(mark, end) == 0)

    async def set_properties(self, properties: Mapping[str, str]) -> None:
        """These and no others."""
        if self._snapshots is not None:
            await self.managed.finish(self._snapshots.amend({"properties": dict(properties)}))

    async def close(self) -> None:
        """Flushes and releases the cursor. A state that is a mark alone goes into the record, and its ledger is
        deleted. Acknowledgements that cannot be written are lost and their messages delivered again: closing does not
        fail.
        """
        self.release()
        if self._snapshots is None:
            return
        try:
            if self._acks.plain and self._flushing is None:
                await self.managed.finish(self._fold(self._snapshots))
            else:
                await self.flush()
        except MagnetarError as error:
            log.warning("cursor_flush_failed", path=self.managed.path, cursor=self.name, error=str(error))
        await self._snapshots.close()

    def abandon(self) -> None:
        """Releases the cursor without a write: another broker owns the topic."""
        self.release()
        if self._snapshots is not None:
            self._snapshots.abandon()

    def release(self) -> None:
        """It is charged to the account of all subscriptions no more."""
        self._charge.settle(0)
        self._charge = StateCharge(StateAccount())

    async def delete(self) -> None:
        """Deletes the record and its ledger. A repeated call succeeds."""
        self.release()
        if self._snapshots is not None:
            await self.managed.finish(self._snapshots.delete())

    # Inside

    async def _write(self, snapshots: SnapshotLog) -> None:
        try:
            written, mark, encode = self._changes, self._acks.mark, self._acks.frozen()
            self._told = False  # a change from here on is not in this snapshot
            if self._acks.memory_bytes < CURSOR_OFFLOAD_BYTES_MIN:
                await snapshots.append(data := encode(), {"mark": mark})
            else:
                runtime = self.managed.runtime
                data = await runtime.offload(encode, LANE)
                await snapshots.append(data, {"mark": mark}, partial(runtime.offload, lane=LANE))
        finally:
            self._flushing = None
        self.snapshot_bytes = len(data)
        self._became_durable(written, mark)

    async def _fold(self, snapshots: SnapshotLog) -> None:
        written, mark = self._changes, self._acks.mark
        if self.dirty or snapshots.pointed:
            await snapshots.fold({"mark": mark})
            self._became_durable(written, mark)

    def _became_durable(self, written: int, mark: Position) -> None:
        self._written = written
        self._durable_mark = mark
        for callback in self._callbacks:
            callback(mark)

    def _fit(self) -> None:
        """Before a change: whether all subscriptions together have too much by now."""
        full = self._account.bytes >= self._account.bytes_max
        if full is not self._restricted:
            self._restricted = full
            self._acks.restrict(full)

    def _changed(self) -> None:
        self._changes += 1
        self._charge.settle(self._acks.memory_bytes)
        if not self._told and self.touched is not None:
            self._told = True
            self.touched(self)


async def marks_of(metadata: MetadataStore, path: str) -> AsyncIterator[tuple[str, Position]]:
    """Of a topic that is not open: the name and the mark of each durable cursor, as its record has them. The cursor
    itself may be further."""
    async for part, node in metadata.scan(path):
        fields = decode_record(f"{path}/{part}", node.value, VERSION)
        if fields.get("kind") == KIND:
            yield paths.cursor_name(part), _mark(fields)


def may_lag(links: Sequence[LedgerSpan], marks: Iterable[Position]) -> bool:
    """Whether a cursor with one of these marks may be behind the end of a topic with these ledgers. The end of a ledger
    that was not closed is not known."""
    last = links[-1]
    return any(not last.closed_ms or mark < Position(last.ledger, last.entries - 1) for mark in marks)


def _mark(fields: Mapping[str, Any]) -> Position:
    try:
        ledger, entry = fields["mark"]
        return Position(int(ledger), int(entry))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise Corrupt("the record of a cursor has no mark-delete position") from error
