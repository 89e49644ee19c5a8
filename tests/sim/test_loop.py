"""The virtual loop: the order it promises, what it calls an error, and one run for a seed whatever the hash seed."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import itertools
import os
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from simulation.environment.loop import (
    ForbiddenCall,
    NoProgress,
    VirtualLoop,
    pass_time,
)
from simulation.environment.random_streams import RandomStreams

ROOT = Path(__file__).parents[2]


def play(body: Coroutine[Any, Any, Any], **how: Any) -> Any:
    loop = VirtualLoop(**how)
    try:
        return loop.run_until_complete(body)
    finally:
        loop.close()


# Time


def test_time_passes_only_when_nothing_is_ready() -> None:
    async def body() -> list[tuple[float, str]]:
        loop = asyncio.get_running_loop()
        seen: list[tuple[float, str]] = []
        loop.call_later(5, lambda: seen.append((loop.time(), "late")))
        for _ in range(100):
            await asyncio.sleep(0)
        seen.append((loop.time(), "spun"))
        await pass_time(7)
        seen.append((loop.time(), "slept"))
        return seen

    assert play(body()) == [(0, "spun"), (5, "late"), (7, "slept")]


def test_ready_callbacks_and_equal_timers_run_in_creation_order() -> None:
    async def body() -> list[str]:
        loop = asyncio.get_running_loop()
        seen: list[str] = []
        loop.call_at(2, seen.append, "third")
        loop.call_at(1, seen.append, "first")
        loop.call_at(1, seen.append, "second")
        for name in "abc":
            loop.call_soon(seen.append, name)
        await pass_time(3)
        return seen

    assert play(body()) == ["a", "b", "c", "first", "second", "third"]


def test_cancelled_timer_neither_rings_nor_moves_clock() -> None:
    async def body() -> float:
        loop = asyncio.get_running_loop()
        for _ in range(5_000):  # enough of them that they are swept
            loop.call_later(10, pytest.fail).cancel()
        loop.call_later(1, lambda: None)
        await pass_time(2)
        return loop.time()

    assert play(body()) == 2


def test_timer_in_past_fires_immediately_without_moving_time_back() -> None:
    async def body() -> list[float]:
        loop = asyncio.get_running_loop()
        seen: list[float] = []
        await pass_time(5)
        loop.call_at(1, lambda: seen.append(loop.time()))
        await pass_time(1)
        return [*seen, loop.time()]

    assert play(body()) == [5, 6]


def test_deadlock_is_error_that_names_who_waits_and_where() -> None:
    async def waits_for_nobody() -> None:
        await asyncio.get_running_loop().create_future()

    async def body() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(waits_for_nobody(), name="the lonely one")

    with pytest.raises(NoProgress, match=r"the lonely one at .*waits_for_nobody:\d+"):
        play(body())


def test_timers_that_ring_for_ever_end_at_limit() -> None:
    async def body() -> None:
        for _ in itertools.count():
            await pass_time(1)

    with pytest.raises(NoProgress, match="only timers ring"):
        play(body(), limit_s=50)


def test_world_that_spins_without_time_passing_is_stuck() -> None:
    async def body() -> None:
        for _ in itertools.count():
            await asyncio.sleep(0)

    with pytest.raises(NoProgress, match="spins"):
        play(body(), spin_calls_max=1_000)


# What asyncio offers


def test_tools_of_asyncio_work_on_it() -> None:
    async def gives(value: int, after: float) -> int:
        await pass_time(after)
        return value

    async def body() -> None:
        loop = asyncio.get_running_loop()
        assert await asyncio.gather(gives(1, 2), gives(2, 1)) == [1, 2]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await gives(0, 2)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(gives(0, 2), 1)
        assert await asyncio.wait_for(gives(3, 1), 2) == 3
        done, pending = await asyncio.wait(
            [loop.create_task(gives(4, 1)), loop.create_task(gives(5, 9))], return_when=asyncio.FIRST_COMPLETED
        )
        assert [task.result() for task in done] == [4]
        assert await asyncio.shield(pending.pop()) == 5
        queue: asyncio.Queue[int] = asyncio.Queue(1)
        async with asyncio.TaskGroup() as group:
            group.create_task(queue.put(6))
            assert await queue.get() == 6
        event, lock = asyncio.Event(), asyncio.Lock()
        loop.call_later(1, event.set)
        async with lock:
            await event.wait()
        for result in asyncio.as_completed([gives(7, 2), gives(8, 1)]):
            assert await result in (7, 8)

    play(body())


def test_task_has_name_and_context_it_was_given() -> None:
    colour: contextvars.ContextVar[str] = contextvars.ContextVar("colour", default="none")

    async def body() -> None:
        async def seen() -> tuple[str, str]:
            task = asyncio.current_task()
            assert task is not None
            return task.get_name(), colour.get()

        context = contextvars.copy_context()
        context.run(colour.set, "red")
        assert await asyncio.get_running_loop().create_task(seen(), name="me", context=context) == ("me", "red")
        assert colour.get() == "none"

    play(body())


def test_runner_of_asyncio_drives_it() -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(pass_time(100))


def test_async_generator_left_in_middle_is_closed() -> None:
    closed: list[float] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await pass_time(1)
            closed.append(asyncio.get_running_loop().time())

    async def body() -> None:
        async for _ in numbers():
            break
        await pass_time(5)

    play(body())
    assert closed == [1]


# Errors


def test_what_nobody_catches_is_error_of_world() -> None:
    loop = VirtualLoop()

    async def fails() -> None:
        raise ValueError("of a task")

    async def body() -> None:
        here = asyncio.get_running_loop()
        here.call_soon(lambda: {}["of a call"])
        here.create_task(fails())  # noqa: RUF006
        await pass_time(1)

    loop.run_until_complete(body())
    gc.collect()
    loop.close()
    assert [type(failure.exception) for failure in loop.errors] == [KeyError, ValueError]


@pytest.mark.parametrize(
    "reach",
    [
        lambda loop: loop.call_soon_threadsafe(id),
        lambda loop: loop.run_in_executor(None, id),
        lambda loop: loop.add_signal_handler(2, id),
        lambda loop: loop.subprocess_exec(None, "true"),
        lambda loop: loop.sock_connect(None, None),
        lambda loop: loop.add_reader(0, id),
        lambda loop: loop.getaddrinfo("localhost", 1),
    ],
)
def test_threads_sockets_signals_and_processes_are_refused(reach: Callable[[VirtualLoop], object]) -> None:
    loop = VirtualLoop()
    with pytest.raises(ForbiddenCall):
        reach(loop)
    loop.close()


def test_whoever_is_left_at_end_is_buried_without_word() -> None:
    ends: list[str] = []

    async def stubborn() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            try:
                await pass_time(1)
            finally:
                ends.append("closed")

    async def body() -> None:
        asyncio.get_running_loop().create_task(stubborn())
        await pass_time(1)

    loop = VirtualLoop()
    loop.run_until_complete(body())
    loop.close()
    gc.collect()
    assert ends == ["closed"]
    assert loop.errors == []


# Determinism

CANCELLING = """
import asyncio, sys
from simulation.environment.loop import VirtualLoop
ends = []
junk = [object() for _ in range(int(sys.argv[2]))]
async def waits(n):
    try:
        await asyncio.sleep(100)
    finally:
        ends.append(n)
