"""An owner that does not know that it is none any more: what it writes is refused, and nobody loses anything by it."""

from __future__ import annotations

import pytest

from magnetar.base.errors import Fenced
from magnetar.base.ids import Position
from magnetar.base.limits import MAINTENANCE_S
from magnetar.wire.proto import pb
from tests.support.broker_cluster import NAME, Cluster, spawn, take
from tests.unit.broker.world import pass_s, settle


async def test_replaced_owner_sends_no_receipt_after_takeover(cluster: Cluster) -> None:
    old, new = await cluster.find()
    client = old.client()
    await client.produce()
    client.send(0, "before")
    await settle()
    await take(old, new)
    reader = new.client()
    await reader.subscribe(permits=10)
    await settle()
    assert reader.heard.texts == ["before"]
    client.send(1, "after")
    await settle()
    assert [receipt.sequence for receipt in client.heard.receipts] == [0]
    assert client.heard.answered[-1] == (1, pb.PersistenceError)
    assert "CLOSE_PRODUCER" in client.heard.kinds
    assert not old.loaded()
    assert old.marks("fence.old_owner")
    assert reader.heard.texts == ["before"]
    # Told to look up again, the client finds the new owner from either broker.
    assert [await cluster.follow(member) for member in cluster.members] == [new, new]
    assert old.marks("ownership.lost")


async def test_old_owner_without_open_ledger_cannot_make_one(cluster: Cluster) -> None:
    old, new = await cluster.find()
    client = old.client()
    await client.produce()  # loaded, nothing written: no ledger is there to fence
    await take(old, new)
    second = new.client()
    await second.produce()
    client.send(0, "old")
    await settle()
    assert client.heard.receipts == []
    second.send(0, "new")
    await settle()
    assert [receipt.sequence for receipt in second.heard.receipts] == [0]


@pytest.mark.parametrize("acks", [1, 3])
async def test_old_owners_cursor_does_not_overwrite_what_new_one_wrote(cluster: Cluster, acks: int) -> None:
    """One acknowledgement in order is kept in the record alone, one behind a hole needs a snapshot ledger."""

    old, new = await cluster.find()
    client = old.client()
    await client.produce()
    await client.subscribe(permits=10)
    for number in range(4):
        client.send(number, f"m{number}")
    await settle()
    places = [one.position for one in client.heard.delivered]
    if acks == 3:
        client.ack(1, places[2])
        await old.cursor().flush()
    await take(old, new)
    second = new.client()
    await second.subscribe(permits=10)
    await settle()
    second.ack(1, places[0], places[1])
    await new.cursor().flush()
    client.ack(1, places[3])  # at the old owner, which does not know
    await pass_s(MAINTENANCE_S)
    await new.node.topics.unload(NAME)
    await new.node.topics.get(NAME, create=False)
    assert new.cursor().mark == (places[2] if acks == 3 else places[1])
    assert not new.cursor().is_acked(places[3])


async def test_old_owners_cursor_cannot_write_once_new_one_opened(cluster: Cluster) -> None:
    old, new = await cluster.find()
    client = old.client()
    await client.produce()
    await client.subscribe(permits=10)
    client.send(0)
    client.send(1)
    await settle()
    places = [one.position for one in client.heard.delivered]
    await take(old, new)
    second = new.client()
    await second.subscribe(permits=10)
    client.ack(1, places[0])
    with pytest.raises(Fenced):
        await old.cursor().flush()
    second.ack(1, places[1])
    await new.cursor().flush()
    await new.node.topics.unload(NAME)
    await new.node.topics.get(NAME, create=False)
    assert [new.cursor().is_acked(place) for place in places] == [False, True]


@pytest.mark.setup(brokerDeduplicationEnabled="true")
async def test_old_owners_deduplication_does_not_overwrite_what_new_one_remembers(cluster: Cluster) -> None:
    old, new = await cluster.find()
    client = old.client()
    await client.produce(producer_name="p", user_provided_producer_name=True)
    client.send(0, "m0")
    await settle()
    await take(old, new)
    second = new.client()
    await second.produce(producer_name="p", user_provided_producer_name=True)
    second.send(0, "m0")
    second.send(1, "m1")
    await settle()
    assert second.heard.receipts[0].position == Position(-1, -1)  # known to be there
    await old.node.topics.unload(NAME)  # closing takes a snapshot, of an older time
    await new.node.topics.unload(NAME)
    await new.node.topics.get(NAME, create=False)
    assert new.topic().highest_sequence("p") == 1


@pytest.mark.parametrize("passes", range(12))
async def test_load_racing_last_write_of_owner_is_repeated(cluster: Cluster, passes: int) -> None:
    """Whichever of its steps the write falls between: it is in what is loaded, or it was refused."""

    old, new = await cluster.find()
    client = old.client()
    await client.produce()
    client.send(0, "m0")
    await settle()
    await take(old, new)
    new.metadata.hold(passes)
    loading = spawn(new.node.topics.get(NAME, create=False))
    await settle()
    try:
        await old.topic().managed.set_properties({"written": "late"})
        wanted = {"written": "late"}
    except Fenced:
        wanted = {}
    new.metadata.release()
    await loading
    assert new.topic().managed.properties == wanted
