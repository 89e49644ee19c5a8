"""What stands on the metadata contract, on a store that does everything the contract allows: many seeds, short.

Chaos first: delays, stale reads, late and coalesced events, lost answers (applied, not applied, applied late), broken
connections, sessions that expire with and without their owner knowing, an outage. Then quiet, and what must hold then.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from magnetar.base.errors import BadVersion, Conflict, MagnetarError, NotFound, Unavailable, Unknown
from magnetar.metadata.cache import Cache
from magnetar.metadata.election import Election
from magnetar.metadata.election import State as Standing
from magnetar.metadata.lock import Lock, Locks, State
from magnetar.metadata.put_checked import put_checked
from magnetar.metadata.store import ABSENT
from simulation.environment.disk import SimulatedFiles
from simulation.environment.inline_runtime import InlineRuntime
from simulation.stores.metadata import MemoryStore
from simulation.stores.metadata_faults import FaultRates
from simulation.stores.metadata_tree import Record
from tests.contract import virtual
from tests.contract.stores import listen
from tests.contract.virtual import rest

SEEDS = range(60)
CHAOS_S, QUIET_S = 20.0, 40.0

Story = Callable[[list[MemoryStore], random.Random], Awaitable[None]]


def a_nastiness(rng: random.Random) -> FaultRates:
    """Each kind of trouble is on or off: together they hide each other."""

    def sometimes(value: float) -> float:
        return value if rng.random() < 0.6 else 0.0

    return FaultRates(
        delay_s=sometimes(0.05),
        watch_s=sometimes(1.0),
        coalesce=sometimes(0.5),
        stale=sometimes(0.7),
        lost_applied=sometimes(0.05),
        lost_dropped=sometimes(0.05),
        late=sometimes(0.7),
        disconnect=sometimes(0.02),
        expire=sometimes(0.01),
        expire_untold=sometimes(0.01),
        session_s=rng.choice((2.0, 10.0)),
    )


def in_chaos(seed: int, handles: int, story: Story) -> MemoryStore:
    """`story` on so many handles, then the same store calmed down: it returns when all has been quiet for long."""

    async def main() -> MemoryStore:
        rng = random.Random(seed)
        fault_rates = a_nastiness(rng)
        first = MemoryStore(fault_rates=fault_rates, rng=random.Random(f"{seed}:faults"))
        stores = [first, *(first.peer() for _ in range(handles - 1))]
        if rng.random() < 0.3:
            asyncio.get_running_loop().call_later(CHAOS_S / 2, first.outage, rng.choice((1.0, 15.0)))
        asyncio.get_running_loop().call_later(CHAOS_S, fault_rates.clear)
        await story(stores, rng)
        return first

    return virtual.run(main())


async def until_calm() -> None:
    now = asyncio.get_running_loop().time()
    await rest(max(0.0, CHAOS_S + QUIET_S - now))


def chaos_lasts() -> bool:
    return asyncio.get_running_loop().time() < CHAOS_S


@pytest.mark.parametrize("seed", SEEDS)
def test_checked_put_says_truth_whatever_is_lost_on_way(seed: int) -> None:
    async def story(stores: list[MemoryStore], rng: random.Random) -> None:
        written: list[bytes] = []  # what the store held, one after the other
        ok: list[bytes] = []
        refused: list[bytes] = []

        def watch(path: str, record: Record | None) -> None:
            assert record is not None
            written.append(record.value)

        stores[0].content.watchers.append(watch)

        async def writer(store: MemoryStore, name: int) -> None:
            number = 0
            while chaos_lasts():
                await rest(rng.uniform(0, 0.3))
                number += 1
                value = b"%d/%d" % (name, number)
                try:
                    await store.sync("/r")
                    node = await store.get("/r")
                    await put_checked(store, "/r", value, expected=ABSENT if node is None else node.stat.version)
                except Unknown:
                    pass
                except MagnetarError:
                    refused.append(value)
                else:
                    ok.append(value)

        await asyncio.gather(*(writer(store, name) for name, store in enumerate(stores)))
        await until_calm()
        assert ok
        assert len(written) == len(set(written))  # nothing was written twice
        assert not set(ok) - set(written)
        assert not set(refused) & set(written)  # a definite refusal means that it never was there

    in_chaos(seed, 3, story)


@pytest.mark.parametrize("seed", SEEDS)
def test_lock_has_one_holder_that_matches_store(seed: int) -> None:
    async def story(stores: list[MemoryStore], rng: random.Random) -> None:
        runtime = InlineRuntime(SimulatedFiles())
        everybody = [Locks(store, runtime) for store in stores]

        async def holder(locks: Locks, name: bytes) -> None:
            while chaos_lasts():
                await rest(rng.uniform(0, 0.5))
                lock: Lock | None = None
                try:
                    lock = await locks.acquire("/l/a", name)
                    await rest(rng.uniform(0, 1.0))
                    if rng.random() < 0.3:
                        await locks.update(lock, name + b"!")
                    if rng.random() < 0.7:
                        await locks.release(lock)
                except (Conflict, Unknown, Unavailable):
                    pass

        await asyncio.gather(*(holder(locks, b"%d" % n) for n, locks in enumerate(everybody)))
        await until_calm()
        holding = [number for number, locks in enumerate(everybody) if locks.held()]
        record = stores[0].content.records.get("/l/a")
        assert len(holding) <= 1, f"held by {holding}, the store says {record}"
        owners = [number for number, store in enumerate(stores) if record and store.session_id == record.session]
        assert holding == owners, f"held by {holding}, the store says {record}: {owners}"
        for locks in everybody:
            await locks.close()
        assert "/l/a" not in stores[0].content.records
        last = Locks(stores[0], runtime)
        assert (await last.acquire("/l/a", b"last")).state is State.VALID
        await last.close()

    in_chaos(seed, 3, story)


@pytest.mark.parametrize("seed", range(200))
def test_lock_nobody_else_wants_is_never_said_to_be_anothers(seed: int) -> None:
    async def main() -> None:
        fault_rates = FaultRates(delay_s=0.1, lost_dropped=0.3, late=1.0, late_s=0.2, lost_s=0.05)
        store = MemoryStore(fault_rates=fault_rates, rng=random.Random(seed))
        locks = Locks(store, InlineRuntime(SimulatedFiles()))
        for _ in range(3):
            try:
                lock = await locks.acquire("/l/a", b"me")
                await locks.release(lock)
            except Unknown:
                await rest(1.0)
        await locks.close()

    virtual.run(main())


def test_replaced_record_is_noticed_when_only_creation_is_notified() -> None:
    async def main() -> None:
        store = MemoryStore(fault_rates=FaultRates(watch_s=0.5, coalesce=1.0), rng=random.Random(1))
        rival = store.peer(fault_rates=FaultRates())
        told: list[Lock] = []
        locks = Locks(store, InlineRuntime(SimulatedFiles()))
        lock = await locks.acquire("/l/a", b"me", told.append)
        await rest(1.0)
        await rival.delete("/l/a")
        await rival.put("/l/a", b"rival", ephemeral=True)
        await rest(1.0)
        assert store.content.counts["events coalesced"]
        assert told == [lock]
        await locks.close()

    virtual.run(main())


def test_candidate_leaving_during_put_leaves_no_leader() -> None:
    async def main() -> None:
        for turns in range(12):
            store = MemoryStore(fault_rates=FaultRates(delay_s=0.1), rng=random.Random(turns))
            election = Election(store, InlineRuntime(SimulatedFiles()), "/leader", b"one")
            election.start()
            await rest(turns * 0.05)
            await election.close()
            await rest(1.0)
            assert "/leader" not in store.content.records

    virtual.run(main())


@pytest.mark.parametrize("seed", SEEDS)
def test_election_ends_with_one_leader_whom_everybody_follows(seed: int) -> None:
    async def story(stores: list[MemoryStore], rng: random.Random) -> None:
        runtime = InlineRuntime(SimulatedFiles())
        running: list[Election] = []

        async def candidate(store: MemoryStore, name: bytes) -> None:
            while True:
                election = Election(store, runtime, "/leader", name)
                election.start()
                await rest(rng.uniform(0, 8.0))
                if not chaos_lasts():
                    running.append(election)
                    return
                await election.close()

        await asyncio.gather(*(candidate(store, b"%d" % n) for n, store in enumerate(stores)))
        await until_calm()
        record = stores[0].content.records.get("/leader")
        assert record is not None, "nobody leads"
        assert {election.leader_value for election in running} == {record.value}
        assert [election.state for election in running].count(Standing.LEADING) == 1
        for election in running:
            await election.close()
        assert "/leader" not in stores[0].content.records

    in_chaos(seed, 3, story)


@pytest.mark.parametrize("seed", SEEDS)
def test_cache_converges_and_its_updates_lose_nothing(seed: int) -> None:
    async def story(stores: list[MemoryStore], rng: random.Random) -> None:
        caches = [
            Cache(store, "/n", decode=lambda raw: raw.decode().split(), encode=lambda items: " ".join(items).encode())
            for store in stores
        ]
        added: list[str] = []
        doubtful: list[str] = []

        async def user(cache: Cache[list[str]], name: int) -> None:
            number = 0
            while chaos_lasts():
                await rest(rng.uniform(0, 0.5))
                number += 1
                item = f"{name}/{number}"
                try:
                    await cache.get("/n/a")
                    await cache.update("/n/a", lambda before, item=item: [*(before or []), item])  # type: ignore[misc]
                except Unknown:
                    doubtful.append(item)
                except (Conflict, Unavailable):
                    pass
                else:
                    added.append(item)

        await asyncio.gather(*(user(cache, name) for name, cache in enumerate(caches)))
        await until_calm()
        truth = stores[0].content.records["/n/a"].value.decode().split()
        assert [await cache.get("/n/a") for cache in caches] == [truth] * len(caches)
        assert len(truth) == len(set(truth))
        assert set(added) <= set(truth) <= set(added) | set(doubtful)

    in_chaos(seed, 3, story)


@pytest.mark.parametrize("seed", range(20))
def test_update_that_changes_nothing_is_true_when_it_returns(seed: int) -> None:
    """An answer without a write is as good as one with: no stale read may be taken for the record."""

    async def main() -> None:
        store = MemoryStore(fault_rates=FaultRates(stale=1.0, lag_s=5.0, watch_s=1.0), rng=random.Random(seed))
        rival = store.peer(fault_rates=FaultRates())
        cache: Cache[int] = Cache(store, "/n", decode=int, encode=lambda number: b"%d" % number)
        await rival.put("/n/a", b"1")
        assert await cache.update("/n/a", lambda before: 1) == 1
        await rival.put("/n/a", b"2")
        await cache.update("/n/a", lambda before: 1)
        assert store.content.records["/n/a"].value == b"1"
        cache.close()

    virtual.run(main())


def test_chaos_is_chaotic() -> None:
    """Every fault of the list is met somewhere among the seeds: else the tests above say nothing."""
    seen: set[str] = set()

    async def story(stores: list[MemoryStore], rng: random.Random) -> None:
        async def user(store: MemoryStore) -> None:
            listen(store, "/")
            while chaos_lasts():
                await rest(rng.uniform(0, 0.3))
                try:
                    await store.get("/x")
                    await store.put("/x", b"")
                    await store.put("/e", b"", ephemeral=True)
                    await store.delete("/e")
                except (BadVersion, NotFound, Unavailable, Unknown):
                    pass

        await asyncio.gather(*(user(store) for store in stores))
        seen.update(stores[0].content.counts)

    for seed in SEEDS:
        in_chaos(seed, 3, story)
    assert seen == {
        "answers lost, applied",
        "answers lost, not applied",
        "disconnections",
        "disconnections unnoticed",
        "events coalesced",
        "events late",
        "outages",
        "refused while away",
        "resyncs",
        "sessions expired",
        "sessions expired untold",
        "sessions timed out",
        "stale reads",
        "writes applied late",
    }
