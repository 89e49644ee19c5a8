"""The projects that `magnetar spark init` writes run as they are, by `magnetar spark run` and `spark-pipelines run`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.published import Topic

pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'magnetar[spark]'")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def magnetar(*words: str, folder: Path, **env: str) -> str:
    command = [sys.executable, "-m", "magnetar.cli.main", *words]
    without = {key: value for key, value in os.environ.items() if key != "PYSPARK_PYTHON"}
    done = subprocess.run(command, cwd=folder, env={**without, **env}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_project_runs_as_it_was_written(topic: Topic, tmp_path: Path):
    import pyarrow.parquet as parquet

    magnetar("spark", "init", "shop", folder=tmp_path)
    shop = tmp_path / "shop"
    where = {"MAGNETAR_URL": topic.server.url, "TOPIC": topic.name}
    magnetar("spark", "run", "app.py", folder=shop, **where)  # before there is anything, as its README says
    topic.publish(30)
    said = magnetar("spark", "run", "app.py", folder=shop, **where)
    found = parquet.read_table(shop / "out/orders").to_pylist()
    topic.judge([(one["key"], one["value"]) for one in found])
    assert "|count|" in said
    assert '"batch"' in magnetar("spark", "offsets", "show", "checkpoint", "-o", "json", folder=shop)


def test_pipeline_runs_as_written_and_resumes_where_it_ended(topic: Topic, tmp_path: Path):
    import pyarrow.parquet as parquet

    pytest.importorskip("yaml", reason="pyyaml is missing: pip install 'magnetar[pipelines]'")
    magnetar("spark", "init", "shop", "--pipelines", folder=tmp_path)
    shop = tmp_path / "shop"
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "MAGNETAR_URL": topic.server.url, "TOPIC": topic.name}
    program = Path(sys.executable).with_name("spark-pipelines")
    for sent in (20, 10):
        topic.publish(sent)
        command = [str(program), "run", "--conf", "spark.sql.catalogImplementation=hive"]
        done = subprocess.run(command, cwd=shop, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    rows = parquet.read_table(shop / "spark-warehouse/orders").num_rows
    counted = parquet.read_table(shop / "spark-warehouse/orders_by_key").to_pylist()
    assert (rows, sum(one["orders"] for one in counted)) == (30, 30)
    checkpoint = "storage/_checkpoints/spark_catalog/default/orders/orders/0"
    assert checkpoint in (shop / "README.md").read_text()
    assert '"batch"' in magnetar("spark", "offsets", checkpoint, "-o", "json", folder=shop)
