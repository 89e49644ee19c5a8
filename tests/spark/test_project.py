"""The project that `magnetar spark init` writes runs as it is, with `magnetar spark run`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.published import Topic

pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'magnetar[spark]'")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def magnetar(*words: str, folder: Path, **env: str) -> str:
    command = [sys.executable, "-m", "magnetar.cli.main", *words]
    without = {key: value for key, value in os.environ.items() if key != "PYSPARK_PYTHON"}
    done = subprocess.run(command, cwd=folder, env={**without, **env}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_the_project_runs_as_it_was_written(topic: Topic, tmp_path: Path):
    import pyarrow.parquet as parquet

    magnetar("spark", "init", "shop", folder=tmp_path)
    shop = tmp_path / "shop"
    topic.publish(30)
    where = {"MAGNETAR_URL": topic.server.url, "TOPIC": topic.name}
    magnetar("spark", "run", "app.py", folder=shop, **where)
    assert parquet.read_table(shop / "out/orders_per_minute").schema.names == ["window", "key", "orders"]
    assert '"batch"' in magnetar("spark", "offsets", "checkpoint", "-o", "json", folder=shop)
