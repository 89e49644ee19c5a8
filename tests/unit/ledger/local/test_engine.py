"""The engine and the metadata store: ids, answers that get lost, and rivals."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from magnetar.base.errors import Corrupt, Fenced, Unknown
from magnetar.base.limits import LEDGER_IDS_RESERVED
from magnetar.ledger.local.engine import LocalLedgers
from magnetar.ledger.run import run_of
from magnetar.metadata.store import Event
from simulation.environment.disk import SimulatedFiles
from simulation.environment.inline_runtime import InlineRuntime
from simulation.stores.metadata import MemoryStore, lost_answer
from tests.contract.ledgers import append, read_all

pytestmark = pytest.mark.real_clock


async def start(files: SimulatedFiles | None = None, metadata: MemoryStore | None = None) -> LocalLedgers:
    runtime = InlineRuntime(files or SimulatedFiles())
    return await LocalLedgers.start("/data", runtime, metadata or MemoryStore(runtime), segment_bytes=1 << 16)


def store_of(engine: LocalLedgers) -> MemoryStore:
    assert isinstance(engine._metadata, MemoryStore)
    return engine._metadata


async def test_creation_costs_one_write_and_one_per_id_block() -> None:
    engine = await start()
    heard: list[Event] = []
    store_of(engine).subscribe("/counters", heard.append)
    ids = [(await engine.create({})).ledger for _ in range(2 * LEDGER_IDS_RESERVED + 1)]
    await asyncio.sleep(0)
    assert ids == list(range(ids[0], ids[0] + len(ids)))
    assert sum(event.path == "/counters/ledger" for event in heard) == 3


async def test_creating_at_once_gives_every_caller_its_own_id() -> None:
    engine = await start()
    writers = await asyncio.gather(*(engine.create({}) for _ in range(250)))
    assert len({writer.ledger for writer in writers}) == 250


async def test_ids_never_repeat_even_if_counter_was_lost() -> None:
    engine = await start()
    first = await engine.create({})
    await append(first, run_of([b"old"]))
    await engine.close()
    metadata = store_of(engine).reopen()
    await metadata.delete("/counters/ledger")
    engine = await start(engine._runtime.files, metadata)
    assert (await engine.create({})).ledger > first.ledger


@pytest.mark.parametrize("happened", [True, False])
async def test_lost_answer_of_store_is_looked_up(happened: bool) -> None:
    engine = await start()
    metadata = store_of(engine)
    await engine.create({})  # reserves ids
    metadata.faults.append(lost_answer(happened=happened))
    writer = await engine.create({"a": "b"})
    assert await append(writer, run_of([b"x"])) == [0]
    metadata.faults.append(lost_answer(happened=happened))
    await writer.close()
    other = await engine.create({})
    await append(other, run_of([b"y"]))
    metadata.faults.append(lost_answer(happened=happened))
    reader = await engine.open(other.ledger, recover=True)
    assert reader.sealed
    again = await start(engine._runtime.files.crash(), metadata.reopen())
    for ledger, value in ((writer.ledger, b"x"), (other.ledger, b"y")):
        assert (await again.info(ledger)).sealed
        assert await read_all(await again.open(ledger, recover=True)) == [value]


async def test_silent_store_leaves_writer_fenced_and_recovery_repeatable() -> None:
    engine = await start()
    metadata = store_of(engine)
    writer = await engine.create({})
    await append(writer, run_of([b"x"]))
    metadata.faults.extend(lost_answer(happened=False) for _ in range(50))
    with pytest.raises(Unknown):
        await engine.open(writer.ledger, recover=True)
    with pytest.raises(Fenced):
        await append(writer, run_of([b"y"]))
    metadata.faults.clear()
    reader = await engine.open(writer.ledger, recover=True)
    assert (reader.last_entry, reader.sealed) == (0, True)


async def test_rival_that_raised_epoch_in_store_fences_close() -> None:
    engine = await start()
    metadata = store_of(engine)
    writer = await engine.create({})
    await append(writer, run_of([b"x"]))
    path = f"/ledgers/local/{writer.ledger:019d}"
    node = await metadata.get(path)
    assert node is not None
    fields = msgspec.json.decode(node.value)
    await metadata.put(path, msgspec.json.encode({**fields, "epoch": fields["epoch"] + 1}))
    with pytest.raises(Fenced):
        await writer.close()
    reader = await engine.open(writer.ledger, recover=True)
    assert (reader.last_entry, reader.sealed) == (0, True)


async def test_stranger_among_records_is_corrupt() -> None:
    runtime = InlineRuntime(SimulatedFiles())
    metadata = MemoryStore(runtime)
    await metadata.put("/ledgers/local/what", b"{}")
    with pytest.raises(Corrupt):
        await LocalLedgers.start("/data", runtime, metadata)
    await metadata.delete("/ledgers/local/what")
    await LocalLedgers.start("/data", runtime, metadata)  # and the lock was let go
