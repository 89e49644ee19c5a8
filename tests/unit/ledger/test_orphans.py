from __future__ import annotations

import asyncio

from magnetar.ledger.orphans import data_custom, named_ledgers, snapshot_custom, sweep
from tests.unit.ledger.world import PATH, World, publish


def test_a_ledger_without_a_record_goes_at_the_second_sweep():
    async def body():
        world = World()
        managed = await world.open()
        await publish(managed, "1:a")
        orphan = await world.ledgers.create(data_custom(PATH))
        nobody = await world.ledgers.create(snapshot_custom("/no/where"))
        foreign = await world.ledgers.create({"application": "other"})
        suspects = await sweep(world.ledgers, world.metadata)
        assert suspects == {orphan.ledger, nobody.ledger}
        assert sorted(world.ledgers.shelf.ledgers) == [1, 2, 3, 4]
        assert await sweep(world.ledgers, world.metadata, suspects) == frozenset()
        assert sorted(world.ledgers.shelf.ledgers) == [1, foreign.ledger]

    asyncio.run(body())


def test_a_ledger_that_gets_its_record_between_two_sweeps_stays():
    async def body():
        world = World()
        writer = await world.ledgers.create(snapshot_custom("/a/cursor"))
        suspects = await sweep(world.ledgers, world.metadata)
        await world.metadata.put("/a/cursor", b'{"v":1,"snapshot":{"ledger":1}}')
        assert await sweep(world.ledgers, world.metadata, suspects) == frozenset()
        assert writer.ledger in world.ledgers.shelf.ledgers

    asyncio.run(body())


def test_records_of_others_name_no_ledgers():
    assert named_ledgers(b"") == set()
    assert named_ledgers(b"\x08\x01protobuf") == set()
    assert named_ledgers(b"[1]") == set()
    assert named_ledgers(b'{"ledgers":[{"id":4},{"id":9}],"snapshot":{"ledger":7}}') == {4, 7, 9}
