"""A cache never answers with what it was told has changed, and never grows past its bound."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import BadVersion, Conflict, Corrupt, NotReady
from magnetar.metadata.cache import Cache
from magnetar.metadata.store import MetadataStore
from simulation.stores.metadata import MemoryStore, lost_answer
from simulation.stores.metadata_faults import FaultRates
from tests.contract.stores import Engine, Expiring, On, told

pytestmark = pytest.mark.real_clock


def numbers(store: MetadataStore, entries_max: int = 100) -> Cache[int]:
    return Cache(store, "/n", decode=int, encode=lambda number: b"%d" % number, entries_max=entries_max)


def test_record_is_read_once_until_it_changes(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        cache = numbers(store)
        assert await cache.get("/n/a") is None
        assert await cache.get("/n/a") is None
        assert (cache.hits, cache.misses) == (1, 1)
        await store.put("/n/a", b"1")
        await told()
        assert await cache.get("/n/a") == 1
        await store.put("/n/a", b"2")
        await told()
        assert await cache.get("/n/a") == 2
        assert cache.peek("/n/a") == 2
        await store.delete("/n/a")
        await told()
        assert await cache.get("/n/a") is None

    on(body)


async def test_readers_at_same_time_share_one_read() -> None:
    store = MemoryStore()
    await store.put("/n/a", b"1")
    cache = numbers(store)
    assert await asyncio.gather(*(cache.get("/n/a") for _ in range(10))) == [1] * 10
    assert cache.misses == 1


async def test_cancelled_reader_does_not_cancel_others() -> None:
    store = MemoryStore(fault_rates=FaultRates(delay_s=0.001))
    await store.put("/n/a", b"1")
    cache = numbers(store)
    first, second, third = (asyncio.get_running_loop().create_task(cache.get("/n/a")) for _ in range(3))
    await asyncio.sleep(0)
    first.cancel()
    third.cancel()
    await asyncio.wait([first, second, third])
    assert first.cancelled()
    assert third.cancelled()
    assert second.result() == 1


async def test_change_during_read_is_not_hidden_by_its_result() -> None:
    store = MemoryStore()
    await store.put("/n/a", b"1")
    cache = numbers(store)
    slow = asyncio.get_running_loop().create_task(cache.get("/n/a"))
    await asyncio.sleep(0)
    await store.put("/n/a", b"2")
    assert await slow in (1, 2)
    assert await cache.get("/n/a") == 2


def test_lost_session_or_gap_in_events_forgets_everything(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        await store.put("/n/a", b"1")
        cache = numbers(store)
        await cache.get("/n/a")
        await store.expire_session(server_side=True)
        assert len(cache) == 0
        await cache.get("/n/a")
        if isinstance(store, MemoryStore):
            store.resync("/n/a")
            assert len(cache) == 0

    on(body)


async def test_cache_answers_during_outage_and_forgets_at_its_end() -> None:
    store = MemoryStore()
    await store.put("/n/a", b"1")
    cache = numbers(store)
    assert await cache.get("/n/a") == 1
    other = store.peer()
    store.disconnect()
    assert await cache.get("/n/a") == 1
    with pytest.raises(NotReady):
        await cache.get("/n/b")
    await other.put("/n/a", b"2")
    store.reconnect()
    assert await cache.get("/n/a") == 2
    store.lose_session(server_side=True)
    assert await cache.get("/n/a") == 2
    assert cache.hits == 2
    store.regain_session()
    assert len(cache) == 0


async def test_cache_stays_within_its_bound() -> None:
    store = MemoryStore()
    cache = numbers(store, entries_max=3)
    for n in range(10):
        await cache.get(f"/n/{n}")
    assert len(cache) == 3


async def test_records_and_absent_ones_stay_within_bytes() -> None:
    """D15: absent records of long names took 200 MB."""

    store = MemoryStore()
    await store.put("/n/large", b"0" * 600 + b"7")
    cache: Cache[int] = Cache(store, "/n", decode=int, encode=lambda number: b"%d" % number, bytes_max=1_000)
    for n in range(10):
        await cache.get(f"/n/{n}{'x' * 296}")
    assert (len(cache), cache.bytes) == (3, 900)
    assert await cache.get("/n/large") == 7
    assert (len(cache), cache.bytes) == (2, 900 + 9)
    assert await cache.get("/n/" + "x" * 2_000) is None
    assert len(cache) == 2
    await store.put("/n/large", b"8")
    assert await cache.get("/n/large") == 8
    cache.forget()
    assert cache.bytes == 0


async def test_record_that_cannot_be_read_is_corrupt_and_named() -> None:
    store = MemoryStore()
    await store.put("/n/a", b"not a number")
    cache = numbers(store)
    with pytest.raises(Corrupt, match="/n/a"):
        await cache.get("/n/a")
    await store.put("/n/a", b"4")
    assert await cache.get("/n/a") == 4


async def test_read_that_fails_is_not_kept() -> None:
    store = MemoryStore()
    await store.put("/n/a", b"1")
    cache = numbers(store)
    store.faults.append(lost_answer(happened=False))
    results = await asyncio.gather(cache.get("/n/a"), cache.get("/n/a"), return_exceptions=True)
    assert all(isinstance(one, Exception) for one in results)
    assert await cache.get("/n/a") == 1


def test_updates_that_race_are_all_counted(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        cache = numbers(store)
        await asyncio.gather(*(cache.update("/n/a", lambda before: (before or 0) + 1) for _ in range(20)))
        assert await cache.get("/n/a") == 20

    on(body)


async def test_update_may_refuse_and_create_refuses_what_exists() -> None:
    store = MemoryStore()
    cache = numbers(store)
    await cache.create("/n/a", 1)
    with pytest.raises(BadVersion):
        await cache.create("/n/a", 2)

    def refuse(before: int | None) -> int:
        raise Conflict("no")

    with pytest.raises(Conflict, match="no"):
        await cache.update("/n/a", refuse)
    await cache.delete("/n/a")
    await cache.delete("/n/a")
    assert await cache.get("/n/a") is None
    cache.close()
