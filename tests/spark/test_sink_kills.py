"""The sink under `kill -9`: of the whole query and of its Python processes, with another number of partitions at each
restart and a split or merge every second. Behind a shuffle every row comes once, a key's in order.

MAGNETAR_SPARK_KILLS says how many of each; MAGNETAR_RECORD names a page that the run is written to.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.servers.standalone import Standalone
from tests.spark.killing import TOPIC_COMMITTED, Pressure, Query, driver_turns, worker_turns
from tests.spark.published import Topic
from tests.spark.recorded import recorded

pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'magnetar[spark]'")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]

KILLS = int(os.environ.get("MAGNETAR_SPARK_KILLS", "5"))
SEED = int(os.environ.get("MAGNETAR_SEED", random.randrange(1 << 30)))


def test_rows_come_once_over_kills_with_changing_partitions_and_segments(
    server: Standalone, topic: Topic, tmp_path: Path
) -> None:
    with Query(server, topic, tmp_path, seed=SEED) as query:
        with Pressure(topic) as pressure:
            for driver, worker in zip(driver_turns(KILLS), worker_turns(KILLS), strict=True):
                query.kill_worker(worker)
                query.kill_driver(driver)
            query.progress(1)
        query.finish()
    query.killed.reshapes = pressure.reshapes
    query.judge()
    recorded("one process, local[2]", query.killed)


def test_rows_come_once_if_driver_dies_between_two_commits(server: Standalone, topic: Topic, tmp_path: Path) -> None:
    with Query(server, topic, tmp_path, topics=2, seed=SEED) as query:
        with Pressure(topic):
            query.progress(1)
            for _ in range(2):
                query.kill_driver(TOPIC_COMMITTED)
            query.progress(1)
        query.finish()
    query.judge()