async def fails():
    await asyncio.sleep(1)
    raise ValueError
async def body():
    try:
        async with asyncio.TaskGroup() as group:
            for n in range(20):
                group.create_task(waits(n))
            group.create_task(fails())
    except* ValueError:
        pass
    loop = asyncio.get_running_loop()
    futures = [loop.create_future() for _ in range(20)]
    for n, future in enumerate(futures):
        future.n = n
        future.set_result(None)
    done, _ = await asyncio.wait(futures)
    ends.extend(future.n for future in done)
loop = VirtualLoop(seed=int(sys.argv[1]))
loop.run_until_complete(body())
loop.note(repr(ends))
print(ends, loop.trace())
"""


def cancelled_in_a_fresh_process(seed: int, hash_seed: int) -> str:
    run = subprocess.run(
        [sys.executable, "-c", CANCELLING, str(seed), str(hash_seed * 997)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(ROOT)},
    )
    return run.stdout


def test_set_order_is_equal_across_processes_and_differs_by_seed() -> None:
    seen = {cancelled_in_a_fresh_process(7, hash_seed) for hash_seed in range(5)}
    assert len(seen) == 1
    assert cancelled_in_a_fresh_process(8, 0) not in seen


def test_no_two_tasks_or_futures_hash_alike() -> None:
    for seed in range(5):
        loop = VirtualLoop(seed=seed)
        assert len({loop.next_hash() for _ in range(10_000)}) == 10_000
        loop.close()


def woken(hostile: random.Random | None) -> list[int]:
    async def body() -> list[int]:
        seen: list[int] = []
        event = asyncio.Event()

        async def waits(number: int) -> None:
            await event.wait()
            seen.append(number)

        async with asyncio.TaskGroup() as group:
            for number in range(6):
                group.create_task(waits(number))
            await pass_time(1)
            event.set()
        return seen

    return play(body(), hostile=hostile)  # type: ignore[no-any-return]


def test_only_hostile_loop_permutes_wake_ups_and_seed_says_how() -> None:
    orders = [woken(RandomStreams(seed).schedule) for seed in range(4)]
    assert woken(None) == [0, 1, 2, 3, 4, 5]
    assert orders == [woken(RandomStreams(seed).schedule) for seed in range(4)]
    assert len({tuple(order) for order in orders}) > 1
    assert all(sorted(order) == [0, 1, 2, 3, 4, 5] for order in orders)


def test_traces_differ_by_recorded_events_and_times() -> None:
    def trace(text: str, after: float) -> str:
        loop = VirtualLoop()
        loop.run_until_complete(pass_time(after))
        loop.note(text)
        loop.close()
        return loop.trace()

    assert trace("a", 1) == trace("a", 1)
    assert len({trace("a", 1), trace("b", 1), trace("a", 2)}) == 3


def test_draw_in_one_stream_disturbs_no_other() -> None:
    one, other = RandomStreams(5), RandomStreams(5)
    for _ in range(10):
        one.schedule.random()
        one.fork("faults", "x").random()
    assert one.faults.random() == other.faults.random()
    assert one.workload.random() == other.workload.random()
    assert one.fork("faults", "x").random() == other.fork("faults", "x").random()
    assert one.schedule.random() != other.schedule.random()
    assert (
        len({RandomStreams(seed).fork(kind, name).random() for seed in (1, 2) for kind in "ab" for name in "xy"}) == 8
    )
