"""The demo's query as a process, with other programs in the place of Spark: killed, ending by itself, drained, left."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from magnetar.base.errors import NotReady
from magnetar.base.limits import DEMO_QUERY_STARTS_MAX
from magnetar.cli.demo.spark_process import SparkProcess

pytestmark = pytest.mark.real_clock

WAIT_S = 60.0

# A driver and what it started, which has the pipe too: as Java has. Both end when they are told.
PATIENT = """
import pathlib, subprocess, sys, time
other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path("other").write_text(str(other.pid))
print("words of somebody else", flush=True)
print('{"query": "taxes", "batch": 7}', flush=True)
while not pathlib.Path("drain").exists():
    time.sleep(0.01)
other.kill()
"""
FAILING = "import sys; sys.exit('no such host')"


def a_query(folder: Path, program: str) -> SparkProcess:
    return SparkProcess(folder, {"url": "x"}, dict(os.environ), program=("-c", program))


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not happened():  # noqa: ASYNC110  # another process
            await asyncio.sleep(0.01)


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


async def test_killed_query_restarts_until_topic_is_drained(tmp_path: Path) -> None:
    told: list[str] = []
    async with a_query(tmp_path, PATIENT) as query, asyncio.TaskGroup() as group:
        tended = group.create_task(query.tend(told.append))
        await until(lambda: query.batches == {"taxes": 7})
        first, other = query.pid, int((tmp_path / "other").read_text())
        query.kill()
        await until(lambda: query.starts == 2 and query.state == "running")
        assert not runs(first)
        await until(lambda: not runs(other))  # the pipe is closed a moment before it is gone
        query.drain()
        await tended
    assert (query.state, query.kills, query.restarts, told) == ("done", 1, 0, [])


async def test_query_that_keeps_failing_is_given_up_with_its_error(tmp_path: Path) -> None:
    told: list[str] = []
    async with a_query(tmp_path, FAILING) as query:
        with pytest.raises(NotReady, match="no such host"):
            await query.tend(told.append)
    assert query.starts == DEMO_QUERY_STARTS_MAX + 1
    assert len(told) == query.starts
    assert "no such host" in told[0]


async def test_whoever_leaves_takes_it_along_with_all_it_started(tmp_path: Path) -> None:
    async with a_query(tmp_path, PATIENT) as query:
        tended = asyncio.create_task(query.tend(lambda _: None))
        await until(lambda: query.batches == {"taxes": 7})
        other = int((tmp_path / "other").read_text())
        tended.cancel()
        await asyncio.wait([tended])
    await until(lambda: not runs(query.pid) and not runs(other))


def test_batch_that_is_planned_and_not_done_is_under_way(tmp_path: Path) -> None:
    query = a_query(tmp_path, "")
    assert not query.busy("taxes")
    for kind in ("offsets", "commits"):
        (tmp_path / "taxes" / kind).mkdir(parents=True)
    (tmp_path / "taxes/offsets/9").touch()
    (tmp_path / "taxes/offsets/.10.crc").touch()
    assert query.busy("taxes")
    (tmp_path / "taxes/commits/9").touch()
    assert not query.busy("taxes")
    (tmp_path / "taxes/offsets/10").touch()
    assert query.busy("taxes")


async def test_interpreter_is_this_one(tmp_path: Path) -> None:
    program = f"import sys; sys.exit(sys.executable != {sys.executable!r})"
    async with a_query(tmp_path, program) as query:
        await query.tend(lambda _: None)
    assert query.starts == 1
