"""Space comes back: freed segments are reused or returned, sparse ones are copied away, and readers never notice."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import MagnetarError
from magnetar.base.limits import INDEX_PLAIN_ITEMS_MAX, JOURNAL_SPARES_MAX
from magnetar.ledger.local.engine import LocalLedgers
from magnetar.ledger.run import run_of
from simulation.environment.disk import SimulatedFiles
from simulation.environment.inline_runtime import InlineRuntime
from simulation.stores.metadata import MemoryStore
from tests.contract.ledgers import append, entries, entry, read_all

pytestmark = pytest.mark.real_clock

SEGMENT_BYTES = 8192


async def start(files: SimulatedFiles, metadata: MemoryStore | None = None) -> LocalLedgers:
    runtime = InlineRuntime(files)
    return await LocalLedgers.start("/data", runtime, metadata or MemoryStore(runtime), segment_bytes=SEGMENT_BYTES)


def used(files: SimulatedFiles) -> int:
    return sum(len(files.content(f"/data/journal/{name}")) for name in files.list("/data/journal"))


def counted(engine: LocalLedgers) -> dict[int, int]:
    return {sequence: segment.live for sequence, segment in engine.journal.segments.items() if segment.live}


async def settle(engine: LocalLedgers) -> None:
    for _ in range(20):
        await engine.space.settled()
        await asyncio.sleep(0)


async def test_deleting_everything_returns_space_but_for_spares() -> None:
    files = SimulatedFiles()
    engine = await start(files)
    writers = [await engine.create({}) for _ in range(5)]
    for step in range(60):
        for writer in writers:
            await append(writer, entries(writer.ledger, step * 3, 3))
    full = used(files)
    assert full > 10 * SEGMENT_BYTES
    for writer in writers:
        await engine.delete(writer.ledger)
    await settle(engine)
    assert used(files) <= (JOURNAL_SPARES_MAX + 1) * (SEGMENT_BYTES + 1000)
    assert len(engine.journal.segments) == 1
    assert [name for name in files.list("/data/journal") if name.endswith(".idx")] == []


async def test_small_ledger_does_not_hold_space_of_large_ones() -> None:
    files = SimulatedFiles()
    engine = await start(files)
    small, large = await engine.create({}), await engine.create({})
    reader = await engine.open(small.ledger, recover=False)
    for step in range(40):
        await append(small, run_of([entry(small.ledger, step)]))
        await append(large, run_of([bytes(1500)]))
    before = len(engine.journal.segments)
    reading = asyncio.gather(*(reader.read(n, 39, 1 << 20) for n in range(40)))  # planned before, read meanwhile
    await engine.delete(large.ledger)
    await settle(engine)
    assert [run.first for run in await reading] == list(range(40))
    assert len(engine.journal.segments) < before / 2
    assert engine.space.copied_bytes > 0
    want = [entry(small.ledger, n) for n in range(40)]
    assert await read_all(reader) == want
    for metadata in (engine._metadata.reopen(), engine._metadata.reopen()):  # killed, then killed again
        files = files.crash()
        again = await start(files, metadata)
        assert counted(again) == counted(engine)
        assert await read_all(await again.open(small.ledger, recover=True)) == want
        engine = again


async def test_ledger_deleted_while_it_is_copied_stays_deleted() -> None:
    files = SimulatedFiles()
    engine = await start(files)
    keep, small, large = [await engine.create({}) for _ in range(3)]
    for step in range(30):
        await append(keep, run_of([entry(keep.ledger, step)]))
        await append(small, run_of([entry(small.ledger, step)]))
        await append(large, run_of([bytes(2000)]))
    await engine.delete(large.ledger)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await engine.delete(small.ledger)
    await settle(engine)
    assert await engine.list({}) == [keep.ledger]
    assert await read_all(await engine.open(keep.ledger, recover=False)) == [entry(keep.ledger, n) for n in range(30)]
    again = await start(files.crash(), engine._metadata.reopen())
    assert counted(again) == counted(engine)


async def test_records_of_ledgers_metadata_does_not_know_are_garbage() -> None:
    files = SimulatedFiles()
    engine = await start(files)
    writer = await engine.create({})
    for step in range(60):
        await append(writer, entries(writer.ledger, step * 3, 3))
    await engine._metadata.delete(f"/ledgers/local/{writer.ledger:019d}")
    assert len(engine.journal.segments) > JOURNAL_SPARES_MAX
    files = files.crash()
    again = await start(files, engine._metadata.reopen())
    await settle(again)
    assert await again.list({}) == []
    assert again.journal.segments == {}
    assert len(files.list("/data/journal")) == JOURNAL_SPARES_MAX


async def test_ledger_with_packed_index_is_read_after_compaction_and_restart() -> None:
    files = SimulatedFiles()
    metadata = MemoryStore(InlineRuntime(files))
    engine = await start(files, metadata)
    small, large = await engine.create({}), await engine.create({})
    count = INDEX_PLAIN_ITEMS_MAX + 700
    for step in range(count):
        small.append(run_of([entry(small.ledger, step)]), _stored)
        large.append(run_of([bytes(1500)]), _stored)
        if step % 500 == 0:
            await engine.journal.drained()
    await engine.journal.drained()
    await engine.delete(large.ledger)
    await settle(engine)
    assert engine.space.copied_bytes
    wanted = [entry(small.ledger, step) for step in range(count)]
    assert await read_all(await engine.open(small.ledger, recover=False)) == wanted
    await small.close()
    await engine.close()
    again = await start(files, metadata)
    reader = await again.open(small.ledger, recover=True)
    assert await read_all(reader) == wanted
    assert await reader.count(300, count - 300) == (count - 599, sum(map(len, wanted[300 : count - 299])))
    await again.delete(small.ledger)
    assert counted(again) == {}


def _stored(first: int, error: MagnetarError | None) -> None:
    assert error is None
