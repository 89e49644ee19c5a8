"""The sink under `kill -9` of the whole query in the middle of a batch, with another number of partitions at each
restart: behind a shuffle every row comes once, a key's in order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from magnetar import Client
from tests.servers.standalone import Standalone
from tests.spark.published import Topic
from tests.spark.test_sink import Target, judged

pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'magnetar[spark]'")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
RUN_S = 600.0
# Each costs a start of Spark. "begun" and "written" can be tried too (`crashing.py`): they were, and are in the model.
MOMENTS = [(0, "mid-write"), (1, "commit entered"), (2, "commit done")]


class Query:
    def __init__(self, server: Standalone, topic: Topic, target: str, folder: Path) -> None:
        self._asked = {"url": server.url, "source": topic.name, "target": target, "checkpoint": str(folder / "state")}
        self._folder = folder

    def run(self, partitions: int, crash: str = "") -> bool:
        """Until it is through, or has killed itself: True if it did."""
        flag = self._folder / f"crashed-{crash.replace(' ', '-').replace(':', '-')}"
        asked = json.dumps({**self._asked, "partitions": partitions})
        around = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.sinking", asked],
            cwd=ROOT,
            env={**os.environ, **around, "CRASH_AT": crash, "CRASH_FLAG": str(flag)},
            start_new_session=True,
            capture_output=True,
            timeout=RUN_S,
            check=False,
        )
        if done.returncode not in (0, -9):
            raise AssertionError(done.stderr.decode()[-2000:])
        assert (done.returncode == -9) == flag.exists(), done.stderr.decode()[-2000:]
        return done.returncode == -9


def test_every_row_comes_once_over_kills_of_the_query_and_changing_partitions(
    server: Standalone, topic: Topic, tmp_path: Path
) -> None:
    with Client(server.url) as client:
        target = Target(server, client, f"{topic.name}-out")
        query = Query(server, topic, target.name, tmp_path)
        topic.publish(400, keys=12)
        for number, (batch, moment) in enumerate(MOMENTS):
            assert query.run(2 + number % 2, f"{batch}:{moment}"), f"batch {batch} was never {moment}"
            topic.reshape()
        assert not query.run(4)
        judged(topic, target)
