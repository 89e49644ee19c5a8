"""A thread that cannot await gets its answer from the loop thread, in a forked child as well."""

from __future__ import annotations

import asyncio
import os
import threading
import traceback

import pytest

from magnetar.base.errors import Closed, Corrupt, InvalidTransition, Misuse, NotReady, TimedOut
from magnetar.runtime.portal import Portal, portal
from magnetar.runtime.system_runtime import RealRuntime


async def doubled(value: int) -> int:
    await asyncio.sleep(0)
    return value * 2


def test_coroutine_runs_on_loop_thread_and_its_result_comes_back():
    assert portal().run(lambda: doubled(21)) == 42
    assert portal() is RealRuntime().portal()
    where = portal().call(threading.current_thread)
    assert where is not threading.current_thread()


def test_errors_come_back_as_they_are():
    async def failing() -> None:
        raise NotReady("not now")

    with pytest.raises(NotReady):
        portal().run(failing)
    with pytest.raises(ZeroDivisionError):
        portal().call(lambda: 1 // 0)


def test_error_keeps_its_cause_and_no_frames_of_client():
    async def failing() -> None:
        try:
            int("x")
        except ValueError as error:
            raise Corrupt("no number") from error

    with pytest.raises(Corrupt) as caught:
        portal().run(failing)
    assert isinstance(caught.value.__cause__, ValueError)
    assert caught.value.__cause__.__traceback__ is None
    assert "in failing" not in "".join(traceback.format_exception(caught.value))


def test_error_raised_during_another_hides_other():
    async def failing() -> None:
        try:
            int("x")
        except ValueError:
            raise NotReady("not now")  # noqa: B904

    with pytest.raises(NotReady) as caught:
        portal().run(failing)
    assert "ValueError" not in "".join(traceback.format_exception(caught.value))


def test_fault_of_client_keeps_its_frames():
    async def failing() -> None:
        raise InvalidTransition("no such state")

    with pytest.raises(InvalidTransition) as caught:
        portal().run(failing)
    assert "in failing" in "".join(traceback.format_exception(caught.value))


def test_call_that_takes_too_long_is_cancelled():
    cancelled = threading.Event()

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(TimedOut):
        portal().run(endless, timeout_s=0.01)
    assert cancelled.wait(10)


def test_loop_thread_does_not_wait_for_itself():
    with pytest.raises(Misuse):
        portal().call(lambda: portal().run(lambda: doubled(1)))


def test_threads_share_portal():
    found: list[Portal] = []
    threads = [threading.Thread(target=lambda: found.append(portal())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found) == {portal()}


def test_after_its_end_another_one_is_made():
    first = portal()
    first.close()
    first.close()
    with pytest.raises(Closed):
        first.run(lambda: doubled(1))
    assert portal() is not first
    assert portal().run(lambda: doubled(2)) == 4


def test_forked_child_gets_its_own_and_leaves_parents_alone():
    before = portal()
    assert before.run(lambda: doubled(1)) == 2
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            mine = portal()
            answer = mine.run(lambda: doubled(20))
            os.write(write, b"ok" if mine is not before and answer == 40 else b"no")
        finally:
            os._exit(0)
    os.close(write)
    assert os.read(read, 2) == b"ok"
    os.close(read)
    os.waitpid(child, 0)
    assert portal() is before
    assert before.run(lambda: doubled(3)) == 6
