"""Ledgers as on a quorum of bookies: whoever recovers decides what is there, and no old writer changes that."""

from __future__ import annotations

import asyncio
import random

import pytest

from magnetar.base.errors import Fenced, MagnetarError, NoSuchLedger, NotEnoughNodes, TimedOut, Unavailable, Unknown
from magnetar.ledger.run import run_of
from simulation.stores.ledger_memory import LedgerFaultRates
from simulation.stores.ledgers import MemoryLedgers
from tests.contract.ledgers import Outcomes, append, read_all
from tests.contract.virtual import rest, run


def a_shelf(seed: int, **fault_rates: float) -> MemoryLedgers:
    return MemoryLedgers(fault_rates=LedgerFaultRates(**fault_rates), rng=random.Random(seed))


@pytest.mark.parametrize("seed", range(60))
def test_zombie_writing_through_recovery_and_faults_breaks_no_promise(seed: int) -> None:
    async def body() -> None:
        rng = random.Random(seed)
        old = a_shelf(
            seed,
            delay_s=0.02,
            append_s=0.05,
            slow=rng.choice((0, 0.1)),
            fail=rng.choice((0, 0.02)),
            lost_landed=rng.choice((0, 0.02)),
            lost_dropped=rng.choice((0, 0.02)),
            late_ack=rng.choice((0, 0.5)),
        )
        writer = await old.create({})
        outcomes = Outcomes()
        sent = [b"%d" % number for number in range(40)]

        async def zombie() -> None:
            for number in sent:
                writer.append(run_of([number]), outcomes.done)
                await rest(rng.uniform(0, 0.02))

        writing = asyncio.get_running_loop().create_task(zombie())
        await rest(rng.uniform(0, 0.6))
        if rng.random() < 0.3:
            old.cut_off(0.3)
        reader = await old.peer().open(writer.ledger, recover=True)
        found = await read_all(reader)
        await writing
        await outcomes.upto(len(sent))
        await rest(3.0)
        assert len(outcomes.all) == len(sent)  # everybody hears exactly once
        assert found == sent[: len(found)]  # dense, in order, nothing made up
        acked = outcomes.acked
        assert acked == list(range(len(acked)))
        assert len(acked) <= len(found)  # what was acknowledged is in the recovered ledger
        assert outcomes.all[: len(acked)] == [(first, None) for first in acked]  # and nothing after the first failure
        assert await read_all(await old.peer().open(writer.ledger, recover=True)) == found  # for ever
        with pytest.raises((Fenced, TimedOut, NotEnoughNodes)):
            await append(writer, run_of([b"late"]))
        assert await read_all(reader) == found

    run(body())


def test_recovery_keeps_or_drops_entries_in_flight_across_seeds() -> None:
    kept: set[tuple[bool, bool]] = set()  # (is there, was acknowledged)

    async def body(seed: int) -> None:
        old = a_shelf(seed, append_s=0.05)
        writer = await old.create({})
        outcomes = Outcomes()
        writer.append(run_of([b"a"]), outcomes.done)
        reader = await old.peer().open(writer.ledger, recover=True)
        await outcomes.upto(1)
        kept.add((reader.last_entry == 0, bool(outcomes.acked)))

    for seed in range(60):
        run(body(seed))
    assert kept == {(False, False), (True, False), (True, True)}


@pytest.mark.parametrize(
    ("fault", "there", "error"),
    [("fail", False, NotEnoughNodes), ("lost_landed", True, TimedOut), ("lost_dropped", False, TimedOut)],
)
def test_failed_run_kills_writer_and_states_possible_outcome(
    fault: str, there: bool, error: type[MagnetarError]
) -> None:
    async def body() -> None:
        store = a_shelf(1)
        writer = await store.create({})
        await append(writer, run_of([b"a"]))
        setattr(store.fault_rates, fault, 1.0)
        outcomes = Outcomes()
        for _ in range(3):
            writer.append(run_of([b"b"]), outcomes.done)
        await outcomes.upto(3)
        assert outcomes.errors == [error] * 3
        store.fault_rates.clear()
        with pytest.raises(error):
            await append(writer, run_of([b"c"]))
        reader = await store.open(writer.ledger, recover=True)
        assert await read_all(reader) == ([b"a", b"b"] if there else [b"a"])

    run(body())


def test_operations_fail_or_wait_in_outage_and_work_afterwards() -> None:
    seen: set[str] = set()

    async def body(seed: int) -> None:
        store = a_shelf(seed, delay_s=0.01, append_s=0.01)
        writer = await store.create({})
        store.outage(2.0)
        outcomes = Outcomes()
        writer.append(run_of([b"a"]), outcomes.done)
        try:
            await store.create({})
            seen.add("created late")
        except Unavailable:
            seen.add("refused")
        await outcomes.upto(1)
        await rest(3.0)
        seen.add("acknowledged" if outcomes.acked else "failed")
        await append(await store.create({}), run_of([b"b"]))
        assert store.memory.counts["outages"] == 1

    for seed in range(30):
        run(body(seed))
    assert seen == {"created late", "refused", "acknowledged", "failed"}


@pytest.mark.parametrize(("hangs", "error"), [(1.0, Fenced), (0.0, TimedOut)])
def test_isolated_handle_loses_ledger_and_learns_it_later(hangs: float, error: type[MagnetarError]) -> None:
    async def body() -> None:
        old = a_shelf(3, append_s=0.01, outage_hangs=hangs)
        writer = await old.create({})
        await append(writer, run_of([b"a"]))
        old.cut_off(5.0)
        other = old.peer()
        reader = await other.open(writer.ledger, recover=True)
        await append(await other.create({}), run_of([b"elsewhere"]))
        with pytest.raises(error):
            await append(writer, run_of([b"b"]))
        assert await read_all(reader) == [b"a"]
        with pytest.raises(error):
            await append(writer, run_of([b"b"]))

    run(body())


def test_deletion_during_read_returns_data_or_no_such_ledger() -> None:
    seen: set[str] = set()

    async def body(seed: int) -> None:
        store = a_shelf(seed, delay_s=0.1)
        writer = await store.create({})
        await append(writer, run_of([b"a"]))
        reader = await store.open(writer.ledger, recover=True)
        read = asyncio.get_running_loop().create_task(reader.read(0, 0, 10))
        await store.peer().delete(writer.ledger)
        try:
            assert (await read).entry(0) == b"a"
            seen.add("read")
        except NoSuchLedger:
            seen.add("gone")

    for seed in range(20):
        run(body(seed))
    assert seen == {"read", "gone"}


def test_same_seed_tells_same() -> None:
    async def body(seed: int) -> list[object]:
        store = a_shelf(seed, delay_s=0.1, append_s=0.1, slow=0.2, lost_landed=0.1)
        told: list[object] = []
        for _ in range(5):
            writer = await store.create({})
            for number in range(5):
                try:
                    told.append(await append(writer, run_of([b"%d" % number])))
                except (Unknown, Unavailable) as error:
                    told.append(type(error))
        return [*told, asyncio.get_running_loop().time(), dict(store.memory.counts)]

    assert [run(body(seed)) for seed in range(5)] == [run(body(seed)) for seed in range(5)]
