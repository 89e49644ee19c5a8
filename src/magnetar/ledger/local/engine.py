"""Ledgers of one machine: the contract of `ledger/store.py` on a shared journal and the metadata store.

One record in the metadata store has the state of a ledger (its epoch, its end if it is sealed), and changes by
compare-and-set; the journal has its entries. Fencing raises the epoch in the record and refuses the writer in this
process, which is the only possible one. Runs that are being written to the disk are answered and belong to the ledger;
runs still queued are refused and never written. The engine trusts the directory's lock to keep other processes out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from magnetar.base.errors import (
    BadVersion,
    Closed,
    Corrupt,
    Fenced,
    LimitExceeded,
    Misuse,
    NoSuchLedger,
    NotFound,
    StorageFailed,
)
from magnetar.base.limits import (
    JOURNAL_AHEAD_BYTES,
    JOURNAL_SEGMENT_BYTES,
    LEDGER_IDS_RESERVED,
    METADATA_UPDATE_TRIES_MAX,
    RUN_BYTES_MAX,
)
from magnetar.ledger.local.catalog import Catalog
from magnetar.ledger.local.compaction import JournalCompactor
from magnetar.ledger.local.index import LedgerIndex
from magnetar.ledger.local.journal import LANE, Failed, Journal, Pending
from magnetar.ledger.local.journal_files import JournalFiles
from magnetar.ledger.local.ledger_state import COUNTER_PATH, LEDGERS_PATH, LedgerState, path_of
from magnetar.ledger.local.reader import LocalReader
from magnetar.ledger.local.scan import Damage
from magnetar.ledger.run import Run
from magnetar.ledger.store import Done, LedgerInfo, Quorum
from magnetar.metadata.put_checked import put_checked
from magnetar.metadata.store import ABSENT, MetadataStore
from magnetar.observe.log import get
from magnetar.runtime.files import Lock
from magnetar.runtime.runtime import Owner, Runtime

log = get("ledger")

Ids = list[int]


class LocalWriter:
    __slots__ = (
        "_engine",
        "_journal",
        "_state",
        "ledger",
    )

    def __init__(self, engine: LocalLedgers, state: LedgerState) -> None:
        self.ledger = state.ledger
        self._journal = engine.journal
        self._engine = engine
        self._state = state

    def append(self, run: Run, done: Done) -> None:
        entries = len(run.counts)
        if entries == 0 or len(run.offsets) != entries + 1:
            raise Misuse("a run must have at least one entry, and one more offset than entries", entries=entries)
        if run.size > RUN_BYTES_MAX:
            raise LimitExceeded("a run is too large for the journal", bytes_max=RUN_BYTES_MAX)
        state = self._state
        first = state.next_entry
        state.next_entry = first + entries
        self._journal.push(Pending(state, run, first, done))

    @property
    def lac(self) -> int:
        return self._state.last

    @property
    def length(self) -> int:
        return self._state.index.bytes_total

    async def close(self) -> None:
        await self._engine.close_writer(self._state)


class LocalLedgers:
    """`damage` lists what of the journal could not be read at the start; `journal` and `space` carry the metrics."""

    def __init__(
        self,
        runtime: Runtime,
        metadata: MetadataStore,
        shelf: JournalFiles,
        lock: Lock,
        catalog: Catalog,
        *,
        states: dict[int, LedgerState],
        journal: Journal,
    ) -> None:
        self.journal = journal
        self.damage: list[Damage] = catalog.damage
        self.closed = False
        self._runtime = runtime
        self._metadata = metadata
        self._shelf = shelf
        self._lock = lock
        self._states = states
        self._owner = Owner("ledgers", self._task_failed)
        self.space = JournalCompactor(runtime, shelf, journal, states, self._owner)
        self._ids = range(0)
        self._reserving = asyncio.Lock()

    @classmethod
    async def start(
        cls,
        directory: str,
        runtime: Runtime,
        metadata: MetadataStore,
        *,
        segment_bytes: int = JOURNAL_SEGMENT_BYTES,
        holder: str = "a node",
        on_failure: Failed | None = None,
    ) -> LocalLedgers:
        """Lock the directory, read the journal back, and take runs. Conflict: another process holds the directory."""
        lock = await runtime.offload(partial(_lock, runtime, directory, holder), LANE)
        shelf = JournalFiles(
            runtime.files,
            f"{directory}/journal",
            segment_bytes=segment_bytes,
            ahead_bytes=JOURNAL_AHEAD_BYTES,
            wall=runtime.wall,
            monotonic=runtime.monotonic,
        )
        try:
            states = await _states(metadata)
            catalog = Catalog(states)
            sequences, highest = await runtime.offload(shelf.inventory, LANE)
            for sequence in sequences:
                load = partial(shelf.load, sequence, last=sequence == sequences[-1])
                catalog.add(await runtime.offload(load, LANE))
            catalog.finish()
        except BaseException:
            await runtime.offload(shelf.close, LANE)
            lock.release()
            raise
        journal = Journal(runtime, shelf, catalog.segments, sequence=highest, segment_bytes=segment_bytes)
        if on_failure is not None:
            journal.on_failure.append(on_failure)
        engine = cls(runtime, metadata, shelf, lock, catalog, states=states, journal=journal)
        for place in catalog.damage:
            runtime.mark("journal.damaged", segment=place.segment, offset=place.offset, bytes=place.size)
            log.error(
                "journal_damage_found",
                segment=place.segment,
                offset=place.offset,
                bytes=place.size,
                do=place.error().what,
            )
        for segment in list(catalog.segments.values()):
            engine.space.look(segment)
        return engine

    @property
    def entry_bytes_max(self) -> int:
        return RUN_BYTES_MAX

    @property
    def copies_max(self) -> int:
        return 1

    async def create(self, custom: dict[str, str], quorum: Quorum | None = None) -> LocalWriter:
        self._check()
        if self.journal.failed is not None:
            raise self.journal.failed
        state = LedgerState(await self._next_id(), dict(custom))
        value = state.opened(state.epoch)
        stat = await put_checked(self._metadata, path_of(state.ledger), value, expected=ABSENT)
        state.adopt(value, stat.version)
        self._states[state.ledger] = state
        return LocalWriter(self, state)

    async def open(self, ledger: int, *, recover: bool) -> LocalReader:
        self._check()
        state = self._state(ledger)
        if recover and not state.sealed:
            await self._recover(state)
        return LocalReader(self._runtime, self._shelf, self.journal.segments, state)

    async def delete(self, ledger: int) -> None:
        state = self._states.get(ledger)
        if state is None:
            return
        self._check()
        state.refuse(NoSuchLedger("the ledger was deleted", ledger=ledger))
        async with state.changing:
            await state.settled()
            try:
                await self._metadata.delete(path_of(ledger))
            except NotFound:
                pass
            if self._states.pop(ledger, None) is None:
                return
            state.deleted = True
            self.space.release(state)
            state.index = LedgerIndex()

    async def info(self, ledger: int) -> LedgerInfo:
        state = self._state(ledger)
        return LedgerInfo(ledger, state.sealed, state.last, dict(state.custom))

    async def list(self, custom: dict[str, str], *, after: int = -1, limit: int | None = None) -> Ids:
        properties = custom.items()
        ids = [ledger for ledger, state in self._states.items() if ledger > after]
        return sorted(ledger for ledger in ids if properties <= self._states[ledger].custom.items())[:limit]

    async def close(self) -> None:
        """Answers writes in flight, ends the segment, releases the directory. Open ledgers stay open."""
        if self.closed:
            return
        self.closed = True
        try:
            await self._owner.close()
            for state in self._states.values():
                state.refuse(Closed("the ledger store is closed", ledger=state.ledger))
            await self.journal.drained()
            if self.journal.failed is None:
                await self._runtime.offload(self._finish, LANE)
        finally:
            await self._runtime.offload(self._shelf.close, LANE)
            self._lock.release()

    async def close_writer(self, state: LedgerState) -> None:
        """Seals for the writer. Idempotent; Fenced if a newer owner has recovered the ledger."""
        epoch = state.epoch
        state.refuse(Closed("the writer is closed", ledger=state.ledger))
        async with state.changing:
            await state.settled()
            if state.deleted:
                raise NoSuchLedger("the ledger was deleted", ledger=state.ledger)
            if not isinstance(state.refusal, Closed) or state.epoch != epoch:
                raise Fenced("a newer owner recovered the ledger", ledger=state.ledger)
            if not state.sealed:
                await self._seal(state, epoch)

    async def _recover(self, state: LedgerState) -> None:
        if state.doubt is not None:
            raise state.doubt.error()
        state.refuse(Fenced("the ledger was recovered by a newer owner", ledger=state.ledger))
        async with state.changing:
            if not state.sealed and not state.deleted:
                await self._change(state, lambda: state.opened(state.epoch + 1))
                await state.settled()
            if state.deleted:
                raise NoSuchLedger("the ledger was deleted", ledger=state.ledger)
            if not state.sealed:
                await self._seal(state)

    async def _seal(self, state: LedgerState, epoch: int | None = None) -> None:
        if self.journal.failed is not None:
            raise self.journal.failed
        await self._change(state, state.closed, epoch)
        state.index.pack()

    async def _change(self, state: LedgerState, value_of: Callable[[], bytes], epoch: int | None = None) -> None:
        """One change of the record. A record that was sealed by another node stays: all nodes agree on it. With
        `epoch`, a record with another epoch is Fenced."""
        path = path_of(state.ledger)
        for _ in range(METADATA_UPDATE_TRIES_MAX):
            value = value_of()
            try:
                stat = await put_checked(self._metadata, path, value, expected=state.version)
            except BadVersion:
                node = await self._metadata.get(path)
                if node is None:
                    raise NoSuchLedger("the ledger was deleted", ledger=state.ledger) from None
                state.adopt(node.value, node.stat.version)
                if epoch is not None and state.epoch != epoch:
                    raise Fenced("a newer owner recovered the ledger", ledger=state.ledger) from None
                if state.sealed:
                    return
                continue
            state.adopt(value, stat.version)
            return
        raise Fenced("other nodes keep changing the record of the ledger: look the topic up again", ledger=state.ledger)

    async def _next_id(self) -> int:
        async with self._reserving:
            if not self._ids:
                self._ids = await self._reserve()
            ledger, self._ids = self._ids[0], self._ids[1:]
            return ledger

    async def _reserve(self) -> range:
        """A block of unused ids: the counter is raised first, so a crash skips ids and never repeats them."""
        for _ in range(METADATA_UPDATE_TRIES_MAX):
            node = await self._metadata.get(COUNTER_PATH)
            start = max(int(node.value) if node is not None else 0, max(self._states, default=-1) + 1)
            value = str(start + LEDGER_IDS_RESERVED).encode()
            expected = ABSENT if node is None else node.stat.version
            try:
                await self._metadata.put(COUNTER_PATH, value, expected=expected)
            except BadVersion:
                continue
            return range(start, start + LEDGER_IDS_RESERVED)
        raise Fenced("other nodes keep changing the ledger counter: try again")

    def _finish(self) -> None:
        """On the lane: end the segment being written, so that the next start need not read it."""
        current = self.journal.current
        if current is not None and current.records is not None:
            self._shelf.finish(current)
            self._shelf.write_sidecar(current, current.records)

    def _state(self, ledger: int) -> LedgerState:
        state = self._states.get(ledger)
        if state is None:
            raise NoSuchLedger("ledger not found", ledger=ledger)
        return state

    def _check(self) -> None:
        if self.closed:
            raise Closed("the ledger store is closed")

    def _task_failed(self, name: str, error: BaseException) -> None:
        self.journal.stop(StorageFailed(f"a task of {name} failed: {error!r}"))


async def _states(metadata: MetadataStore) -> dict[int, LedgerState]:
    states: dict[int, LedgerState] = {}
    async for name, node in metadata.scan(LEDGERS_PATH):
        if not name.isdecimal():
            raise Corrupt("expected the name of a ledger in the metadata store", path=f"{LEDGERS_PATH}/{name}")
        state = LedgerState(int(name), {})
        state.adopt(node.value, node.stat.version)
        states[state.ledger] = state
    return states


def _lock(runtime: Runtime, directory: str, holder: str) -> Lock:
    runtime.files.mkdir(directory)
    return runtime.files.lock(f"{directory}/lock", holder)
