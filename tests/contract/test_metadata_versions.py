"""Versions over the lives of a record: the owner that lost its session and does not know it (H-C6).

The store counts versions per node and from 0 in each life, as ZooKeeper does. With the engine's cure, the old owner is
refused; without it, the old owner destroys what the new one acknowledged.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from magnetar.base.errors import BadVersion, MagnetarError, NoSuchLedger
from magnetar.base.ids import BEFORE_ALL
from magnetar.ledger.managed import ManagedConfig, ManagedLedger
from magnetar.ledger.run import Run, run_of
from magnetar.ledger.tail import TailCache
from magnetar.metadata.store import ABSENT
from simulation.environment.inline_runtime import InlineRuntime
from simulation.stores.ledgers import MemoryLedgers
from simulation.stores.metadata import MemoryStore, StoreContent, Versions

PATH = "/managed-ledgers/public/default/persistent/orders"


class Broker:
    """One owner of the topic, on its own handles of the stores."""

    def __init__(self, metadata: MemoryStore, ledgers: MemoryLedgers) -> None:
        files: Any = None
        self.metadata = metadata
        self.ledgers = ledgers
        self.runtime = InlineRuntime(files)

    async def open(self) -> ManagedLedger:
        config = ManagedConfig(publish_time_of=lambda entry: 1, tail=TailCache(1 << 20), entries_max=1, age_min_s=0.0)
        return await ManagedLedger.open(
            PATH, ledgers=self.ledgers, metadata=self.metadata, runtime=self.runtime, config=config, create=True
        )


async def publish(topic: ManagedLedger, entry: bytes) -> None:
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(run: Run, error: MagnetarError | None) -> None:
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(error)

    topic.append(run_of([entry]), done)
    await answer


async def contents(topic: ManagedLedger) -> list[bytes]:
    run = await topic.read(BEFORE_ALL, 1 << 20, 100)
    return [] if run is None else [bytes(run.entry(index)) for index in range(len(run))]


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def story(versions: Versions) -> tuple[bool, list[bytes]]:
    """Whether the old owner had its message acknowledged, and the messages that the next owner can read."""
    store, ledgers = MemoryStore(content=StoreContent(versions=versions)), MemoryLedgers()
    old = Broker(store, ledgers)
    zombie = await old.open()
    await publish(zombie, b"first life")
    await settle()  # its ledger is full and closed
    store.content.end_session(store.session_id)  # it does not know

    new = Broker(store.peer(), ledgers.peer())
    first = await new.open()
    await first.delete()
    second = await new.open()
    await publish(second, b"second life")
    await settle()
    assert await contents(second) == [b"second life"]

    acknowledged = True
    try:
        await publish(zombie, b"from the old owner")
    except MagnetarError:
        acknowledged = False
    await settle()
    third = await Broker(store.peer(), ledgers.peer()).open()
    try:
        return acknowledged, await contents(third)
    except NoSuchLedger:  # the record names ledgers of the first life
        return acknowledged, []


def test_old_owner_destroys_nothing_of_next_life_h_c6() -> None:
    assert asyncio.run(story(Versions.PER_NODE)) == (False, [b"second life"])
    assert asyncio.run(story(Versions.UNIQUE)) == (False, [b"second life"])


def test_without_cure_acknowledged_message_is_lost_h_c6() -> None:
    acknowledged, found = asyncio.run(story(Versions.PER_NODE_ALONE))
    assert acknowledged
    assert b"second life" not in found


@pytest.mark.parametrize("versions", list(Versions))
def test_store_without_cure_breaks_contract_h_c6(versions: Versions) -> None:
    async def body() -> bool:
        store = MemoryStore(content=StoreContent(versions=versions))
        old = await store.put("/a", b"first", expected=ABSENT)
        await store.delete("/a", expected=old.version)
        await store.put("/a", b"second", expected=ABSENT)
        try:
            await store.delete("/a", expected=old.version)
        except BadVersion:
            return True
        return False

    assert asyncio.run(body()) is (versions is not Versions.PER_NODE_ALONE)


def test_write_of_ended_session_is_refused_after_comparison_h_c6() -> None:
    """The record is deleted and created again between the read that compares and the write."""

    async def body() -> None:
        store = MemoryStore(content=StoreContent(versions=Versions.PER_NODE))
        rival = store.peer()
        old = await store.put("/a", b"first", expected=ABSENT)
        writing = asyncio.get_running_loop().create_task(store.put("/a", b"late", expected=old.version))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        store.content.end_session(store.session_id)
        await rival.delete("/a")
        await rival.put("/a", b"second", expected=ABSENT)
        with pytest.raises(MagnetarError):
            await writing
        node = await rival.get("/a")
        assert node is not None
        assert node.value == b"second"

    asyncio.run(body())
