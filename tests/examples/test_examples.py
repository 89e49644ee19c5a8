"""Every example runs as it is written, against a broker of its own; a file without a test here is found out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from magnetar.testing import Broker
from tests.servers.standalone import Standalone
from tests.testing.suites import run_suite

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
TRIED = {"stock_client.py", "async_client.py", "test_orders.py", "checkpoints.py", "work_queue.py"}
TRIED_IN_SPARK = {"spark_orders.py", "spark_backfill.py", "spark_enrich.py"}  # test_spark.py, slow


def run(example: str, broker: Broker | Standalone) -> list[str]:
    command = [sys.executable, "-W", "error::ResourceWarning", str(EXAMPLES / example), broker.url]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stderr == ""
    return ran.stdout.splitlines()


def test_every_example_is_tried() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == TRIED | TRIED_IN_SPARK


def test_stock_client_finds_every_order_in_order_of_its_customer(magnetar_broker_function: Broker) -> None:
    lines = run("stock_client.py", magnetar_broker_function)
    assert sorted(lines) == sorted(f"customer-{number % 3} order {number}" for number in range(10))
    for customer in range(3):
        mine = [line for line in lines if line.startswith(f"customer-{customer} ")]
        assert mine == [f"customer-{customer} order {number}" for number in range(customer, 10, 3)]


def test_async_client_sends_and_receives_objects(magnetar_broker_function: Broker) -> None:
    lines = run("async_client.py", magnetar_broker_function)
    expected = [
        f"customer-{number % 3} Order(customer='customer-{number % 3}', amount={number})" for number in range(10)
    ]
    assert sorted(lines) == sorted(expected)
    for customer in range(3):
        mine = [line for line in lines if line.startswith(f"customer-{customer} ")]
        assert mine == [line for line in expected if line.startswith(f"customer-{customer} ")]


def test_every_order_counts_once_in_totals_stored_with_checkpoint(
    magnetar_broker_function: Broker,
) -> None:
    totals = [f"customer-{one} {sum(range(one, 30, 3))}" for one in range(3)]
    assert run("checkpoints.py", magnetar_broker_function) == totals


@pytest.mark.slow
def test_each_job_is_done_by_one_worker_or_set_aside(
    magnetar_broker_function: Broker,
) -> None:
    assert run("work_queue.py", magnetar_broker_function) == ["put aside [9, 19, 29]", "done 27"]


def test_test_writer_s_file_passes_as_it_is(tmp_path: Path) -> None:
    outcome = run_suite(tmp_path, {"test_orders.py": (EXAMPLES / "test_orders.py").read_text()})
    assert outcome.code == 0, outcome.output
    assert len(outcome.passed) == 5
    assert outcome.left == []
