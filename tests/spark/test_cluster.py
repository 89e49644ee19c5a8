"""The sink on a real cluster, master and workers of the installed Spark, where a slow task is begun a second time.

What `test_sink_kills.py` kills is killed here too, and one task of every round stands still until Spark has begun it
once more, so that two write the same rows. MAGNETAR_SPARK_KILLS says how many rounds.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.servers.spark import Cluster
from tests.servers.standalone import Standalone
from tests.spark.killing import Pressure, Query, driver_turns, worker_turns
from tests.spark.published import Topic
from tests.spark.recorded import recorded

pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'magnetar[spark]'")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]

KILLS = int(os.environ.get("MAGNETAR_SPARK_KILLS", "1"))
SEED = int(os.environ.get("MAGNETAR_SEED", random.randrange(1 << 30)))

SETTINGS = {
    "spark.executor.memory": "600m",
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
}


def test_rows_come_once_on_cluster_with_repeated_tasks_and_kills(
    server: Standalone, topic: Topic, tmp_path: Path
) -> None:
    with (
        Cluster(tmp_path / "cluster") as cluster,
        Query(server, topic, tmp_path, master=cluster.master, settings=SETTINGS, seed=SEED) as query,
    ):
        with Pressure(topic) as pressure:
            for driver, worker in zip(driver_turns(KILLS), worker_turns(KILLS), strict=True):
                query.straggle()
                query.kill_worker(worker)
                query.kill_driver(driver)
            query.progress(1)
        query.finish()
    query.killed.reshapes = pressure.reshapes
    query.judge()
    recorded("a cluster of two workers", query.killed)
