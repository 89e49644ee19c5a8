"""The contract of a ledger store, on every engine: read beside `magnetar/ledger/store.py`."""

from __future__ import annotations

import asyncio
from itertools import product
from pathlib import Path

import pytest

from magnetar.base.errors import Closed, Fenced, LimitExceeded, Misuse, NoSuchEntry, NoSuchLedger
from magnetar.base.limits import SNAPSHOT_ENTRY_BYTES_MAX
from magnetar.ledger.cut_points import CutRequest
from magnetar.ledger.run import Run, run_of
from magnetar.ledger.store import LedgerStore, Quorum
from tests.contract.ledgers import (
    WORLDS,
    On,
    Outcomes,
    World,
    append,
    entries,
    entry,
    read_all,
    run_on,
)

LARGE_BYTES = 64 * 1024 * 1024


@pytest.fixture(params=list(WORLDS))
def on(request: pytest.FixtureRequest, tmp_path: Path) -> On:
    return lambda body: run_on(request.param, tmp_path, body)


def test_entries_are_numbered_densely_from_zero_in_order_of_appends(on: On) -> None:
    async def body(world: World, store: LedgerStore) -> None:
        writer = await store.create({})
        assert (writer.lac, writer.length) == (-1, 0)
        outcomes = Outcomes()
        sizes = [1, 5, 2, 100, 3] * 6
        firsts, size, runs = [], 0, []
        for count in sizes:
            firsts.append(sum(sizes[: len(firsts)]))
            run = entries(writer.ledger, firsts[-1], count)
            runs.append(run)
            size += len(run.body)
            writer.append(run, outcomes.done)
            assert outcomes.all == []  # never inside append
        await outcomes.upto(len(sizes))
        assert outcomes.acked == firsts
        assert [(run.ledger, run.first) for run in runs] == [(writer.ledger, first) for first in firsts]
        assert (writer.lac, writer.length) == (sum(sizes) - 1, size)
        reader = await store.open(writer.ledger, recover=True)
        assert (reader.last_entry, reader.sealed) == (sum(sizes) - 1, True)
        assert (await reader.count(0, reader.last_entry))[1] == size
        assert await read_all(reader) == [entry(writer.ledger, n) for n in range(sum(sizes))]

    on(body)


def test_run_has_position_before_callback_and_lac_has_moved(on: On) -> None:
    async def body(world: World, store: LedgerStore) -> None:
        writer = await store.create({})
        seen: list[tuple[int, int, int]] = []
        finished = asyncio.get_running_loop().create_future()
        run = run_of([b"a", b"b"])

        def done(first: int, error: object) -> None:
            seen.append((run.ledger, run.first, writer.lac))
            finished.set_result(None)

        writer.append(run, done)
        await finished
        assert seen == [(writer.ledger, 0, 1)]

    on(body)


def test_callback_may_append_again(on: On) -> None:
    async def body(world: World, store: LedgerStore) -> None:
        writer = await store.create({})
        outcomes = Outcomes()

        def again(first: int, error: Exception | None) -> None:
            outcomes.done(first, None)
            if first < 20:
                writer.append(run_of([b"x"]), again)

        writer.append(run_of([b"x"]), again)
        await outcomes.upto(21)
        assert outcomes.acked == list(range(21))

    on(body)


def test_slices_of_run_are_appended_as_what_they_show(on: On) -> None:
    async def body(world: World, store: LedgerStore) -> None:
        writer = await store.create({})
        whole = entries(9, 0, 40)
        assert await append(writer, whole.slice(5, 20), whole.slice(20, 21), whole.slice(30, 40)) == [0, 15, 16]
        reader = await store.open(writer.ledger, recover=False)
        kept = [*range(5, 21), *range(30, 40)]
        assert await read_all(reader) == [entry(9, n) for n in kept]
        assert (await reader.read(0, 100, 1 << 20)).counts == [1 + n % 3 for n in kept]
        assert (await reader.count(0, 1000))[1] == sum(len(entry(9, n)) for n in kept)

    on(body)


