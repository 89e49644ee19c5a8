"""Damage to what was acknowledged is told, never skipped; a torn tail is not taken for damage."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest
from google_crc32c import value

from magnetar.base.errors import Conflict, Corrupt, NoSuchEntry, Refused
from magnetar.ledger.local.engine import LocalLedgers
from magnetar.ledger.local.records import HEADER_BYTES, MAGIC_BYTES, encode
from magnetar.ledger.local.segment import START, log_name, sidecar_name
from magnetar.ledger.run import run_of
from simulation.environment.disk import SimulatedFiles
from simulation.environment.inline_runtime import InlineRuntime
from simulation.stores.metadata import MemoryStore
from tests.contract.ledgers import append, entries, entry, read_all
from tests.support.async_tests import provides

pytestmark = pytest.mark.real_clock

LOG = "/data/journal/" + log_name(1)


class World:
    def __init__(self) -> None:
        self.files = SimulatedFiles()
        self.runtime = InlineRuntime(self.files)
        self.metadata = MemoryStore(self.runtime)

    async def start(self, segment_bytes: int = 1 << 16) -> LocalLedgers:
        return await LocalLedgers.start("/data", self.runtime, self.metadata, segment_bytes=segment_bytes)

    async def kill(self) -> LocalLedgers:
        """The next process, on everything the last one wrote."""
        self.files._held.clear()
        self.metadata = self.metadata.reopen()
        return await self.start()

    def flip(self, offset: int, path: str = LOG) -> None:
        self.files.damage(path, offset, bytes([self.files.content(path)[offset] ^ 0x40]))


@provides(World)
async def new_world() -> AsyncIterator[World]:
    yield World()


def offset_of(engine: LocalLedgers, ledger: int, number: int) -> int:
    index = engine._states[ledger].index
    return index.place(index.find(number))[1]


async def two_ledgers(world: World) -> tuple[LocalLedgers, int, int]:
    """Turn by turn, every run its own batch: 10 runs of 3 entries each."""
    engine = await world.start()
    writers = [await engine.create({}), await engine.create({})]
    for step in range(10):
        for writer in writers:
            await append(writer, entries(writer.ledger, step * 3, 3))
    return engine, writers[0].ledger, writers[1].ledger


async def assert_lost(engine: LocalLedgers, ledger: int, first: int, last: int, total: int = 30) -> None:
    """Everything can be read but these entries, which are Corrupt and say where."""
    reader = await engine.open(ledger, recover=True)
    assert reader.last_entry == total - 1
    at = 0
    while at < total:
        if first <= at <= last:
            with pytest.raises(Corrupt) as raised:
                await reader.read(at, total, 1 << 20)
            assert {"segment", "offset"} <= raised.value.facts.keys()
            at += 1
            continue
        got = await reader.read(at, total, 1 << 20)
        assert got.last < first or at > last
        assert [got.entry(n) for n in range(len(got))] == [entry(ledger, n) for n in range(at, got.last + 1)]
        at = got.last + 1


async def test_flipped_bit_is_corrupt_at_its_entry_only(world: World) -> None:
    engine, one, two = await two_ledgers(world)
    at = offset_of(engine, one, 12)
    world.flip(at + HEADER_BYTES + 3 * 8 + 5)
    engine = await world.kill()
    assert [(d.segment, d.offset, d.known) for d in engine.damage] == [(1, at, True)]
    assert [name for name, _ in world.runtime.marked] == ["journal.damaged"]
    await assert_lost(engine, one, 12, 14)
    assert await read_all(await engine.open(two, recover=True)) == [entry(two, n) for n in range(30)]
    engine = await world.kill()  # and the next start does not forget it
    assert len(engine.damage) == 1
    await assert_lost(engine, one, 12, 14)


async def test_destroyed_header_is_corrupt_for_ledger_that_misses_entries(world: World) -> None:
    engine, one, two = await two_ledgers(world)
    at = offset_of(engine, one, 12)
    world.flip(at + 20)
    engine = await world.kill()
    assert [(d.segment, d.offset, d.known) for d in engine.damage] == [(1, at, False)]
    await assert_lost(engine, one, 12, 14)
    assert await read_all(await engine.open(two, recover=True)) == [entry(two, n) for n in range(30)]


async def test_destroyed_header_of_open_ledger_is_not_its_end(world: World) -> None:
    engine, one, two = await two_ledgers(world)
    at = offset_of(engine, one, 27)  # the last run of this ledger; the other one's last run comes after it
    world.flip(at + 20)
    engine = await world.kill()
    with pytest.raises(Corrupt) as error:
        await engine.open(one, recover=True)
    assert error.value.facts == {"segment": 1, "offset": at}
    assert await read_all(await engine.open(two, recover=True)) == [entry(two, n) for n in range(30)]
    await engine.delete(one)  # the way out
    assert await engine.list({}) == [two]


async def test_sealed_ledger_whose_end_is_destroyed_says_so(world: World) -> None:
    engine, one, _ = await two_ledgers(world)
    await engine.open(one, recover=True)
    at = offset_of(engine, one, 27)
    world.flip(at + 20)
    await assert_lost(await world.kill(), one, 27, 29)


async def test_unconfirmed_bad_tail_is_cut_off(world: World) -> None:
    engine, one, two = await two_ledgers(world)
    at = offset_of(engine, two, 27)
    world.flip(at + HEADER_BYTES + 3)
    engine = await world.kill()
    assert engine.damage == []
    assert (await engine.open(one, recover=True)).last_entry == 29
    assert (await engine.open(two, recover=True)).last_entry == 26


async def test_damage_in_ended_segment_is_found_by_reader(world: World) -> None:
    engine, one, two = await two_ledgers(world)
    at = offset_of(engine, one, 3)
    await engine.close()
    world.flip(at + 30)
    engine = await world.kill()
    await assert_lost(engine, one, 3, 5)
    reader = await engine.open(one, recover=True)
    assert (await reader.count(0, 29))[0] == sum(1 + n % 3 for n in range(30))
    with pytest.raises(Corrupt):
        await reader.count(0, 4)  # half of a record that cannot be read
    assert await read_all(await engine.open(two, recover=True)) == [entry(two, n) for n in range(30)]


async def test_missing_or_damaged_sidecar_is_made_again(world: World) -> None:
    engine, one, two = await two_ledgers(world)
    await engine.close()
    sidecar = "/data/journal/" + sidecar_name(1)
    good = world.files.content(sidecar)
    for spoil in (
        lambda: world.files.remove(sidecar),
        lambda: world.flip(len(good) // 2, sidecar),
        lambda: world.flip(0, sidecar),
        lambda: world.files.open(sidecar).truncate(20),
    ):
        spoil()
        engine = await world.kill()
        for ledger in (one, two):
            assert await read_all(await engine.open(ledger, recover=True)) == [entry(ledger, n) for n in range(30)]
        assert world.files.content(sidecar) == good
        await engine.close()


async def test_damaged_segment_header_is_harmless_with_first_record(world: World) -> None:
    _, one, two = await two_ledgers(world)
    world.flip(18)
    engine = await world.kill()
    for ledger in (one, two):
        assert await read_all(await engine.open(ledger, recover=True)) == [entry(ledger, n) for n in range(30)]


async def test_segment_without_readable_start_is_damage_as_whole(world: World) -> None:
    _, one, two = await two_ledgers(world)
    world.files.damage(LOG, 0, bytes(200))
    engine = await world.kill()
    assert [(d.segment, d.offset, d.known) for d in engine.damage] == [(1, 0, False)]
    for ledger in (one, two):
        with pytest.raises(Corrupt):
            await engine.open(ledger, recover=True)
    writer = await engine.create({})  # the node goes on with what it has
    await append(writer, run_of([b"new"]))
    assert world.files.exists(LOG)  # and leaves the evidence alone


async def test_lost_segment_file_is_corrupt_for_sealed_ledgers(world: World) -> None:
    engine, one, _ = await two_ledgers(world)
    await engine.open(one, recover=True)
    world.files.remove(LOG)
    engine = await world.kill()
    reader = await engine.open(one, recover=True)
    assert reader.last_entry == 29
    with pytest.raises(Corrupt, match="restore"):
        await reader.read(0, 29, 100)
    with pytest.raises(NoSuchEntry):
        await reader.read(30, 30, 100)


async def test_newer_format_is_refused_with_remedy_and_untouched(world: World) -> None:
    await two_ledgers(world)
    newer = b"MGNTRJNL" + (2).to_bytes(4, "little")
    world.files.damage(LOG, 0, newer + value(newer).to_bytes(4, "little"))
    before = world.files.content(LOG)
    with pytest.raises(Refused, match="start the newer Magnetar"):
        await world.kill()
    assert world.files.content(LOG) == before
    with pytest.raises(Refused):  # not Conflict: the lock was let go
        await world.start()


async def test_newer_record_of_ledger_is_refused_and_unknown_fields_survive(world: World) -> None:
    engine, one, _ = await two_ledgers(world)
    path = f"/ledgers/local/{one:019d}"
    node = await world.metadata.get(path)
    assert node is not None
    fields = msgspec.json.decode(node.value)
    await world.metadata.put(path, msgspec.json.encode({**fields, "color": "red"}))
    engine = await world.kill()
    await engine.open(one, recover=True)
    node = await world.metadata.get(path)
    assert node is not None
    assert msgspec.json.decode(node.value)["color"] == "red"
    await world.metadata.put(path, msgspec.json.encode({**fields, "format": 2}))
    with pytest.raises(Refused, match="newer Magnetar"):
        await world.kill()
    await world.metadata.put(path, b"{")
    with pytest.raises(Corrupt):
        await world.kill()


async def test_published_image_of_record_is_never_taken_for_one(world: World) -> None:
    engine, one, _ = await two_ledgers(world)
    stamp = engine.journal.segments[1].stamp
    writer = await engine.create({})
    forged = b"".join(encode(stamp ^ 1, one, 30, 1, 1 << 20, run_of([b"forged"])))  # a guess at the stamp
    await append(writer, run_of([b"x" * 600 + forged]))
    await append(writer, run_of([b"after"]))
    at = offset_of(engine, writer.ledger, 0)
    world.flip(at + 20)
    engine = await world.kill()
    reader = await engine.open(writer.ledger, recover=True)
    with pytest.raises(Corrupt):
        await reader.read(0, 0, 10)
    assert (await reader.read(1, 1, 10)).entry(0) == b"after"
    assert (await engine.open(one, recover=False)).last_entry == 29


async def test_stale_records_of_reused_file_are_not_read(world: World) -> None:
    engine = await world.start(segment_bytes=4096)
    for _ in range(6):
        writer = await engine.create({})
        before = engine.journal.current
        while engine.journal.current is before:  # until a segment is full: the next one begins with its last run
            await append(writer, entries(5, 0, 3))
        await engine.delete(writer.ledger)
    await engine.space.settled()
    assert engine.space.freed > 3
    keep = await engine.create({})
    await append(keep, run_of([b"kept"]))
    current = engine.journal.current
    assert current is not None
    content = world.files.content("/data/journal/" + log_name(current.sequence))
    assert content[current.end :].count(MAGIC_BYTES) > 1  # a used file, with old records in it
    engine = await world.kill()
    assert engine.damage == []
    assert await engine.list({}) == [keep.ledger]
    assert await read_all(await engine.open(keep.ledger, recover=True)) == [b"kept"]


async def test_second_node_on_directory_is_told_who_holds_it(world: World) -> None:
    engine = await LocalLedgers.start("/data", world.runtime, world.metadata, holder="node 7")
    with pytest.raises(Conflict, match="node 7"):
        await world.start()
    await engine.close()
    await (await world.start()).close()


async def test_start_of_records_is_where_header_says(world: World) -> None:
    engine, one, _ = await two_ledgers(world)
    assert offset_of(engine, one, 0) == START
