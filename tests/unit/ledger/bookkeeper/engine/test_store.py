"""The ledger store on bookies in Python, beyond the contract: cheap counts, parts of runs, ledgers of others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from magnetar.base.errors import Closed, MagnetarError, NoSuchLedger, NotEnoughNodes
from magnetar.base.ids import Position
from magnetar.base.limits import BOOKKEEPER_RECOVERY_AHEAD_ENTRIES, COUNT_PROBES_MAX, PLAN_FINE_BYTES
from magnetar.ledger.bookkeeper.engine.counted_entry import BLOCK_BYTES_MAX
from magnetar.ledger.bookkeeper.engine.store import BookKeeperLedgers
from magnetar.ledger.bookkeeper.engine.writer import BookKeeperWriter
from magnetar.ledger.bookkeeper.wire import Code, Operation
from magnetar.ledger.cut_points import CutRequest
from magnetar.ledger.managed import ManagedConfig, ManagedLedger
from magnetar.ledger.run import Run, run_of
from magnetar.ledger.store import LedgerStore, Quorum
from simulation.stores.bookie import FakeBookie
from tests.contract.ledgers import Bookies, Outcomes, World, append, entries, entry, read_all, run_on

Body = Callable[[Bookies, BookKeeperLedgers], Awaitable[None]]
On = Callable[[Body], None]
PATH = "/managed-ledgers/public/default/persistent/t"


@pytest.fixture(params=["bookies", "bookies-in-batches"])
def on(request: pytest.FixtureRequest, tmp_path: Path) -> On:
    def run(body: Body) -> None:
        async def typed(world: World, store: LedgerStore) -> None:
            assert isinstance(world, Bookies)
            assert isinstance(store, BookKeeperLedgers)
            await body(world, store)

        run_on(request.param, tmp_path, typed)

    return run


def reads(world: Bookies) -> int:
    return sum(bookie.requests[Operation.READ] + bookie.requests[Operation.BATCH_READ] for bookie in world.bookies)


def ensemble(world: Bookies, writer: BookKeeperWriter) -> list[FakeBookie]:
    """The bookies of a ledger by their positions."""
    by_id = {bookie.id: bookie for bookie in world.bookies}
    return [by_id[bookie] for bookie in writer.handle.metadata.last_segment.bookies]


def sums(ledger: int, first: int, last: int) -> tuple[int, int]:
    numbers = range(first, last + 1)
    return sum(1 + n % 3 for n in numbers), sum(len(entry(ledger, n)) for n in numbers)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while True:
            if condition():
                return
            await asyncio.sleep(0)


async def filled(store: BookKeeperLedgers, count: int, quorum: Quorum | None = None) -> BookKeeperWriter:
    writer = await store.create({}, quorum)
    outcomes = Outcomes()
    for first in range(0, count, 100):
        writer.append(entries(writer.ledger, first, min(100, count - first)), outcomes.done)
    await outcomes.upto((count + 99) // 100)
    assert outcomes.errors == []
    return writer


# Counts


def test_count_of_cold_ledger_reads_two_entries(on: On) -> None:
    async def body(world: Bookies, store: BookKeeperLedgers) -> None:
        writer = await filled(store, 3_000)
        await writer.close()
        reader = await (await world.other()).open(writer.ledger, recover=True)
        for first, last, expected in (
            (0, 2_999, 1),
            (777, 1_999, 2),
            (777, 1_999, 0),
            (0, 2_999, 0),
            (1_000, 2_000, 2),
        ):
            before = reads(world)
            assert await reader.count(first, last) == sums(writer.ledger, first, last)
            assert reads(world) - before == expected

    on(body)


def test_count_of_own_ledger_reads_nothing_at_ends_of_runs(on: On) -> None:
    async def body(world: Bookies, store: BookKeeperLedgers) -> None:
        writer = await filled(store, 1_000)
        reader = await store.open(writer.ledger, recover=False)
        before = reads(world)
        assert await reader.count(0, 999) == sums(writer.ledger, 0, 999)
        assert await reader.count(300, 699) == sums(writer.ledger, 300, 699)
        counts = reader.at_once(300, 699, 4)
        assert counts is not None
        assert counts[0] == sums(writer.ledger, 0, 299)
        assert reads(world) == before

    on(body)


def test_cuts_of_cold_ledger_read_few_entries_once(on: On) -> None:
    async def body(world: Bookies, store: BookKeeperLedgers) -> None:
        writer = await filled(store, 3_000)
        await writer.close()
        reader = await (await world.other()).open(writer.ledger, recover=True)
        assert reader.at_once(0, 2_999, 128) is None
        before = reads(world)
        cuts = await reader.cuts(0, 2_999, CutRequest(None, None, 128))
        assert reads(world) - before <= COUNT_PROBES_MAX + 1
        assert len(cuts.entries) > COUNT_PROBES_MAX // 2
        assert cuts.entries[-1] == 3_000
        for place, messages, size in zip(*cuts, strict=True):
            assert (messages, size) == sums(writer.ledger, 0, place - 1)
        before = reads(world)
        assert reader.at_once(0, 2_999, 128) == ((0, 0), cuts)
        assert await reader.cuts(0, 2_999, CutRequest(None, None, 128)) == cuts
        assert reads(world) == before

    on(body)


def test_cuts_of_cold_ledger_end_near_limit(on: On) -> None:
    async def body(world: Bookies, store: BookKeeperLedgers) -> None:
        writer, size = await store.create({}), 20_000
        for _ in range(30):
            await append(writer, run_of([bytes(size)] * 20, [3] * 20))
        reader = await (await world.other()).open(writer.ledger, recover=True)
        before = reads(world)
        cuts = await reader.cuts(100, 599, CutRequest(3 * 250, None, 8))
        assert reads(world) - before <= 2 * COUNT_PROBES_MAX + 1
        assert cuts.messages[-1] >= 3 * 250
        assert all(messages < 3 * 250 for messages in cuts.messages[:-1])
        assert cuts.entries[-1] - 250 <= PLAN_FINE_BYTES / size + 1
        assert cuts.messages == [3 * place for place in cuts.entries]

    on(body)


# Take-over


def test_take_over_of_open_ledger_does_not_read_it(on: On) -> None:
    async def body(world: Bookies, store: BookKeeperLedgers) -> None:
        async def opened(ledgers: BookKeeperLedgers) -> ManagedLedger:
            runtime, config = world.runtime, ManagedConfig(claim=True)
            metadata = world.metadata.peer()
            return await ManagedLedger.open(PATH, ledgers=ledgers, metadata=metadata, runtime=runtime, config=config)

        old = await opened(store)
        outcomes = Outcomes()

        def done(run: Run, error: MagnetarError | None) -> None:
            outcomes.done(run.first, error)

        in_flight = 20  # bookies know as acknowledged all but these: a recovery reads them
        for first in range(0, 3_000, in_flight):
            old.append(entries(1, first, in_flight), done)
            await outcomes.upto(first // in_flight + 1)
        assert outcomes.errors == []
        before = reads(world)
        new = await opened(await world.other())
        assert (new.entries, new.messages, new.bytes) == (3_000, *sums(1, 0, 2_999))
        assert (new.entries, new.messages, new.bytes) == (old.entries, old.messages, old.bytes)
        copies = 3  # of an entry, at most: each is asked for
        assert reads(world) - before <= copies * (in_flight + BOOKKEEPER_RECOVERY_AHEAD_ENTRIES + 2)
        run = await new.read(Position(new.first.ledger, 2_999), 1 << 20, 10)
        assert run is not None
        assert run.entry(0) == entry(1, 2_999)
        for managed in (old, new):
            await managed.abandon()

    on(body)


# Parts of runs


def test_recovery_keeps_first_entry_of_run_alone(on: On) -> None:
    async def body(world: Bookies, store: BookKeeperLedgers) -> None:
        writer = await store.create({}, Quorum(3, 2, 2))
        await append(writer, entries(writer.ledger, 0, 3))
        _, *failing = ensemble(world, writer)
        for bookie in failing:
            bookie.faults.code = Code.IO_ERROR
        with pytest.raises(NotEnoughNodes):
            await append(writer, entries(writer.ledger, 3, 4))
        assert (writer.lac, writer.length) == (2, sums(writer.ledger, 0, 2)[1])
        for bookie in failing:
            bookie.faults.code = None
        reader = await (await world.other()).open(writer.ledger, recover=True)
        assert reader.last_entry == 3
        assert await reader.count(0, 3) == sums(writer.ledger, 0, 3)
        assert await read_all(reader) == [entry(writer.ledger, n) for n in range(4)]

    on(body)


def test_close_seals_behind_acknowledged_part_of_run(on: On) -> None:
    async def body(world: Bookies, store: BookKeeperLedgers) -> None:
        writer = await store.create({}, Quorum(3, 2, 2))
        ensemble(world, writer)[2].faults.silent = True
        outcomes = Outcomes()
        writer.append(entries(writer.ledger, 0, 3), outcomes.done)
        await until(lambda: writer.handle.lac == 0)
        await writer.close()
        await outcomes.upto(1)
        assert outcomes.errors == [Closed]
        assert writer.lac == 0
        info = await store.info(writer.ledger)
        assert (info.sealed, info.last_entry) == (True, 0)
        for bookie in world.bookies:
            bookie.faults.silent = False
        reader = await store.open(writer.ledger, recover=True)
        assert await reader.count(0, 0) == sums(writer.ledger, 0, 0)

    on(body)


def test_writer_that_starved_seals_at_last_acknowledged_entry(on: On) -> None:
    async def body(world: Bookies, store: BookKeeperLedgers) -> None:
        writer = await store.create({})
        await append(writer, entries(writer.ledger, 0, 3))
        for bookie in world.bookies:
            bookie.faults.code = Code.IO_ERROR
        with pytest.raises(NotEnoughNodes):
            await append(writer, entries(writer.ledger, 3, 2))
        await writer.close()
        await writer.close()
        assert (await store.info(writer.ledger)).last_entry == 2

    on(body)


# Bookies that change


def test_reader_follows_writer_over_replaced_bookie(on: On) -> None:
    async def body(world: Bookies, store: BookKeeperLedgers) -> None:
        writer = await store.create({})
        reader = await store.open(writer.ledger, recover=False)
        await append(writer, entries(writer.ledger, 0, 10))
        spare = FakeBookie(world.bookies[0].address._replace(port=0))
        world.bookies.append(spare)
        await spare.start()
        await spare.register(world.metadata)
        lost = ensemble(world, writer)[0]
        await lost.unregister(world.metadata)
        lost.crash()
        for first in range(10, 40, 10):
            await append(writer, entries(writer.ledger, first, 10))
        assert spare in ensemble(world, writer)
        assert await read_all(reader) == [entry(writer.ledger, n) for n in range(40)]
        assert await reader.count(5, 35) == sums(writer.ledger, 5, 35)
        await writer.close()
        cold = await (await world.other()).open(writer.ledger, recover=False)
        assert await read_all(cold) == [entry(writer.ledger, n) for n in range(40)]

    on(body)


# Others below the same root


def test_ledger_of_another_program_is_read_and_counted(on: On) -> None:
    async def body(world: Bookies, store: BookKeeperLedgers) -> None:
        other = await world.other()
        client = other.client
        handle = await client.create_ledger({"application": b"pulsar", "raw": b"\xff\xfe"})
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        bodies = [b"%d;" % n * (n % 5) for n in range(50)]

        def done(number: int, error: MagnetarError | None) -> None:
            if number == 49:
                stored.set_result(None)

        for body in bodies:
            handle.append(body, done)
        await stored
        await handle.close()
        counting = BookKeeperLedgers(client, count_of=lambda body: 1 + len(body))
        reader = await counting.open(handle.ledger, recover=True)
        assert await read_all(reader) == bodies
        for first, last in ((0, 49), (7, 7), (10, 30)):
            sizes = [len(body) for body in bodies[first : last + 1]]
            assert await reader.count(first, last) == (sum(sizes) + len(sizes), sum(sizes))
        ours = (await store.create({"application": "magnetar"})).ledger
        assert await store.list({"application": "magnetar"}) == [ours]
        assert await store.list({"application": "pulsar"}) == [handle.ledger]
        assert await store.list({}) == [handle.ledger, ours]
        assert (await store.info(handle.ledger)).custom["application"] == "pulsar"

    on(body)


def test_largest_entry_fills_frame_of_bookies(on: On) -> None:
    async def body(world: Bookies, store: BookKeeperLedgers) -> None:
        assert store.entry_bytes_max == store.client.entry_bytes_max - BLOCK_BYTES_MAX
        writer = await store.create({})
        run = Run(bytes(store.entry_bytes_max), [0, store.entry_bytes_max], [2**31], 2**31)
        assert await append(writer, run) == [0]
        reader = await (await world.other()).open(writer.ledger, recover=True)
        assert (await reader.read(0, 0, 0)).counts == [2**31]

    on(body)


def test_deletion_during_cold_count_is_found_out(on: On) -> None:
    async def body(world: Bookies, store: BookKeeperLedgers) -> None:
        writer = await filled(store, 200)
        await writer.close()
        other = await world.other()
        reader = await other.open(writer.ledger, recover=True)
        counting = asyncio.ensure_future(reader.count(10, 150))
        await asyncio.sleep(0)
        await other.delete(writer.ledger)
        with pytest.raises(NoSuchLedger):
            await counting
        with pytest.raises(NoSuchLedger):
            await reader.cuts(0, 10, CutRequest(None, None, 4))

    on(body)
