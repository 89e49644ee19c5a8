"""A crash at every write and every sync of a recorded load, and at every one of the recovery after it.

The disk (`simulation/environment/disk.py`) forgets, tears and reorders what was not synced. The promise: every entry
that was acknowledged is present, in order, without a gap, and no entry appears that was never appended.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from magnetar.base.errors import MagnetarError, NoSuchLedger, StorageFailed, StorageFull
from magnetar.ledger.local.engine import LocalLedgers
from magnetar.ledger.store import Writer
from simulation.environment.disk import PowerLoss, SimulatedFiles
from simulation.environment.inline_runtime import InlineRuntime
from simulation.stores.metadata import MemoryStore
from tests.contract.ledgers import Outcomes, entries, entry, read_all

pytestmark = pytest.mark.real_clock

SEGMENT_BYTES = 4096
APPENDS = 66


@dataclass
class Seen:
    """What the load was told, by ledger: how many entries were acknowledged, and what became of deletes."""

    acked: dict[int, int] = field(default_factory=dict)
    sent: dict[int, int] = field(default_factory=dict)
    deleting: set[int] = field(default_factory=set)
    deleted: set[int] = field(default_factory=set)


async def load(engine: LocalLedgers, seen: Seen) -> None:
    """Three writers, runs of all sizes, some waiting and some in flight; ledgers closed, deleted and begun anew."""
    writers = [await begin(engine, seen) for _ in range(3)]
    outcomes = [Outcomes() for _ in writers]
    for step in range(APPENDS):
        turn = step % 3
        writer = writers[turn]
        count = 1 + step * 7 % 9
        first = seen.sent[writer.ledger]
        seen.sent[writer.ledger] += count
        writer.append(entries(writer.ledger, first, count), noting(seen, writer.ledger, count, outcomes[turn]))
        if step % 4 == 3:
            await outcomes[turn].upto(len(outcomes[turn].all) + 1)
        if step % 11 == 10:
            await end(engine, seen, writer, delete=step % 22 == 10)
            writers[turn], outcomes[turn] = await begin(engine, seen), Outcomes()
        if any(outcome.errors for outcome in outcomes):
            return
    await engine.space.settled()
    await engine.close()


async def begin(engine: LocalLedgers, seen: Seen) -> Writer:
    writer = await engine.create({})
    seen.acked[writer.ledger] = seen.sent[writer.ledger] = 0
    return writer


async def end(engine: LocalLedgers, seen: Seen, writer: Writer, *, delete: bool) -> None:
    if delete:
        seen.deleting.add(writer.ledger)
        await engine.delete(writer.ledger)
        seen.deleted.add(writer.ledger)
    else:
        await writer.close()


def noting(seen: Seen, ledger: int, count: int, outcomes: Outcomes):
    def done(first: int, error: MagnetarError | None) -> None:
        if error is None:
            assert first == seen.acked[ledger]
            seen.acked[ledger] += count
        outcomes.done(first, error)

    return done


async def start(files: SimulatedFiles, metadata: MemoryStore) -> LocalLedgers:
    return await LocalLedgers.start("/data", InlineRuntime(files), metadata, segment_bytes=SEGMENT_BYTES)


async def crashed_load(files: SimulatedFiles) -> tuple[Seen, MemoryStore]:
    seen = Seen()
    metadata = MemoryStore(InlineRuntime(files))
    try:
        await load(await start(files, metadata), seen)
    except (PowerLoss, MagnetarError):
        pass
    return seen, metadata.reopen()


async def check(engine: LocalLedgers, seen: Seen) -> None:
    assert engine.damage == []  # a torn tail is no damage
    for ledger, acked in seen.acked.items():
        try:
            reader = await engine.open(ledger, recover=True)
        except NoSuchLedger:
            assert ledger in seen.deleting
            continue
        assert ledger not in seen.deleted
        assert acked - 1 <= reader.last_entry < seen.sent[ledger]
        assert await read_all(reader) == [entry(ledger, n) for n in range(reader.last_entry + 1)]


def calls_of_the_load() -> int:
    files = SimulatedFiles()

    async def body() -> int:
        seen, _ = await crashed_load(files)
        assert sum(seen.acked.values()) > APPENDS
        return files.calls

    return asyncio.run(body())


CALLS = calls_of_the_load()


async def test_recorded_load_rolls_deletes_and_copies() -> None:
    files = SimulatedFiles()
    metadata = MemoryStore(InlineRuntime(files))
    engine = await start(files, metadata)
    await load(engine, Seen())
    assert engine.space.freed > 1
    assert engine.space.copied_bytes > 0
    assert CALLS > 100


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
async def test_crash_at_any_call_loses_nothing_acknowledged(seed: int) -> None:
    for call in range(1, CALLS + 1):
        files = SimulatedFiles(seed * 1000 + call, crash_at=call, flips=seed == 2)
        seen, metadata = await crashed_load(files)
        after = files.crash()
        await check(await start(after, metadata), seen)
        await check(await start(after.crash(), metadata.reopen()), seen)  # what was recovered stays


@pytest.mark.parametrize("flips", [False, pytest.param(True, marks=pytest.mark.slow)])
async def test_crash_at_any_call_of_recovery_loses_nothing_either(flips: bool) -> None:
    """Also where a write that loses power leaves wrong bits: recovery must not write over what was acknowledged."""

    for call in range(1, CALLS + 1, 9):
        for again in range(1, 40):
            files = SimulatedFiles(call, crash_at=call, flips=flips)
            seen, metadata = await crashed_load(files)
            middle = files.crash()
            middle.crash_at = again
            try:
                await check(await start(middle, metadata), seen)
            except (PowerLoss, StorageFailed):
                pass
            await check(await start(middle.crash(), metadata.reopen()), seen)
            if not middle.crashed or middle.calls < again:
                break


async def test_failed_sync_anywhere_stops_engine_and_loses_nothing() -> None:
    probe = SimulatedFiles()
    await crashed_load(probe)
    for number in range(1, probe.syncs + 1):
        files = SimulatedFiles(number, fail_sync_at=number)
        metadata = MemoryStore(InlineRuntime(files))
        seen = Seen()
        failures: list[MagnetarError] = []
        try:
            engine = await start(files, metadata)
            engine.journal.on_failure.append(failures.append)
            await load(engine, seen)
        except StorageFailed:
            pass
        assert [type(failure) for failure in failures] in ([StorageFailed], [])
        if failures and not engine.closed:
            with pytest.raises(StorageFailed, match="check the disk"):
                await engine.create({})
        # Killed: the page cache still shows what the failed sync dropped. Then a crash of the machine.
        again = await start(_killed(files), metadata.reopen())
        await check(again, seen)
        await check(await start(again._runtime.files.crash(), metadata.reopen()), seen)


def _killed(files: SimulatedFiles) -> SimulatedFiles:
    """The process is gone, the machine is not: its cache stays, its locks and faults do not."""
    files.fail_sync_at = files.full_after = None
    files._held.clear()
    return files


async def test_full_disk_anywhere_stops_engine_and_loses_nothing() -> None:
    for room in range(0, 40_000, 700):
        files = SimulatedFiles(room, full_after=room)
        metadata = MemoryStore(InlineRuntime(files))
        seen = Seen()
        engine = None
        try:
            engine = await start(files, metadata)
            await load(engine, seen)
        except StorageFull:
            pass
        if engine is not None and engine.journal.failed is not None:
            assert isinstance(engine.journal.failed, StorageFull)
            assert "free space" in str(engine.journal.failed)
        # Nothing that was refused shows up: a full disk is a definite no.
        refused = engine is not None and engine.journal.failed is not None
        again = await start(_killed(files), metadata.reopen())
        await check(again, seen)
        if refused:
            for ledger in await again.list({}):
                assert (await again.info(ledger)).last_entry == seen.acked[ledger] - 1
        await check(await start(again._runtime.files.crash(), metadata.reopen()), seen)


async def test_recovery_without_space_leaves_no_copy_behind() -> None:
    refused = 0
    for call in range(10, CALLS, 7):
        files = SimulatedFiles(call, crash_at=call)
        seen, metadata = await crashed_load(files)
        files = files.crash()
        files.full_after = files.used() + 100
        try:
            engine = await start(files, metadata)
        except StorageFull:
            refused += 1
            assert not [path for path in files._names if path.endswith(".tmp")]
            engine = await start(_killed(files), metadata.reopen())
        await check(engine, seen)
    assert refused
