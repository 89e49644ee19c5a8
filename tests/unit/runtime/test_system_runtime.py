"""The real runtime: order of a lane, errors, endings, chance, tasks."""

import asyncio
import threading

import pytest

from magnetar.base.errors import Closed
from magnetar.runtime.runtime import Owner
from magnetar.runtime.system_runtime import RealRuntime

pytestmark = pytest.mark.real_clock


async def test_work_of_thread_queue_runs_ordered_and_completes_on_loop():
    runtime = RealRuntime()
    ran: list[tuple[int, int]] = []
    completed: list[int] = []
    futures = []
    for index in range(100):
        future = runtime.offload(lambda i=index: ran.append((i, threading.get_ident())) or i, "journal")
        future.add_done_callback(lambda f: completed.append(f.result()))
        futures.append(future)
    await asyncio.gather(*futures)
    runtime.close()
    assert [i for i, _ in ran] == completed == list(range(100))
    assert len({thread for _, thread in ran}) == 1
    assert ran[0][1] != threading.get_ident()


async def test_two_lanes_do_not_wait_for_each_other():
    runtime = RealRuntime()
    gate = threading.Event()
    held = runtime.offload(gate.wait, "journal")
    assert await runtime.offload(lambda: 7, "sqlite") == 7
    assert not held.done()
    gate.set()
    await held
    runtime.close()


async def test_error_of_work_reaches_waiter_and_lane_goes_on():
    runtime = RealRuntime()
    with pytest.raises(ZeroDivisionError):
        await runtime.offload(lambda: 1 // 0, "journal")
    with pytest.raises(RuntimeError):
        await runtime.offload(lambda: next(iter([])), "journal")
    with pytest.raises(SystemExit):
        await runtime.offload(lambda: exec("raise SystemExit(1)"), "journal")
    assert await runtime.offload(lambda: 1, "journal") == 1
    runtime.close()


async def test_cancelled_waiter_does_not_undo_work():
    runtime = RealRuntime()
    gate = threading.Event()
    done: list[int] = []
    runtime.offload(gate.wait, "journal").cancel()
    cancelled = runtime.offload(lambda: done.append(1), "journal")
    cancelled.cancel()
    gate.set()
    await runtime.offload(lambda: None, "journal")
    assert done == [1]
    runtime.close()


async def test_close_finishes_what_was_queued_and_refuses_more():
    runtime = RealRuntime()
    done: list[int] = []
    for index in range(50):
        runtime.offload(lambda i=index: done.append(i), "journal")
    runtime.close()
    assert done == list(range(50))
    with pytest.raises(Closed):
        runtime.offload(lambda: None, "journal")


def test_work_that_ends_after_its_loop_closed_is_dropped_quietly():
    runtime = RealRuntime()
    gate = threading.Event()
    after: list[int] = []

    async def leave():
        runtime.offload(gate.wait, "journal")
        runtime.offload(lambda: after.append(1), "journal")

    asyncio.run(leave())
    gate.set()
    runtime.close()
    assert after == [1]


def test_streams_of_chance_are_their_own():
    runtime = RealRuntime()
    assert runtime.rng("a") is runtime.rng("a")
    assert runtime.rng("a") is not runtime.rng("b")
    assert runtime.rng("a").random() != runtime.rng("b").random()


async def test_closed_owner_takes_no_task():
    runtime = RealRuntime()
    owner = Owner("test")
    ran: list[int] = []

    async def work():
        ran.append(1)

    await runtime.spawn(owner, work())
    await owner.close()
    with pytest.raises(Closed):
        runtime.spawn(owner, work())
    assert ran == [1]


def test_marks_reach_those_who_listen():
    runtime = RealRuntime()
    runtime.mark("unheard")
    heard: list[tuple[str, dict[str, object]]] = []
    runtime.marks.append(lambda name, facts: heard.append((name, facts)))
    runtime.mark("sealed", segment=3)
    assert heard == [("sealed", {"segment": 3})]


def test_clocks_move_forward():
    runtime = RealRuntime()
    assert runtime.wall() > 1_700_000_000_000
    assert runtime.monotonic() <= runtime.monotonic()


async def test_abandoned_runtime_answers_nobody_any_more() -> None:
    runtime = RealRuntime()
    await runtime.offload(lambda: None, "disk")
    runtime.abandon()
    done: list[str] = []
    later = runtime.offload(lambda: done.append("later"), "disk")
    await asyncio.sleep(0)
    assert not later.done()
    assert done == []
