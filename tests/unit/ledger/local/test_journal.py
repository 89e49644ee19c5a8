"""Group commit: what shares a sync, what a failure does, and that nobody waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import pytest

from magnetar.base.errors import MagnetarError, Misuse, StorageFailed, StorageFull
from magnetar.base.limits import JOURNAL_BATCH_BYTES_MAX, JOURNAL_JOIN_BYTES_MAX, TURN_COST_MAX
from magnetar.ledger.local.engine import LocalLedgers
from magnetar.ledger.run import Run, run_of
from magnetar.ledger.store import Writer
from magnetar.runtime.files import Buffer
from simulation.environment.disk import SimulatedFile, SimulatedFiles
from simulation.environment.inline_runtime import InlineRuntime
from simulation.stores.metadata import MemoryStore
from tests.contract.ledgers import Outcomes, append, read_all

pytestmark = pytest.mark.real_clock

T = TypeVar("T")


class HeldRuntime(InlineRuntime):
    """Does the work of the lane only when told, so that a test sees what gathers meanwhile."""

    def __init__(self, files: SimulatedFiles) -> None:
        super().__init__(files)
        self.hold = False
        self._held: list[Callable[[], None]] = []

    def offload(self, work: Callable[[], T], lane: str) -> asyncio.Future[T]:
        if not self.hold:
            return super().offload(work, lane)
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._held.append(partial(self._do, work, future))
        return future

    @property
    def waiting(self) -> int:
        return len(self._held)

    def step(self) -> None:
        self._held.pop(0)()

    def _do(self, work: Callable[[], T], future: asyncio.Future[T]) -> None:
        try:
            future.set_result(work())
        except MagnetarError as error:
            future.set_exception(error)


class BufferCountingFile(SimulatedFile):
    def pwritev(self, buffers: Sequence[Buffer], offset: int) -> int:
        self._files.counts[f"writes of {len(buffers)} buffers"] += 1
        return super().pwritev(buffers, offset)


class BufferCountingFiles(SimulatedFiles):
    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        file = super().open(path, create=create)
        return BufferCountingFile(self, path, file._inode)


async def start(files: SimulatedFiles, segment_bytes: int = 1 << 20) -> tuple[HeldRuntime, LocalLedgers]:
    runtime = HeldRuntime(files)
    return runtime, await LocalLedgers.start("/data", runtime, MemoryStore(runtime), segment_bytes=segment_bytes)


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_runs_of_one_turn_share_sync_and_later_gather() -> None:
    runtime, engine = await start(SimulatedFiles())
    writers = [await engine.create({}) for _ in range(4)]
    runtime.hold = True
    outcomes = Outcomes()
    for writer in writers:
        writer.append(run_of([b"a"]), outcomes.done)
    await turns()
    for writer in writers * 3:
        writer.append(run_of([b"b"]), outcomes.done)
    await turns()
    assert (runtime.waiting, outcomes.all) == (1, [])
    runtime.step()
    await turns()
    assert (len(outcomes.all), engine.journal.batches) == (4, 1)
    while runtime.waiting:
        runtime.step()
        await turns()
    assert (len(outcomes.all), engine.journal.batches, engine.journal.syncs) == (16, 2, 2)
    assert engine.journal.entries_written == 16
    assert engine.journal.pending_bytes == 0


async def test_small_records_of_batch_are_written_as_one_buffer() -> None:
    files = BufferCountingFiles()
    _, engine = await start(files)
    small, large = await engine.create({}), await engine.create({})
    await append(small, run_of([b"first"]))
    files.counts.clear()
    await append(small, *(run_of([b"entry"]) for _ in range(16)))
    assert files.counts == {"writes of 1 buffers": 1}
    files.counts.clear()
    await append(large, *(run_of([bytes(JOURNAL_JOIN_BYTES_MAX // 2)]) for _ in range(2)))
    assert files.counts == {"writes of 4 buffers": 1}
    assert await read_all(await engine.open(small.ledger, recover=False)) == [b"first", *[b"entry"] * 16]


async def test_batch_stops_at_its_bound_and_larger_run_goes_alone() -> None:
    _, engine = await start(SimulatedFiles(), segment_bytes=4 * JOURNAL_BATCH_BYTES_MAX)
    writer = await engine.create({})
    third = bytes(JOURNAL_BATCH_BYTES_MAX // 3)
    await append(writer, *(run_of([third]) for _ in range(5)))
    assert engine.journal.batches == 3
    await append(writer, run_of([bytes(JOURNAL_BATCH_BYTES_MAX + 1)]), run_of([b"x"]))
    assert engine.journal.batches == 5


async def test_run_larger_than_segment_gets_one_of_its_own() -> None:
    files = SimulatedFiles()
    _, engine = await start(files, segment_bytes=4096)
    writer = await engine.create({})
    big = bytes(range(256)) * 100
    await append(writer, run_of([b"before"]), run_of([big]), run_of([b"after"]))
    assert len(engine.journal.segments) == 3
    engine = await LocalLedgers.start("/data", InlineRuntime(files.crash()), engine._metadata, segment_bytes=4096)
    assert await read_all(await engine.open(writer.ledger, recover=True)) == [b"before", big, b"after"]


async def test_failed_sync_fails_runs_in_flight_and_notifies_once() -> None:
    files = SimulatedFiles()
    runtime, engine = await start(files)
    told: list[MagnetarError] = []
    engine.journal.on_failure.append(told.append)
    one, two = await engine.create({}), await engine.create({})
    await append(one, run_of([b"safe"]))
    files.fail_sync_at = files.syncs + 1
    runtime.hold = True
    outcomes = Outcomes()
    one.append(run_of([b"flying"]), outcomes.done)
    await turns()
    two.append(run_of([b"queued"]), outcomes.done)
    one.append(run_of([b"queued"]), outcomes.done)
    await turns()
    runtime.step()
    await turns()
    assert outcomes.errors == [StorageFailed] * 3
    assert [type(error) for error in told] == [StorageFailed]
    one.append(run_of([b"late"]), outcomes.done)
    assert len(outcomes.all) == 3
    await turns()
    assert outcomes.errors == [StorageFailed] * 4
    assert one.lac == 0
    with pytest.raises(StorageFailed):
        await one.close()
    with pytest.raises(StorageFailed):
        await engine.open(one.ledger, recover=True)
    runtime.hold = False
    reader = await engine.open(one.ledger, recover=False)
    assert await read_all(reader) == [b"safe"]  # what is safe can still be read
    await engine.close()


async def test_full_disk_withdraws_batch_so_refused_runs_stay_absent() -> None:
    files = SimulatedFiles()
    _, engine = await start(files, segment_bytes=8 << 20)
    writer = await engine.create({})
    await append(writer, run_of([b"kept"]))
    files.full_after = sum(len(files.content("/data/journal/" + name)) for name in files.list("/data/journal"))
    size = len(files.content("/data/journal/0000000001.log"))
    outcomes = Outcomes()
    for _ in range(3):  # the second does not fit into what was allocated
        writer.append(run_of([bytes(size // 2)]), outcomes.done)
    await outcomes.upto(3)
    assert outcomes.acked == []
    assert outcomes.errors == [StorageFull] * 3
    files.full_after = None
    files._held.clear()
    again = await LocalLedgers.start("/data", InlineRuntime(files), engine._metadata, segment_bytes=8 << 20)
    assert await read_all(await again.open(writer.ledger, recover=True)) == [b"kept"]


async def test_callback_that_raises_is_reported_and_others_are_answered() -> None:
    _, engine = await start(SimulatedFiles())
    reported: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context["message"]))
    writer = await engine.create({})
    outcomes = Outcomes()

    def broken(first: int, error: MagnetarError | None) -> None:
        raise Misuse("a bug")

    writer.append(run_of([b"a"]), broken)
    writer.append(run_of([b"b"]), outcomes.done)
    await outcomes.upto(1)
    assert outcomes.acked == [1]
    assert reported == [f"the callback of an append to ledger {writer.ledger} failed"]
    assert await append(writer, run_of([b"c"])) == [2]


async def test_run_that_cannot_be_written_down_ends_its_writer_alone() -> None:
    _, engine = await start(SimulatedFiles())
    one, two = await engine.create({}), await engine.create({})
    outcomes = Outcomes()
    one.append(Run(b"abc", [0, 3], [-1], -1), outcomes.done)
    one.append(run_of([b"behind"]), outcomes.done)
    assert await append(two, run_of([b"other"])) == [0]
    await outcomes.upto(2)
    assert outcomes.errors == [Misuse, Misuse]
    assert await append(two, run_of([b"other"])) == [1]
    assert one.lac == -1


async def test_blocks_are_made_ahead_of_writes() -> None:
    files = SimulatedFiles()
    _, engine = await start(files, segment_bytes=64 << 20)
    writer = await engine.create({})
    for _ in range(30):
        await append(writer, run_of([bytes(100_000)]))
        await turns()
        segment = engine.journal.current
        assert segment is not None
        assert len(files.content("/data/journal/0000000001.log")) == segment.allocated > segment.end


async def many_runs_of_two_batches(
    runtime: HeldRuntime, engine: LocalLedgers, outcomes: Outcomes
) -> tuple[Writer, Writer]:
    """Ten runs are durable and seven of them not answered yet; three more are on their way to the disk."""
    one, two = await engine.create({}), await engine.create({})
    runtime.hold = True
    for _ in range(5):
        for writer in (one, two):
            writer.append(run_of([b"x"] * (TURN_COST_MAX // 3 + 1)), outcomes.done)
    await turns()
    for _ in range(3):
        one.append(run_of([b"y"]), outcomes.done)
    runtime.turns.left = TURN_COST_MAX
    runtime.step()
    assert len(outcomes.all) == 0  # its callback comes in the next turn
    await turns(1)
    assert len(outcomes.all) == 3
    assert runtime.waiting == 1  # the disk works on meanwhile
    return one, two


async def test_many_durable_entries_are_answered_over_several_turns_in_order() -> None:
    runtime, engine = await start(SimulatedFiles())
    outcomes = Outcomes()
    one, _ = await many_runs_of_two_batches(runtime, engine, outcomes)
    runtime.step()
    drained = asyncio.ensure_future(engine.journal.drained())
    await turns(1)
    assert 3 < len(outcomes.all) < 10
    assert not drained.done()
    await turns(20)
    assert drained.done()
    assert len(outcomes.all) == 13
    assert outcomes.errors == []
    assert one.lac == 5 * (TURN_COST_MAX // 3 + 1) + 2
    assert engine.journal.pending_bytes == 0


async def test_durable_entries_are_answered_before_those_of_failed_batch() -> None:
    files = SimulatedFiles()
    runtime, engine = await start(files)
    outcomes = Outcomes()
    await many_runs_of_two_batches(runtime, engine, outcomes)
    files.fail_sync_at = files.syncs + 1
    runtime.step()
    await turns(20)
    assert len(outcomes.all) == 13
    assert outcomes.errors == [StorageFailed] * 3
    assert [error is None for _, error in outcomes.all] == [True] * 10 + [False] * 3


async def test_stop_answers_what_is_durable_and_refuses_rest() -> None:
    runtime, engine = await start(SimulatedFiles())
    outcomes = Outcomes()
    one, two = await many_runs_of_two_batches(runtime, engine, outcomes)
    two.append(run_of([b"z"]), outcomes.done)
    engine.journal.stop(StorageFailed("by the test"))
    runtime.step()
    await turns(20)
    assert outcomes.errors == [StorageFailed]
    assert len(outcomes.all) == 14
    assert one.lac == 5 * (TURN_COST_MAX // 3 + 1) + 2


async def test_ledger_deleted_while_its_answers_wait_hears_them_in_order() -> None:
    runtime, engine = await start(SimulatedFiles())
    outcomes = Outcomes()
    one, _ = await many_runs_of_two_batches(runtime, engine, outcomes)
    one.append(run_of([b"z"]), outcomes.done)
    runtime.hold = False
    deleted = asyncio.ensure_future(engine.delete(one.ledger))
    while runtime.waiting:
        runtime.step()
    await turns(30)
    assert len(outcomes.all) == 14
    assert deleted.done()
    await engine.close()