def test_quorum_is_met_or_ignored(on: On) -> None:
    async def body(world: World, store: LedgerStore) -> None:
        quorum = Quorum(3, 2, 2) if store.copies_max == 1 else Quorum(2, 2, 1)
        writer = await store.create({"of": "quorum"}, quorum)
        assert await append(writer, entries(writer.ledger, 0, 5)) == [0]
        reader = await store.open(writer.ledger, recover=True)
        assert await read_all(reader) == [entry(writer.ledger, n) for n in range(5)]
        assert (await store.info(writer.ledger)).custom == {"of": "quorum"}

    on(body)


def test_store_takes_entries_of_largest_messages(on: On) -> None:
    async def body(world: World, store: LedgerStore) -> None:
        assert store.entry_bytes_max >= SNAPSHOT_ENTRY_BYTES_MAX
        large = run_of([b"large" * (SNAPSHOT_ENTRY_BYTES_MAX // 5), b""])
        writer = await store.create({})
        assert await append(writer, large) == [0]
        run = await (await store.open(writer.ledger, recover=False)).read(0, 1, 1 << 30)
        assert (run.body, run.offsets) == (large.body, large.offsets)

    on(body)


def test_entry_beyond_store_is_refused_and_writer_goes_on(on: On) -> None:
    async def body(world: World, store: LedgerStore) -> None:
        if store.entry_bytes_max > LARGE_BYTES:
            return  # a store without frames: the memory of this test ends before its limit
        writer, outcomes = await store.create({}), Outcomes()
        for entry_bytes in (store.entry_bytes_max + 1, store.entry_bytes_max):
            run = run_of([b"small", bytes(entry_bytes)])
            if entry_bytes > store.entry_bytes_max:
                with pytest.raises(LimitExceeded):
                    writer.append(run, outcomes.done)
            else:
                writer.append(run, outcomes.done)
        await outcomes.upto(1)
        assert outcomes.all == [(0, None)]
        run = await (await store.open(writer.ledger, recover=True)).read(1, 1, 1)
        assert run.size == store.entry_bytes_max

    on(body)


def test_empty_run_is_callers_mistake(on: On) -> None:
    async def body(world: World, store: LedgerStore) -> None:
        writer = await store.create({})
        with pytest.raises(Misuse):
            writer.append(Run(b"", [0], [], 0), Outcomes().done)
        assert await append(writer, run_of([b""])) == [0]

    on(body)


def test_read_returns_at_least_one_entry_within_limit(on: On) -> None:
    async def body(world: World, store: LedgerStore) -> None:
        writer = await store.create({})
        await append(writer, *(entries(writer.ledger, first, 10) for first in range(0, 100, 10)))
        reader = await store.open(writer.ledger, recover=True)
        want = [entry(writer.ledger, n) for n in range(100)]
        for first in (0, 3, 9, 10, 55, 99):
            for bytes_max in (0, 1, 100, 700, 5000, 1 << 20):
                run = await reader.read(first, 80 if first <= 80 else 99, bytes_max)
                got = [run.entry(index) for index in range(len(run))]
                assert got == want[first : first + len(run)]
                assert run.last <= (80 if first <= 80 else 99)
                assert len(run) == 1 or sum(map(len, got)) <= bytes_max
                if run.last < 80:  # it stopped for size: one more would have been too many
                    assert sum(map(len, got)) + len(want[run.last + 1]) > bytes_max
        with pytest.raises(NoSuchEntry):
            await reader.read(100, 200, 1000)
        with pytest.raises(Misuse):
            await reader.read(5, 4, 1000)
        with pytest.raises(Misuse):
            await reader.read(-1, 4, 1000)

    on(body)


def test_counts_are_exact_on_any_boundary(on: On) -> None:
    async def body(world: World, store: LedgerStore) -> None:
        writer = await store.create({})
        await append(writer, *(entries(writer.ledger, first, 6) for first in range(0, 30, 6)))
        reader = await store.open(writer.ledger, recover=True)
        for first in range(30):
            for last in range(first, 30):
                numbers = range(first, last + 1)
                assert await reader.count(first, last) == (
                    sum(1 + n % 3 for n in numbers),
                    sum(len(entry(writer.ledger, n)) for n in numbers),
                )
        assert await reader.count(0, 1000) == await reader.count(0, 29)
        with pytest.raises(NoSuchEntry):
            await reader.count(30, 30)

    on(body)


def test_cuts_are_exact_and_end_where_limit_is_reached(on: On) -> None:
    async def body(world: World, store: LedgerStore) -> None:
        writer = await store.create({})
        await append(writer, *(entries(writer.ledger, first, 6) for first in range(0, 30, 6)))
        reader = await store.open(writer.ledger, recover=True)
        assert await reader.cuts(30, 40, CutRequest(None, None, 8)) == ([], [], [])
        for first in range(30):
            for last in range(first, 30, 3):
                for messages in (None, 1, 20, 1000):
                    before = (await reader.count(0, first - 1))[0] if first else 0
                    limit = None if messages is None else before + messages
                    cuts = await reader.cuts(first, last, CutRequest(limit, None, 8))
                    for after, *counted in zip(*cuts, strict=True):
                        assert tuple(counted) == await reader.count(0, after - 1)
                    assert cuts.entries == sorted(set(cuts.entries))
                    assert first < cuts.entries[0]
                    assert cuts.entries[-1] == last + 1 or (limit is not None and cuts.messages[-1] >= limit)
                    assert limit is None or all(one < limit for one in cuts.messages[:-1])

    on(body)


def test_immediate_count_equals_measured_count_or_is_absent(on: On) -> None:
    async def body(world: World, store: LedgerStore) -> None:
        writer = await store.create({})
        await append(writer, *(entries(writer.ledger, first, 6) for first in range(0, 30, 6)))
        reader = await store.open(writer.ledger, recover=True)
        said = 0
        for first, last, most in product(range(31), range(31), (2, 8)):
            told = reader.at_once(first, last, most)
            if told is not None:
                said += 1
                assert told[0] == (await reader.count(0, first - 1) if first else (0, 0))
                assert told[1] == await reader.cuts(first, last, CutRequest(None, None, most))
        assert said
        await store.delete(writer.ledger)
        assert reader.at_once(0, 5, 8) is None

    on(body)


def test_many_ledgers_do_not_mix(on: On) -> None:
    async def body(world: World, store: LedgerStore) -> None:
        writers = [await store.create({"n": str(number)}) for number in range(7)]
        outcomes = Outcomes()
        for step in range(20):
            for writer in writers:
                writer.append(entries(writer.ledger, step * 3, 3), outcomes.done)
            await asyncio.sleep(0)
        await outcomes.upto(140)
        for writer in writers:
            reader = await store.open(writer.ledger, recover=True)
            assert await read_all(reader, bytes_max=1000) == [entry(writer.ledger, n) for n in range(60)]

    on(body)


def test_reader_that_does_not_recover_follows_writer(on: On) -> None:
    async def body(world: World, store: LedgerStore) -> None:
        writer = await store.create({})
        reader = await store.open(writer.ledger, recover=False)
        assert (reader.last_entry, reader.sealed) == (-1, False)
        with pytest.raises(NoSuchEntry):
            await reader.read(0, 0, 10)
        await append(writer, run_of([b"a"]))
        assert (await reader.read(0, 0, 10)).entry(0) == b"a"
        await append(writer, run_of([b"b"]))
        assert reader.last_entry == 1
        assert await append(writer, run_of([b"c"])) == [2]  # reading fenced nobody

    on(body)


def test_old_writer_appending_during_recovery_is_either_kept_or_refused(on: On) -> None:
    async def body(world: World, store: LedgerStore) -> None:
        writer = await store.create({})
        outcomes = Outcomes()
        sent = 0
        recovering = asyncio.ensure_future(asyncio.sleep(0))
        for step in range(60):
            if step == 20:
                recovering = asyncio.ensure_future(store.open(writer.ledger, recover=True))
            writer.append(entries(writer.ledger, step * 2, 2), outcomes.done)
            sent += 1
            await asyncio.sleep(0)
        reader = await recovering
        assert reader is not None
        fixed, acked = reader.last_entry, len(outcomes.acked)
        for step in range(60, 65):
            writer.append(entries(writer.ledger, step * 2, 2), outcomes.done)
        await outcomes.upto(sent + 5)
        assert len(outcomes.acked) == acked  # nothing was acknowledged after the recovery returned
        assert outcomes.acked == list(range(0, 2 * acked, 2))
        assert set(outcomes.errors) == {Fenced}
        assert outcomes.all[:acked] == [(first, None) for first in outcomes.acked]  # callbacks in order
        assert fixed == reader.last_entry
        assert fixed >= 2 * acked - 1
        assert await read_all(reader) == [entry(writer.ledger, n) for n in range(fixed + 1)]

    on(body)


def test_recoverers_at_once_agree(on: On) -> None:
    async def body(world: World, store: LedgerStore) -> None:
        writer = await store.create({})
        outcomes = Outcomes()
        for step in range(10):
            writer.append(entries(writer.ledger, step, 1), outcomes.done)
        readers = await asyncio.gather(*(store.open(writer.ledger, recover=True) for _ in range(5)))
        await outcomes.upto(10)
        again = await store.open(writer.ledger, recover=True)
        assert len({(reader.last_entry, reader.sealed) for reader in [*readers, again]}) == 1
        if again.last_entry >= 0:
            assert len({await reader.count(0, again.last_entry) for reader in [*readers, again]}) == 1
        assert again.sealed
        assert again.last_entry >= len(outcomes.acked) - 1

    on(body)


def test_closing_seals_at_last_acknowledged_entry_and_fails_rest(on: On) -> None:
    async def body(world: World, store: LedgerStore) -> None:
        writer = await store.create({})
        await append(writer, entries(writer.ledger, 0, 3))
        outcomes = Outcomes()
        for step in range(3, 30):
            writer.append(entries(writer.ledger, step, 1), outcomes.done)
        await writer.close()
        writer.append(entries(writer.ledger, 30, 1), outcomes.done)
        await outcomes.upto(28)
        kept = len(outcomes.acked)
        assert outcomes.acked == list(range(3, 3 + kept))
        assert outcomes.errors == [Closed] * (28 - kept)
        assert outcomes.all[:kept] == [(first, None) for first in outcomes.acked]
        info = await store.info(writer.ledger)
        assert (info.sealed, info.last_entry) == (True, writer.lac) == (True, 2 + kept)
        await writer.close()
        reader = await store.open(writer.ledger, recover=True)
        assert await read_all(reader) == [entry(writer.ledger, n) for n in range(3 + kept)]

    on(body)


def test_recovered_ledger_cannot_be_closed_by_its_old_writer(on: On) -> None:
    async def body(world: World, store: LedgerStore) -> None:
        writer = await store.create({})
        await append(writer, run_of([b"a"]))
        await store.open(writer.ledger, recover=True)
        with pytest.raises(Fenced):
            await writer.close()
        with pytest.raises(Fenced):
            await append(writer, run_of([b"b"]))

    on(body)


def test_deleting_while_it_is_read_and_written_ends_both(on: On) -> None:
    async def body(world: World, store: LedgerStore) -> None:
        writer = await store.create({"keep": "no"})
        await append(writer, *(entries(writer.ledger, n, 1) for n in range(20)))
        reader = await store.open(writer.ledger, recover=False)
        outcomes = Outcomes()
        reading = asyncio.gather(*(reader.read(n, 19, 1 << 20) for n in range(20)), return_exceptions=True)
        writer.append(entries(writer.ledger, 20, 1), outcomes.done)
        await store.delete(writer.ledger)
        for answer in await reading:
            assert isinstance(answer, Run | NoSuchLedger)
        await outcomes.upto(1)
        with pytest.raises(NoSuchLedger):
            await reader.read(0, 19, 100)
        with pytest.raises(NoSuchLedger):
            await reader.count(0, 19)
        with pytest.raises(NoSuchLedger):
            await append(writer, run_of([b"x"]))
        for recover in (True, False):
            with pytest.raises(NoSuchLedger):
                await store.open(writer.ledger, recover=recover)
        with pytest.raises(NoSuchLedger):
            await store.info(writer.ledger)
        await store.delete(writer.ledger)
        await store.delete(10**9)
        assert await store.list({}) == []

    on(body)


def test_ledgers_are_found_by_what_they_were_made_with(on: On) -> None:
    async def body(world: World, store: LedgerStore) -> None:
        one = (await store.create({"topic": "a", "kind": "data"})).ledger
        two = (await store.create({"topic": "a", "kind": "cursor"})).ledger
        three = (await store.create({"topic": "b", "kind": "data"})).ledger
        assert one < two < three
        assert await store.list({"topic": "a"}) == [one, two]
        assert await store.list({"topic": "a", "kind": "data"}) == [one]
        assert await store.list({}) == [one, two, three]
        assert await store.list({"topic": "c"}) == []
        assert await store.list({}, limit=2) == [one, two]
        assert await store.list({"kind": "data"}, after=one, limit=5) == [three]
        assert await store.list({}, after=three) == []
        info = await store.info(two)
        assert (info.ledger, info.sealed, info.custom) == (two, False, {"topic": "a", "kind": "cursor"})

    on(body)


def test_after_restart_everything_is_there_and_ids_go_on_growing(on: On) -> None:
    async def body(world: World, store: LedgerStore) -> None:
        open_one, sealed = await store.create({"n": "1"}), await store.create({"n": "2"})
        gone = await store.create({"n": "3"})
        for step in range(15):
            for writer in (open_one, sealed, gone):
                await append(writer, entries(writer.ledger, step * 4, 4))
        await sealed.close()
        await store.delete(gone.ledger)
        await store.close()
        for _ in range(2):  # the second start finds what the first one left
            store = await world.start()
            assert await store.list({}) == [open_one.ledger, sealed.ledger]
            assert (await store.info(sealed.ledger)).last_entry == 59
            for ledger in (open_one.ledger, sealed.ledger):
                reader = await store.open(ledger, recover=True)
                assert reader.last_entry == 59
                assert await read_all(reader) == [entry(ledger, n) for n in range(60)]
            newer = await store.create({"n": "4"})
            assert newer.ledger > gone.ledger
            await append(newer, run_of([b"new"]))
            await store.delete(newer.ledger)
            gone = newer
            await store.close()

    on(body)


def test_crash_between_append_and_callback_loses_nothing_that_was_acknowledged(on: On) -> None:
    async def body(world: World, store: LedgerStore) -> None:
        for turns in range(6):
            writers = [await store.create({}) for _ in range(3)]
            outcomes = [Outcomes() for _ in writers]
            for step in range(5):
                for writer, outcome in zip(writers, outcomes, strict=True):
                    writer.append(entries(writer.ledger, step * 3, 3), outcome.done)
                await outcomes[0].upto(step)
            for _ in range(turns):
                await asyncio.sleep(0)
            acked = [len(outcome.acked) for outcome in outcomes]
            store = await world.crash()
            for writer, count in zip(writers, acked, strict=True):
                reader = await store.open(writer.ledger, recover=True)
                assert count * 3 - 1 <= reader.last_entry <= 14
                assert await read_all(reader) == [entry(writer.ledger, n) for n in range(reader.last_entry + 1)]

    on(body)


def test_crash_after_recovery_finds_same_end(on: On) -> None:
    async def body(world: World, store: LedgerStore) -> None:
        writer = await store.create({})
        outcomes = Outcomes()
        for step in range(8):
            writer.append(entries(writer.ledger, step, 1), outcomes.done)
        await outcomes.upto(4)
        store = await world.crash()
        end = (await store.open(writer.ledger, recover=True)).last_entry
        store = await world.crash()
        assert (await store.info(writer.ledger)).last_entry == end
        reader = await store.open(writer.ledger, recover=True)
        assert await read_all(reader) == [entry(writer.ledger, n) for n in range(end + 1)]

    on(body)


def test_closed_store_takes_nothing_more(on: On) -> None:
    async def body(world: World, store: LedgerStore) -> None:
        writer = await store.create({})
        await append(writer, run_of([b"a"]))
        await store.close()
        await store.close()
        with pytest.raises(Closed):
            await append(writer, run_of([b"b"]))
        with pytest.raises(Closed):
            await store.create({})
        with pytest.raises(Closed):
            await store.open(writer.ledger, recover=False)

    on(body)
