"""A lane whose process dies under it: what was begun is finished, what was not is never done."""

from __future__ import annotations

import asyncio
import threading

import pytest

from magnetar.runtime.worker_thread import SerialWorker


@pytest.mark.real_clock
async def test_unstarted_work_of_dropped_thread_queue_never_runs() -> None:
    lane = SerialWorker("disk")
    begun, go = threading.Event(), threading.Event()
    done: list[str] = []

    def first() -> None:
        begun.set()
        go.wait()
        done.append("first")

    lane.run(first)
    second = lane.run(lambda: done.append("second"))
    await asyncio.to_thread(begun.wait)
    lane.drop()
    go.set()
    lane.close()
    await asyncio.sleep(0)
    assert done == ["first"]
    assert not second.done()
