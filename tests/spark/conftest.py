"""One Spark and one broker for the whole suite; topics of a test's own, and numbered rows in them.

Spark needs Java and the extra `spark`: where they are missing every case says so.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from magnetar import Admin
from tests.servers.standalone import Standalone
from tests.spark.published import Topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = itertools.count(1)

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "700m",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.streaming.stopTimeout": "60s",
    # Shuffles and sorts of more than a few rows spill to disk, as those of real sizes do.
    "spark.shuffle.spill.numElementsForceSpillThreshold": "16",
    "spark.shuffle.sort.bypassMergeThreshold": "1",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("tests")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    settings = {"brokerDeduplicationEnabled": True, "defaultRetentionTimeInMinutes": 60}
    with Standalone(tmp_path_factory.mktemp("spark"), {**settings, "defaultRetentionSizeInMB": 1000}) as running:
        yield running


@pytest.fixture
def topic(server: Standalone, request: pytest.FixtureRequest) -> Iterator[Topic]:
    """A scalable topic nobody else uses, of two segments."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[5:45].strip("-")
    with Admin(server.http) as admin, Topic(server, admin, f"topic://public/default/{name}-{next(_numbers)}") as made:
        admin.scalable.create(made.name, segments=2)
        yield made
