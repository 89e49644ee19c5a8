"""Ledgers that a crash left behind are found by their marks and deleted at the second look."""

from __future__ import annotations

import pytest

from magnetar.base.errors import Fenced
from magnetar.ledger.orphans import data_custom, named_ledgers, snapshot_custom, sweep
from tests.unit.ledger.world import PATH, World, publish

pytestmark = pytest.mark.real_clock


async def test_a_ledger_without_a_record_goes_at_the_second_sweep():
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


async def test_a_ledger_that_gets_its_record_between_two_sweeps_stays():
    world = World()
    writer = await world.ledgers.create(snapshot_custom("/a/cursor"))
    suspects = await sweep(world.ledgers, world.metadata)
    await world.metadata.put("/a/cursor", b'{"v":1,"snapshot":{"ledger":1}}')
    assert await sweep(world.ledgers, world.metadata, suspects) == frozenset()
    assert writer.ledger in world.ledgers.memory.ledgers


@pytest.mark.parametrize(
    "value", [b'{"v":2}', b"\x08\x01protobuf", b"[1]", b'{"v":1,"ledgers":[7]}', b'{"v":1,"snapshot":7}']
)
async def test_a_record_that_cannot_be_read_keeps_all_its_ledgers(value):
    world = World()
    await world.ledgers.create(data_custom(PATH))
    await world.metadata.put(PATH, value)
    suspects = await sweep(world.ledgers, world.metadata)
    await sweep(world.ledgers, world.metadata, suspects | {1})
    assert list(world.ledgers.memory.ledgers) == [1]


def test_a_record_names_its_chain_and_its_snapshots():
    assert named_ledgers(PATH, b"") == set()
    assert named_ledgers(PATH, b'{"ledgers":[{"id":4},{"id":9}],"snapshot":{"ledger":7}}') == {4, 7, 9}


async def test_where_others_share_the_stores_only_the_owner_sweeps_and_a_late_write_cannot_name_what_is_gone():
    world = World()
    managed = await world.open()
    await publish(managed, "1:a")
    fresh = await world.ledgers.create(data_custom(PATH))  # a roll of the owner that takes very long

    async def ours(path):
        return path == PATH

    async def theirs(path):
        return False

    assert await sweep(world.ledgers, world.metadata, mine=theirs) == frozenset()
    suspects = await sweep(world.ledgers, world.metadata, mine=ours)
    assert suspects == {fresh.ledger}
    await sweep(world.ledgers, world.metadata, suspects, mine=ours)
    assert fresh.ledger not in world.ledgers.memory.ledgers
    with pytest.raises(Fenced):  # the record was written again: what was about to name the ledger comes too late
        await managed.set_properties({"named": "late"})


async def test_a_suspect_that_was_named_at_the_last_moment_stays():
    world = World()
    fresh = await world.ledgers.create(snapshot_custom("/a/cursor"))
    await world.metadata.put("/a/cursor", b'{"v":1}')

    async def named_meanwhile(path):
        await world.metadata.put(path, b'{"v":1,"snapshot":{"ledger":1}}')
        return True

    assert await sweep(world.ledgers, world.metadata, frozenset({fresh.ledger}), mine=named_meanwhile) == frozenset()
    assert fresh.ledger in world.ledgers.memory.ledgers
