"""Snapshots over rolls, torn ends, rivals and crashes at every step."""

from __future__ import annotations

import struct

import google_crc32c
import pytest

from magnetar.base.errors import Closed, Corrupt, Fenced, NotFound, NotReady, Refused, TimedOut, Unknown
from magnetar.base.limits import SNAPSHOT_ENTRY_BYTES_MAX
from magnetar.ledger.orphans import sweep
from magnetar.ledger.run import run_of
from magnetar.ledger.snapshots import SnapshotLog, newest, split, unseal
from simulation.environment.power import PoweredStore
from simulation.stores.ledgers import MemoryLedgers
from simulation.stores.metadata import InjectedFault, lost_answer
from tests.unit.ledger.world import World, at_every_step, settle

pytestmark = pytest.mark.real_clock

NODE = "/managed-ledgers/public/default/persistent/orders/sub"


async def a_log(world: World, create=None) -> SnapshotLog:
    metadata = world.metadata if world.power is None else PoweredStore(world.metadata, world.power)
    log = await SnapshotLog.open(
        NODE, kind="test", ledgers=world.ledgers, metadata=metadata, token="me", create=create or {"mark": 0}
    )
    log.entries_max = 3
    return log


async def test_new_log_is_record_without_ledger():
    world = World()
    log = await a_log(world)
    assert (log.created, log.last, log.fields) == (True, None, {"mark": 0})
    assert not world.ledgers.memory.ledgers
    with pytest.raises(NotFound):
        await SnapshotLog.open("/no/where", kind="t", ledgers=world.ledgers, metadata=world.metadata, token="")


async def test_last_snapshot_is_found_after_crash_over_many_rolls():
    world = World()
    for life in range(3):
        log = await a_log(world)
        for index in range(8):
            await log.append(f"{life}.{index}".encode())
        world = world.crash()
        assert (await a_log(world)).last == f"{life}.7".encode()
    assert len(world.ledgers.memory.ledgers) == 1


