"""Ledgers that a crash left behind are found by their marks and deleted at the second look."""

from __future__ import annotations

import pytest

from magnetar.base.errors import Fenced
from magnetar.ledger.orphans import data_custom, drop_orphan, named_ledgers, snapshot_custom, sweep
from tests.unit.ledger.world import PATH, World, publish

pytestmark = pytest.mark.real_clock


async def test_ledger_without_record_goes_at_second_sweep():
    world = World()
    managed = await world.open()
    await publish(managed, "1:a")
    orphan = await world.ledgers.create(data_custom(PATH))
    nobody = await world.ledgers.create(snapshot_custom("/no/where"))
    foreign = await world.ledgers.create({"application": "other"})
    suspects = await sweep(world.ledgers, world.metadata)
    assert suspects == {orphan.ledger, nobody.ledger}
    assert sorted(world.ledgers.memory.ledgers) == [1, 2, 3, 4]
    assert await sweep(world.ledgers, world.metadata, suspects) == frozenset()
    assert sorted(world.ledgers.memory.ledgers) == [1, foreign.ledger]


async def test_ledger_that_gets_its_record_between_two_sweeps_stays():
    world = World()
    writer = await world.ledgers.create(snapshot_custom("/a/cursor"))
    suspects = await sweep(world.ledgers, world.metadata)
    await world.metadata.put("/a/cursor", b'{"v":1,"snapshot":{"ledger":1}}')
    assert await sweep(world.ledgers, world.metadata, suspects) == frozenset()
    assert writer.ledger in world.ledgers.memory.ledgers


@pytest.mark.parametrize(
    "value", [b'{"v":2}', b"\x08\x01protobuf", b"[1]", b'{"v":1,"ledgers":[7]}', b'{"v":1,"snapshot":7}']
)
async def test_record_that_cannot_be_read_keeps_all_its_ledgers(value):
    world = World()
    await world.ledgers.create(data_custom(PATH))
    await world.metadata.put(PATH, value)
    suspects = await sweep(world.ledgers, world.metadata)
    await sweep(world.ledgers, world.metadata, suspects | {1})
    assert list(world.ledgers.memory.ledgers) == [1]


def test_record_names_its_chain_and_its_snapshots():
    assert named_ledgers(PATH, b"") == set()
    assert named_ledgers(PATH, b'{"ledgers":[{"id":4},{"id":9}],"snapshot":{"ledger":7}}') == {4, 7, 9}


async def test_owner_drops_orphan_and_late_write_cannot_name_it():
    world = World()
    managed = await world.open()
    await publish(managed, "1:a")
    fresh = await world.ledgers.create(data_custom(PATH))  # a roll of the owner that takes very long
    requests = []

    async def drop(path, ledger):
        requests.append((path, ledger))
        assert await drop_orphan(path, ledger, ledgers=world.ledgers, metadata=world.metadata)

    suspects = await sweep(world.ledgers, world.metadata, drop=drop)
    assert suspects == {fresh.ledger}
    assert await sweep(world.ledgers, world.metadata, suspects, drop=drop) == frozenset()
    assert requests == [(PATH, fresh.ledger)]
    assert fresh.ledger not in world.ledgers.memory.ledgers
    with pytest.raises(Fenced):  # the record was written again: what was about to name the ledger comes too late
        await managed.set_properties({"named": "late"})


async def test_orphan_named_before_deletion_stays():
    world = World()
    fresh = await world.ledgers.create(snapshot_custom("/a/cursor"))
    await world.metadata.put("/a/cursor", b'{"v":1}')

    async def drop(path, ledger):
        await world.metadata.put(path, b'{"v":1,"snapshot":{"ledger":1}}')
        assert not await drop_orphan(path, ledger, ledgers=world.ledgers, metadata=world.metadata)

    assert await sweep(world.ledgers, world.metadata, frozenset({fresh.ledger}), drop=drop) == frozenset()
    assert fresh.ledger in world.ledgers.memory.ledgers


async def test_ledger_of_another_record_is_not_dropped():
    world = World()
    fresh = await world.ledgers.create(data_custom(PATH))
    await world.metadata.put("/a/cursor", b'{"v":1}')
    assert not await drop_orphan("/a/cursor", fresh.ledger, ledgers=world.ledgers, metadata=world.metadata)
    assert not await drop_orphan(PATH, fresh.ledger + 1, ledgers=world.ledgers, metadata=world.metadata)
    assert fresh.ledger in world.ledgers.memory.ledgers
