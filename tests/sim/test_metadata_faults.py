"""The metadata store in memory when it is nasty: each kind of trouble alone, and what stays true under it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

import pytest

from magnetar.base.errors import NotReady, TimedOut, Unknown
from magnetar.metadata.store import ABSENT, Change, Event, Session
from simulation.stores.metadata import MemoryStore
from simulation.stores.metadata_faults import FaultRates
from tests.contract.stores import listen
from tests.contract.virtual import rest, run

LOST, BACK = Session.CONNECTION_LOST, Session.RECONNECTED


def a_store(seed: int = 1, **fault_rates: float) -> MemoryStore:
    return MemoryStore(fault_rates=FaultRates(**fault_rates), rng=random.Random(seed))


def sessions(store: MemoryStore) -> list[Session]:
    said: list[Session] = []
    store.on_session(said.append)
    return said


def task(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    return asyncio.get_running_loop().create_task(work)


def test_short_break_keeps_session_and_resync_covers_missed_events() -> None:
    async def body() -> None:
        store = a_store(session_s=10)
        other = store.peer(fault_rates=FaultRates())
        await store.put("/e", b"", ephemeral=True)
        said, heard, session = sessions(store), listen(store, "/"), store.session_id
        store.disconnect(seconds=5.0)
        with pytest.raises(NotReady):
            await store.put("/x", b"")
        await other.put("/y", b"")
        assert await other.exists("/e")
        assert not await other.exists("/x")
        await rest(6.0)
        assert (said, heard, store.session_id) == ([LOST, BACK], [Event(Change.RESYNC, "/")], session)
        await other.put("/z", b"")
        assert Event(Change.CREATED, "/z") in heard

    run(body())


def test_long_break_ends_client_session_before_ephemeral_is_removed() -> None:
    async def body() -> None:
        store = a_store(session_s=6)
        other = store.peer(fault_rates=FaultRates())
        await store.put("/e", b"", ephemeral=True)
        said, session = sessions(store), store.session_id
        store.disconnect(seconds=5.5)
        await rest(5.2)
        assert said == [LOST, Session.LOST]
        await rest(0.4)
        assert said == [LOST, Session.LOST, BACK, Session.REESTABLISHED]
        assert store.session_id != session
        node = await store.get("/e")
        assert node is not None
        assert not node.stat.mine
        await rest(1.0)
        assert not await other.exists("/e")

    run(body())


def test_uninformed_owner_believes_until_it_writes_or_learns() -> None:
    async def body(how: str) -> None:
        store = a_store(learn_s=5)
        other = store.peer(fault_rates=FaultRates())
        await store.put("/e", b"", ephemeral=True)
        said, heard, seen, session = sessions(store), listen(store, "/e"), listen(other, "/e"), store.session_id
        store.expire(noticed=False)
        assert (said, heard, store.session_id) == ([], [], session)
        assert seen == [Event(Change.DELETED, "/e")]
        await store.put("/persistent", b"")
        if how == "put":
            with pytest.raises(NotReady):
                await store.put("/e", b"", ephemeral=True, expected=ABSENT)
        elif how == "learn":
            store.learn()
        await rest(0.1 if how else 6.0)
        assert said == [LOST, Session.LOST, BACK, Session.REESTABLISHED]
        assert heard == [Event(Change.RESYNC, "/")]
        assert store.session_id != session
        assert (await store.put("/e", b"", ephemeral=True)).mine

    for how in ("put", "learn", ""):
        run(body(how))


def test_owner_that_is_told_gets_another_session() -> None:
    async def body() -> None:
        store = a_store(away_s=1)
        await store.put("/e", b"", ephemeral=True)
        said = sessions(store)
        store.expire()
        assert said == [LOST, Session.LOST]
        assert not store.content.records
        await rest(2.0)
        assert said == [LOST, Session.LOST, BACK, Session.REESTABLISHED]

    run(body())


def test_writes_in_flight_at_disconnect_are_unknown_for_bounded_time() -> None:
    outcomes = set()

    async def body(seed: int) -> None:
        store = a_store(seed, delay_s=0.1, late=0.5, late_s=0.5)
        putting = task(store.put("/a", b""))
        await rest(0.05)
        store.disconnect()
        if putting.done():
            return  # quick enough
        with pytest.raises(Unknown):
            await putting
        at_once = "/a" in store.content.records
        await rest(1.0)
        later = "/a" in store.content.records
        await rest(60.0)
        assert later == ("/a" in store.content.records)
        outcomes.add((at_once, later))

    for seed in range(60):
        run(body(seed))
    assert outcomes == {(False, False), (False, True), (True, True)}


def test_break_that_is_not_noticed_hangs_operations_until_it_is() -> None:
    async def body() -> None:
        store = a_store(notice_s=3)
        said = sessions(store)
        store.disconnect(noticed=False)
        getting = task(store.get("/a"))
        await rest(0.001)
        assert (getting.done(), said) == (False, [])
        await rest(3.0)
        assert said == [LOST]
        with pytest.raises(Unknown):
            getting.result()

    run(body())


def test_crashed_process_keeps_its_ephemerals_until_its_session_times_out() -> None:
    async def body() -> None:
        store = a_store(session_s=5)
        await store.put("/e", b"", ephemeral=True)
        store.crash()
        after = store.peer()
        await rest(4.0)
        assert await after.exists("/e")
        await rest(2.0)
        assert not await after.exists("/e")

    run(body())


def test_outage_answers_nobody_and_ages_no_session() -> None:
    async def body() -> None:
        store = a_store(session_s=3, unnoticed=0, away_s=0.5)
        other = store.peer()
        await store.put("/e", b"", ephemeral=True)
        store.outage(2.0)
        late = store.peer()
        for handle in (store, other, late):
            with pytest.raises(NotReady):
                await handle.get("/e")
        await rest(3.0)
        for handle in (store, other, late):
            assert await handle.exists("/e")
        assert late.session_id

    run(body())


def test_stale_reads_never_precede_own_writes_events_or_sync() -> None:
    stale = 0

    async def body(seed: int) -> None:
        nonlocal stale
        store = a_store(seed, stale=0.9, lag_s=1.0)
        other = store.peer(fault_rates=FaultRates())
        rng = random.Random(seed)
        await store.put("/n", b"0")
        seen = 0
        for number in range(1, 80):
            await rest(rng.uniform(0, 0.1))
            who = store if rng.random() < 0.1 else other
            await who.put("/n", b"%d" % number)
            if rng.random() < 0.2:
                await store.sync("/n")
                who = store
            node = await store.get("/n")
            assert node is not None
            read = int(node.value)
            assert read >= (number if who is store else seen)
            stale += read < number
            seen = read
        await rest(1.0)
        assert (await store.get("/n")).value == b"79"  # type: ignore[union-attr]
        await other.put("/late/child", b"")
        await rest(1.0)
        assert await store.children("/late") == ["child"]

    for seed in range(10):
        run(body(seed))
    assert stale > 50


def test_answer_that_is_lost_says_so_and_only_store_knows() -> None:
    async def body(applied: bool) -> None:
        store = a_store(lost_applied=float(applied), lost_dropped=float(not applied))
        with pytest.raises(TimedOut):
            await store.put("/a", b"")
        store.fault_rates.clear()
        assert await store.exists("/a") is applied

    run(body(True))
    run(body(False))


def test_same_seed_tells_same() -> None:
    async def body(seed: int) -> list[object]:
        store = a_store(seed, delay_s=0.1, watch_s=1.0, coalesce=0.5, stale=0.5, lost_applied=0.1, disconnect=0.05)
        other = store.peer()
        heard, told = listen(other, "/"), []
        for number in range(50):
            for handle in (store, other):
                try:
                    told.append(await handle.put(f"/{number % 3}", b"%d" % number))
                    told.append(await handle.children("/"))
                except (Unknown, NotReady) as error:
                    told.append(type(error))
        return [heard, told, dict(store.content.counts), asyncio.get_running_loop().time()]

    assert [run(body(seed)) for seed in range(5)] == [run(body(seed)) for seed in range(5)]
