"""Two processes on the same ledgers, both alive: what the contract of a ledger store says about fencing.

Runs on every engine that several processes may share. The local engine is not one of them: its directory has a lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest

from magnetar.base.errors import Closed, Fenced, NoSuchLedger, Unknown
from magnetar.ledger.cut_points import CutRequest
from magnetar.ledger.store import LedgerStore
from tests.contract.ledgers import SHARED_WORLDS, Outcomes, SharedWorld, World, append, entries, entry, read_all, run_on

Body = Callable[[LedgerStore, LedgerStore], Awaitable[None]]
On = Callable[[Body], None]


@pytest.fixture(params=SHARED_WORLDS)
def on(request: pytest.FixtureRequest, tmp_path: Path) -> On:
    def run(body: Body) -> None:
        async def with_other(world: World, store: LedgerStore) -> None:
            await body(store, await cast("SharedWorld", world).other())

        run_on(request.param, tmp_path, with_other)

    return run


def test_recovery_by_another_process_fences_writer(on: On) -> None:
    async def body(store: LedgerStore, other: LedgerStore) -> None:
        writer = await store.create({})
        await append(writer, entries(writer.ledger, 0, 5))
        reader = await other.open(writer.ledger, recover=True)
        assert (reader.sealed, reader.last_entry) == (True, 4)
        outcomes = Outcomes()
        writer.append(entries(writer.ledger, 5, 2), outcomes.done)
        await outcomes.upto(1)
        assert outcomes.errors == [Fenced]
        assert (await other.open(writer.ledger, recover=False)).last_entry == 4
        assert await read_all(reader) == [entry(writer.ledger, n) for n in range(5)]

    on(body)


def test_recovery_under_appends_keeps_everything_acknowledged(on: On) -> None:
    async def body(store: LedgerStore, other: LedgerStore) -> None:
        for turns in range(8):
            writer = await store.create({})
            outcomes = Outcomes()
            for step in range(6):
                writer.append(entries(writer.ledger, step * 4, 4), outcomes.done)
            await outcomes.upto(turns % 5)
            end = (await other.open(writer.ledger, recover=True)).last_entry
            await outcomes.upto(6)
            assert all(first + 3 <= end for first in outcomes.acked)
            assert all(issubclass(error, (Fenced, Unknown, Closed)) for error in outcomes.errors)
            for handle in (store, other):
                reader = await handle.open(writer.ledger, recover=True)
                assert reader.last_entry == end
                assert await read_all(reader) == [entry(writer.ledger, n) for n in range(end + 1)]

    on(body)


def test_concurrent_recoveries_agree_on_end(on: On) -> None:
    async def body(store: LedgerStore, other: LedgerStore) -> None:
        writer = await store.create({})
        outcomes = Outcomes()
        for step in range(6):
            writer.append(entries(writer.ledger, step * 4, 4), outcomes.done)
        handles = (store, other, other, store)
        readers = await asyncio.gather(*(handle.open(writer.ledger, recover=True) for handle in handles))
        assert len({reader.last_entry for reader in readers}) == 1
        assert all(reader.sealed for reader in readers)

    on(body)


def test_counts_of_recovered_ledger_are_exact_in_both_processes(on: On) -> None:
    async def body(store: LedgerStore, other: LedgerStore) -> None:
        for turns in range(6):
            writer = await store.create({})
            outcomes = Outcomes()
            for step in range(6):
                writer.append(entries(writer.ledger, step * 4, 4), outcomes.done)
            await outcomes.upto(turns)
            recovered = await other.open(writer.ledger, recover=True)
            end = recovered.last_entry
            for reader in (recovered, await store.open(writer.ledger, recover=False)):
                for first, last in [(0, end), (end, end), (end // 2, end), (0, end // 2)] if end >= 0 else []:
                    numbers = range(first, last + 1)
                    messages, size = sum(1 + n % 3 for n in numbers), sum(len(entry(writer.ledger, n)) for n in numbers)
                    assert await reader.count(first, last) == (messages, size)
                    run = await reader.read(first, last, 1 << 20)
                    assert run.counts == [1 + n % 3 for n in numbers]
                    cuts = await reader.cuts(first, last, CutRequest(None, None, 8))
                    before = await reader.count(0, first - 1) if first else (0, 0)
                    assert (cuts.entries[-1], cuts.messages[-1]) == (last + 1, before[0] + messages)

    on(body)


def test_writer_that_meets_other_recovery_rolls_over_without_loss(on: On) -> None:
    """The writer hears of the fence only by its next run; the run goes to a new ledger."""

    async def body(store: LedgerStore, other: LedgerStore) -> None:
        writer = await store.create({})
        await append(writer, entries(writer.ledger, 0, 2))
        reader = await store.open(writer.ledger, recover=False)
        await other.open(writer.ledger, recover=True)
        outcomes = Outcomes()
        for step in range(3):
            writer.append(entries(writer.ledger, 2 + step, 1), outcomes.done)
        await outcomes.upto(3)
        assert outcomes.errors == [Fenced] * 3
        assert reader.last_entry == 1
        newer = await store.create({})
        assert await append(newer, entries(newer.ledger, 0, 3)) == [0]

    on(body)


def test_pages_of_list_hold_ledgers_of_both_processes(on: On) -> None:
    async def body(store: LedgerStore, other: LedgerStore) -> None:
        ours = [(await handle.create({"of": "us"})).ledger for handle in (store, other, store, other, store)]
        await other.create({"of": "another"})
        await store.delete(ours.pop(2))
        pages: list[list[int]] = []
        after = -1
        while page := await other.list({"of": "us"}, after=after, limit=3):
            pages.append(page)
            after = page[-1]
        assert pages == [ours[:3], ours[3:]]

    on(body)


def test_fenced_writer_cannot_close(on: On) -> None:
    async def body(store: LedgerStore, other: LedgerStore) -> None:
        writer = await store.create({})
        await append(writer, entries(writer.ledger, 0, 3))
        await other.open(writer.ledger, recover=True)
        with pytest.raises(Fenced):
            await writer.close()

    on(body)


def test_ledger_ids_of_two_processes_differ_and_grow(on: On) -> None:
    async def body(store: LedgerStore, other: LedgerStore) -> None:
        ids = [(await handle.create({})).ledger for handle in (store, other, store, other)]
        assert ids == sorted(set(ids))

    on(body)


def test_deletion_by_another_process_is_found_out(on: On) -> None:
    async def body(store: LedgerStore, other: LedgerStore) -> None:
        writer = await store.create({"of": "both"})
        await append(writer, entries(writer.ledger, 0, 3))
        await writer.close()
        assert (await other.info(writer.ledger)).custom == {"of": "both"}
        assert await other.list({"of": "both"}) == [writer.ledger]
        await other.delete(writer.ledger)
        with pytest.raises(NoSuchLedger):
            await store.open(writer.ledger, recover=True)
        assert await store.list({"of": "both"}) == []

    on(body)


def test_half_runs_store_keeps_first_entries_of_run_alone(tmp_path: Path) -> None:
    async def body(world: World, store: LedgerStore) -> None:
        other = await cast("SharedWorld", world).other()
        for _ in range(20):
            writer = await store.create({})
            outcomes = Outcomes()
            for step in range(6):
                writer.append(entries(writer.ledger, step * 4, 4), outcomes.done)
            ends.append((await other.open(writer.ledger, recover=True)).last_entry)

    ends: list[int] = []
    run_on("half-runs", tmp_path, body)
    assert any((end + 1) % 4 for end in ends)