async def test_snapshot_larger_than_entry_comes_back_whole():
    world = World()
    log = await a_log(world)
    large = bytes(range(256)) * (SNAPSHOT_ENTRY_BYTES_MAX // 256) * 2 + b"tail"
    await log.append(large)
    assert (await a_log(world.crash())).last == large
    log = await a_log(world := world.crash())
    await log.append(b"")
    assert (await a_log(world.crash())).last == b""


async def test_snapshot_cut_short_gives_way_to_one_before_it():
    for kept in range(3):
        store = MemoryLedgers()
        writer = await store.create({})
        for entries in (split(b"old", 1), split(b"abcdefghi", 2, 3)[:kept]):
            if entries:
                writer.append(run_of(entries), lambda first, error: None)
        await settle()
        assert await newest(await store.open(1, recover=True)) == (b"old", 1)


async def test_parts_of_two_snapshots_are_never_joined():
    store = MemoryLedgers()
    writer = await store.create({})
    first, second = split(b"abcdef", 1, 3), split(b"ABCDEF", 2, 3)
    writer.append(run_of([*first, first[0], second[1]]), lambda first, error: None)
    await settle()
    assert await newest(await store.open(1, recover=True)) == (b"abcdef", 1)


@pytest.mark.parametrize("at", [0, 4, 5, 8, 12, 20, 25, 28, 30])
async def test_flipped_byte_gives_way_to_snapshot_before_it(at):
    world = World()
    log = await a_log(world)
    await log.append(b"good")
    await log.append(b"newer")
    stored = world.ledgers.memory.ledgers[1]
    entry = bytearray(stored.entries[1])
    entry[at] ^= 0x40
    stored.entries[1] = bytes(entry)
    assert (await a_log(world.crash())).last == b"good"


async def test_log_without_readable_snapshot_says_so():
    world = World()
    await (await a_log(world)).append(b"good")
    world.ledgers.memory.ledgers[1].entries[0] = b"rubbish"
    log = await a_log(world := world.crash())
    assert (log.last, log.damaged) == (None, True)
    world.ledgers.forget(1)
    log = await a_log(world := world.crash())
    assert (log.last, log.damaged) == (None, True)
    await log.append(b"again")
    assert (await a_log(world.crash())).last == b"again"


def test_newer_snapshot_is_refused_with_what_to_do():
    assert unseal(split(b"state", 1)[0]) == (0, 1, 1, b"state")
    header = struct.pack("<4sB3xIIQ", b"MGSN", 2, 0, 1, 1)
    newer = header + struct.pack("<I", google_crc32c.value(header + b"state")) + b"state"
    with pytest.raises(Refused, match="start a node of the version that wrote it"):
        unseal(newer)


@pytest.mark.parametrize("entry", [b"", b"MGSN", bytes(28), b"MGSN" + bytes(40)])
def test_entry_that_lies_is_corrupt(entry):
    with pytest.raises(Corrupt):
        unseal(entry)


async def test_record_of_another_kind_or_newer_version_is_refused():
    world = World()
    await world.metadata.put(NODE, b'{"v":1,"kind":"other"}')
    with pytest.raises(Refused, match="expected a record of test, got other"):
        await a_log(world)
    await world.metadata.put(NODE, b'{"v":9}')
    with pytest.raises(Refused, match="version 9"):
        await a_log(world)
    await world.metadata.put(NODE, b'{"v":1,"snapshot":5}')
    with pytest.raises(Corrupt):
        await a_log(world)


async def test_fields_of_record_survive_rolls_amendments_and_folding():
    world = World()
    log = await a_log(world, {"name": "sub", "tomorrow": [1, 2]})
    for index in range(7):
        await log.append(b"x", {"mark": index})
    await log.amend({"color": "red"})
    await log.fold({"mark": 99})
    assert not world.ledgers.memory.ledgers
    again = await a_log(world.crash())
    assert again.fields == {"name": "sub", "tomorrow": [1, 2], "mark": 99, "color": "red"}
    assert (again.last, again.damaged) == (None, False)


async def test_dead_writer_costs_one_snapshot_and_ledger_changes():
    world = World()
    log = await a_log(world)
    await log.append(b"one")
    world.ledgers.fail_append(TimedOut("no answer"))
    with pytest.raises(TimedOut):
        await log.append(b"two")
    await log.append(b"three")
    assert list(world.ledgers.memory.ledgers) == [2]
    assert (await a_log(world.crash())).last == b"three"


async def test_owner_that_was_replaced_writes_nothing_more():
    world = World()
    old = await a_log(world)
    await old.append(b"one")
    new = await a_log(world.rival())
    with pytest.raises(Fenced):
        await old.append(b"two")
    assert new.last == b"one"
    await new.append(b"three")
    for call in (old.append(b"x"), old.amend({"a": 1}), old.fold({}), old.delete()):
        with pytest.raises(Fenced):
            await call
    assert (await a_log(world.rival())).last == b"three"


async def test_roll_that_finds_record_changed_leaves_no_ledger_behind():
    world = World()
    old = await a_log(world)
    new = await a_log(world.rival())
    await new.append(b"new")
    with pytest.raises(Fenced):
        await old.append(b"old")
    assert list(world.ledgers.memory.ledgers) == [1]


@pytest.mark.parametrize("happened", [False, True])
async def test_roll_whose_answer_is_lost_goes_on(happened):
    world = World()
    log = await a_log(world)
    world.metadata.faults.append(lost_answer(happened=happened))
    await log.append(b"one")
    await log.append(b"two")
    assert (await a_log(world.crash())).last == b"two"


async def test_roll_refused_by_metadata_is_tried_again_with_next_snapshot():
    world = World()
    log = await a_log(world)
    world.metadata.faults.append(InjectedFault(NotReady("no quorum"), happened=False))
    with pytest.raises(NotReady):
        await log.append(b"one")
    assert not world.ledgers.memory.ledgers
    await log.append(b"two")
    assert (await a_log(world.crash())).last == b"two"


async def test_close_and_delete():
    world = World()
    log = await a_log(world)
    await log.append(b"one")
    await log.close()
    await log.close()
    with pytest.raises(Closed):
        await log.append(b"two")
    again = await a_log(world)
    assert again.last == b"one"
    await again.delete()
    await again.delete()
    assert not world.ledgers.memory.ledgers
    assert await world.metadata.get(NODE) is None


def test_crash_keeps_last_durable_or_current_snapshot():
    durable: list[int] = []

    async def story(world: World) -> None:
        durable[:] = [-1]
        log = await a_log(world)
        for index in range(8):
            await log.append(str(index).encode())
            durable[:] = [index]

    async def check(world: World) -> None:
        log = await a_log(world)
        found = -1 if log.last is None else int(log.last)
        assert durable[0] <= found <= durable[0] + 1
        assert not log.damaged
        await log.append(b"99")
        suspects = await sweep(world.ledgers, world.metadata)
        await sweep(world.ledgers, world.metadata, suspects)
        assert len(world.ledgers.memory.ledgers) == 1
        assert (await a_log(world.crash())).last == b"99"

    assert at_every_step(story, check) > 30


@pytest.mark.parametrize("happened", [False, True])
async def test_unanswered_roll_is_looked_up_and_next_snapshot_continues(happened):
    world = World()
    log = await a_log(world)
    await log.append(b"one")
    log.entries_max = 1  # the next one rolls
    world.metadata.faults += [lost_answer(happened=happened), *[lost_answer(happened=False)] * 20]
    with pytest.raises(Unknown):
        await log.append(b"two")
    world.metadata.faults.clear()
    await log.append(b"three")
    await log.append(b"four")
    assert (await a_log(world.crash())).last == b"four"


async def test_unanswered_write_does_not_hide_another_owner():
    world = World()
    log = await a_log(world)
    await log.append(b"one")
    world.metadata.faults += [lost_answer(happened=False)] * 20
    with pytest.raises(Unknown):
        await log.amend({"mark": 1})
    world.metadata.faults.clear()
    rival = await a_log(world.rival())
    await rival.amend({"mark": 2})
    with pytest.raises(Fenced):
        await log.append(b"two")
    with pytest.raises(Fenced):
        await log.delete()
    assert rival.fields["mark"] == 2


async def test_write_landing_after_lookup_is_recognised():
    world = World()
    log = await a_log(world)
    await log.append(b"one")
    world.metadata.faults += [lost_answer(happened=False)] * 20
    with pytest.raises(Unknown):
        await log.amend({"mark": 1})
    world.metadata.faults.clear()
    late = log._doubts[0]
    version = (await world.metadata.get(NODE)).stat.version
    await log._check()  # not there
    await world.metadata.put(NODE, late, expected=version)
    with pytest.raises(NotReady):
        await log.append(b"two")
    await log.append(b"three")
    after = await a_log(world.crash())
    assert (after.last, after.fields["mark"]) == (b"three", 1)
