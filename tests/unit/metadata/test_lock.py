"""Locks across lost sessions, lost answers and rivals (SC-D2)."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from magnetar.base.errors import BadVersion, Conflict, NotFound, Unknown
from magnetar.metadata.lock import Lock, Locks, State
from magnetar.metadata.store import ABSENT, Change, Event, MetadataStore
from magnetar.runtime.system_runtime import RealRuntime
from simulation.stores.metadata import MemoryStore, lost_answer
from tests.contract.stores import Engine, Expiring, On, listen, until

pytestmark = pytest.mark.real_clock


async def settled(locks: Locks) -> None:
    """Until everything that had to be looked at again has been."""
    await until(lambda: not locks._working and not locks._waiting)


async def replace_by_other(store: MetadataStore, path: str) -> None:
    """Puts a record that is no lock in the place of a lock, whose owner creates it again as soon as it is deleted."""
    while True:
        with suppress(NotFound):
            await store.delete(path)
        with suppress(BadVersion):
            await store.put(path, b"other", expected=ABSENT)
            return


async def value_of(store: MetadataStore, path: str) -> tuple[bytes, bool] | None:
    node = await store.get(path)
    return None if node is None else (node.value, node.stat.mine)


def test_lock_is_taken_once_and_released(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        locks = Locks(store, RealRuntime())
        lock = await locks.acquire("/l/a", b"me")
        assert lock.state is State.VALID
        with pytest.raises(Conflict):
            await locks.acquire("/l/a", b"me")
        await locks.release(lock)
        await locks.release(lock)
        assert lock.state is State.RELEASED
        assert await store.get("/l/a") is None
        assert (await locks.acquire("/l/a", b"me")).state is State.VALID
        await locks.close()
        assert await store.get("/l/a") is None

    on(body)


def test_session_that_expired_on_server_gets_its_locks_back_untold(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        told: list[Lock] = []
        locks = Locks(store, RealRuntime())
        held = [await locks.acquire(f"/l/{n}", b"me", told.append) for n in range(5)]
        await store.expire_session(server_side=True)
        await settled(locks)
        assert told == []
        assert all(lock.state is State.VALID for lock in held)
        assert [await value_of(store, f"/l/{n}") for n in range(5)] == [(b"me", True)] * 5
        await locks.close()

    on(body)


def test_my_own_record_of_older_session_is_made_anew(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        locks = Locks(store, RealRuntime())
        lock = await locks.acquire("/l/a", b"me")
        before = lock.version
        await store.expire_session(server_side=False)
        await settled(locks)
        assert lock.state is State.VALID
        assert lock.version != before
        assert await value_of(store, "/l/a") == (b"me", True)
        await locks.close()

    on(body)


def test_record_deleted_under_its_holder_is_made_again(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        locks = Locks(store, RealRuntime())
        lock = await locks.acquire("/l/a", b"me")
        heard = listen(store, "/l/a")
        await store.delete("/l/a")
        await until(lambda: Event(Change.CREATED, "/l/a") in heard)
        await settled(locks)
        assert lock.state is State.VALID
        assert await value_of(store, "/l/a") == (b"me", True)
        await locks.close()

    on(body)


def test_intermediate_rival_wins_and_holder_is_notified_once(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        if not isinstance(store, MemoryStore):
            return
        told: list[Lock] = []
        locks = Locks(store, RealRuntime())
        lock = await locks.acquire("/l/a", b"me", told.append)
        rival = store.peer()
        store.lose_session(server_side=True)
        await rival.put("/l/a", b"rival", ephemeral=True)
        store.regain_session()
        await settled(locks)
        assert told == [lock]
        assert lock.state is State.RELEASED
        assert locks.held() == []
        store.reconnect()
        await settled(locks)
        assert told == [lock]
        assert await value_of(rival, "/l/a") == (b"rival", True)
        await locks.close()

    on(body)


def test_somebody_elses_record_is_busy(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        await store.put("/l/persistent", b"me")
        await store.put("/l/other", b"them", ephemeral=True)
        await store.expire_session(server_side=False)  # "/l/other" is now of a session that is not ours
        locks = Locks(store, RealRuntime())
        for path in ("/l/persistent", "/l/other"):
            with pytest.raises(Conflict):
                await locks.acquire(path, b"me")
        assert locks.held() == []
        await locks.close()

    on(body)


@pytest.mark.parametrize("happened", [True, False])
async def test_lost_answer_while_acquiring_is_looked_up(happened: bool) -> None:
    store = MemoryStore()
    locks = Locks(store, RealRuntime())
    store.faults.append(lost_answer(happened=happened))
    lock = await locks.acquire("/l/a", b"me")
    assert lock.state is State.VALID
    assert await value_of(store, "/l/a") == (b"me", True)
    await locks.close()


async def test_store_that_stays_silent_while_acquiring_leaves_nothing_held() -> None:
    store = MemoryStore()
    locks = Locks(store, RealRuntime())
    store.faults.extend([lost_answer(happened=False)] * 2)
    with pytest.raises(Unknown):
        await locks.acquire("/l/a", b"me")
    assert locks.held() == []
    assert (await locks.acquire("/l/a", b"me")).state is State.VALID
    await locks.close()


async def test_silence_after_session_is_no_loss_and_is_rechecked() -> None:
    store = MemoryStore()
    told: list[Lock] = []
    locks = Locks(store, RealRuntime())
    lock = await locks.acquire("/l/a", b"me", told.append)
    store.lose_session(server_side=True)
    store.faults.append(lost_answer(happened=False))
    store.regain_session()
    await settled(locks)
    assert (lock.state, lock.doubtful, told) == (State.VALID, True, [])
    store.reconnect()
    await settled(locks)
    assert (lock.state, lock.doubtful, told) == (State.VALID, False, [])
    assert await value_of(store, "/l/a") == (b"me", True)
    await locks.close()


async def test_release_that_meets_revalidation_leaves_no_record_behind() -> None:
    store = MemoryStore()
    locks = Locks(store, RealRuntime())
    for turns in range(8):
        lock = await locks.acquire("/l/a", b"me")
        await store.expire_session(server_side=True)
        for _ in range(turns):
            await asyncio.sleep(0)
        await locks.release(lock)
        await settled(locks)
        assert await store.get("/l/a") is None
    await locks.close()


def test_another_value_is_written_only_while_held(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        locks = Locks(store, RealRuntime())
        lock = await locks.acquire("/l/a", b"1")
        await locks.update(lock, b"2")
        assert await value_of(store, "/l/a") == (b"2", True)
        await store.expire_session(server_side=True)
        await settled(locks)
        assert await value_of(store, "/l/a") == (b"2", True)
        await locks.release(lock)
        with pytest.raises(Conflict):
            await locks.update(lock, b"3")
        await locks.close()

    on(body)


def test_lock_is_confirmed_by_store_or_lost_for_certain(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        told: list[Lock] = []
        locks = Locks(store, RealRuntime())
        lock = await locks.acquire("/l/a", b"me", told.append)
        assert await locks.confirm(lock)
        await store.delete("/l/a")
        assert await locks.confirm(lock)
        assert await value_of(store, "/l/a") == (b"me", True)
        await replace_by_other(store, "/l/a")
        assert not await locks.confirm(lock)
        assert told == [lock]
        assert not await locks.confirm(lock)
        assert told == [lock]
        await locks.close()

    on(body)


@pytest.mark.parametrize("happened", [False, True])
async def test_unanswered_release_is_finished_when_store_answers(happened: bool) -> None:
    store = MemoryStore()
    locks = Locks(store, RealRuntime())
    lock = await locks.acquire("/l/a", b"me")
    store.faults.append(lost_answer(happened=happened))
    with pytest.raises(Unknown):
        await locks.release(lock)
    await until(lambda: not locks._leaving)
    assert await store.get("/l/a") is None
    await locks.close()


async def test_reacquired_lock_survives_its_unanswered_release() -> None:
    store = MemoryStore()
    locks = Locks(store, RealRuntime())
    lock = await locks.acquire("/l/a", b"me")
    store.faults.append(lost_answer(happened=False))
    with pytest.raises(Unknown):
        await locks.release(lock)
    again = await locks.acquire("/l/a", b"me")
    assert not locks._leaving
    await locks._remove_again(lock)
    assert again.state is State.VALID
    assert await value_of(store, "/l/a") == (b"me", True)
    await locks.close()
