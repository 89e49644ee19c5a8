"""The examples for Spark and the README's block run as they are written, one after another in one Spark, against a
broker of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TypedDict

import pytest

from magnetar import Admin, Client, Json
from tests.examples.test_documents import ROOT, SPARK, URL
from tests.examples.test_examples import EXAMPLES
from tests.examples.test_pages import fences
from tests.servers.standalone import Standalone

pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'magnetar[spark]'")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

NAMES = ["spark_orders.py", "spark_backfill.py", "spark_enrich.py"]
TRIES = 4
WAIT_S = 300.0
NOT_STARTED = ("failed to connect back", "to connect back after")  # in ten seconds, which a loaded machine may not keep
# And soon there: none of them lives long.
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.driver.memory": "700m",
    "spark.sql.codegen.wholeStage": "false",
    "spark.ui.enabled": "false",
}

# Each has the arguments of a person who typed them; what it prints is told apart by its name.
PROGRAM = """
import contextlib, io, json, runpy, sys
for path, *arguments in json.loads(sys.argv[1]):
    sys.argv, said = [path, *arguments], io.StringIO()
    with contextlib.redirect_stdout(said):
        runpy.run_path(path, run_name="__main__")
    print(json.dumps([path.rsplit("/", 1)[1], said.getvalue().splitlines()]), flush=True)
"""


# The blocks of docs/SPARK.md, with what the page leaves to its reader.
PAGE = """
from types import SimpleNamespace

from pyspark.sql import SparkSession

lags = []
gauge = SimpleNamespace(set=lags.append)
spark = SparkSession.builder.getOrCreate()
{read}
by_country = orders.selectExpr("key", "value", "'nl' AS country")
{namespace}
{registry}
{listener}
totals = orders.selectExpr("customer", "amount")
{write}
orders = by_country
{write_many}
for query in spark.streams.active:
    query.processAllAvailable()
    query.stop()
for statement in {sql!r}.split(";"):
    if statement.strip():
        rows = spark.sql(statement).collect()
print(*everything.columns, *[tuple(row) for row in rows])
"""


def page_program(folder: Path, url: str) -> str:
    """A program with each block of the page, in an order in which all variables exist."""
    text = (ROOT / "docs/SPARK.md").read_text(encoding="utf-8").replace(URL, url)
    text = text.replace("/data/checkpoints", str(folder / "checkpoints"))
    text = text.replace('format("magnetar")', f'format("magnetar").option("url", "{url}")')
    languages = [language for language, _ in fences(text)]
    assert languages == ["python", "sql", *["python"] * 5]
    read, sql, namespace, registry, listener, write, write_many = [block for _, block in fences(text)]
    return PAGE.format(
        read=read,
        sql=sql,
        namespace=namespace,
        registry=registry,
        listener=listener,
        write=write,
        write_many=write_many,
    )


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What each of them printed."""
    for attempt in range(TRIES):
        folder = tmp_path_factory.mktemp(f"examples-{attempt}")
        with Standalone(folder / "broker") as server, Client(server.url) as client:
            with client.create_producer("topic://public/default/events") as producer:
                producer.send(b"hello", key="Ada")
            publish_page_orders(server, client)
            ran = run(folder, server.url)
            if ran.returncode == 0:
                shouted = client.checkpoint_consumer("topic://public/default/shouted").receive(WAIT_S)
        if ran.returncode == 0 or not any(words in ran.stderr for words in NOT_STARTED):
            break
    assert ran.returncode == 0, ran.stderr[-4000:]
    told: dict[str, list[str]] = dict(json.loads(line) for line in ran.stdout.splitlines() if line.startswith("["))
    return {**told, "shouted": [f"{shouted.key} {shouted.value.decode()}"]}


def publish_page_orders(server: Standalone, client: Client) -> None:
    with Admin(server.http) as admin:
        admin.tenants.create("shop")
        admin.namespaces.create("shop/orders")
    schema = Json(TypedDict("Order", {"customer": str, "amount": int}))
    with client.create_producer("topic://shop/orders/events", schema=schema) as producer:
        producer.send({"customer": "Ada", "amount": 3}, key="Ada")


def run(folder: Path, url: str) -> subprocess.CompletedProcess[str]:
    block, page = folder / "readme.py", folder / "page.py"
    block.write_text(SPARK[0][1].replace(URL, url))
    page.write_text(page_program(folder, url))
    asked = [[str(EXAMPLES / name), url, str(folder / name)] for name in NAMES] + [[str(page)], [str(block)]]
    words = " ".join([*(f"--conf {name}={value}" for name, value in SETTINGS.items()), "pyspark-shell"])
    around = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "PYSPARK_SUBMIT_ARGS": words}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(asked)],
        cwd=folder,
        env={**os.environ, **around},
        capture_output=True,
        text=True,
        check=False,
    )


def test_totals_continue_after_restart_in_topic_and_parquet(said: dict[str, list[str]]) -> None:
    assert said["spark_orders.py"] == [
        '{"customer":"customer-0","orders":3,"amount":51}',
        '{"customer":"customer-1","orders":2,"amount":22}',
        '{"customer":"customer-2","orders":2,"amount":33}',
        "6 rows in Parquet",
    ]


def test_backfill_of_time_range_is_written_once(said: dict[str, list[str]]) -> None:
    assert said["spark_backfill.py"] == ["Parquet 30 100 158", "topic 30"]


def test_orders_join_latest_customer_data(said: dict[str, list[str]]) -> None:
    lines = said["spark_enrich.py"]
    assert sorted(lines) == ["Ada Lovelace engine", "Ada Lovelace program", "Grace compiler", "unknown abacus"]
    assert lines.index("Ada Lovelace engine") < lines.index("Ada Lovelace program")


def test_every_block_of_page_runs_as_written(said: dict[str, list[str]]) -> None:
    assert said["page.py"] == ["topic key value ('Ada', 1)"]


def test_block_of_readme_runs_as_it_is_written(said: dict[str, list[str]]) -> None:
    assert said["readme.py"] == []
    assert said["shouted"] == ["Ada HELLO"]
