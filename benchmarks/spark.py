"""Our source and sink beside Spark's own Kafka connector, in one run: `python -m benchmarks.spark`, or `--only read`.

- **read**: rows/s of a batch read to nowhere, and of a stream with `availableNow` counted in foreachBatch.
- **write**: rows/s of a frame in memory; both sides at least once, ours exactly once beside it.
- **trickle**: one row every 100 ms, from before it is sent to when foreachBatch has it.

Servers of one node on this machine, each alone while it is measured, in a process of its own; Kafka as it comes from
its package with one replica, our broker syncing before it answers. Rows of 100 B and 1 KiB, of one size and of random
sizes, a thousand keys, four partitions or segments. The connector's jars are a mixed set (tests/servers): no set that
matches PySpark is published. Sides take turns in every round. Figures are medians over the rounds with their spread,
and ratios, which are what counts. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.broker import HOUSE, Report
from benchmarks.rows import Shape
from tests.servers import kafka
from tests.servers.standalone import Standalone

RESULTS = HOUSE / "benchmarks" / "results" / "spark.json"
SHAPES = (Shape(1_000_000, 100), Shape(1_000_000, 100, True), Shape(300_000, 1024), Shape(300_000, 1024, True))
CASES = ("read", "write", "trickle")
ASKED = {"read": ">= 1.0", "write, at-least-once": ">= 0.7", "trickle": "<= 1.0"}
PARTITIONS = 4
ROUND_S_MAX = 1800.0


@contextmanager
def ours() -> Iterator[dict[str, Any]]:
    with TemporaryDirectory() as folder, Standalone(Path(folder), watched=False) as server:
        yield {"side": "ours", "url": server.url, "http": server.http}


@contextmanager
def kafkas() -> Iterator[dict[str, Any]]:
    jars = kafka.connector_jars()
    settings = {"spark.jars": ",".join(jars), "spark.driver.extraClassPath": ":".join(jars)}
    with TemporaryDirectory() as folder, kafka.Kafka(Path(folder), PARTITIONS) as server:
        yield {"side": "kafka", "servers": server.servers, "settings": settings}


SIDES = {"Kafka": kafkas, "ours": ours}


def measured(side: str, cases: list[str], shapes: list[Shape]) -> dict[str, tuple[float, str]]:
    with SIDES[side]() as asked:
        words = json.dumps({**asked, "cases": cases, "shapes": shapes})
        command = [sys.executable, "-m", "benchmarks.sparked", words]
        done = subprocess.run(command, cwd=HOUSE, text=True, capture_output=True, timeout=ROUND_S_MAX, check=False)
    if done.returncode:
        raise SystemExit(f"{side} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"name"')]
    return {one["name"]: (one["value"], one["unit"]) for one in found}


def compare(report: Report, cases: list[str], shapes: list[Shape]) -> None:
    found = {side: measured(side, cases, shapes) for side in SIDES}
    for name, (value, unit) in found["ours"].items():
        theirs = found["Kafka"].get(name)
        if theirs is not None:
            report.note(f"{name}, Kafka", theirs[0], unit)
        report.note(f"{name}, ours", value, unit)
        if theirs is not None and not name.startswith("of "):
            asked = next((word for start, word in ASKED.items() if name.startswith(start)), "")
            report.note(f"  ours to Kafka: {name}", value / theirs[0], "ratio", asked)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description="Spark's connectors side by side.")
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--share", type=float, default=1.0, help="of the rows: 0.1 for a short trial")
    parser.add_argument("--output", type=Path, help=f"JSON file; {RESULTS.relative_to(HOUSE)} for a whole run")
    chosen = parser.parse_args()
    shapes = [shape._replace(rows=int(shape.rows * chosen.share)) for shape in SHAPES]
    report = Report()
    begun = time.perf_counter()
    for number in range(chosen.rounds):
        sys.stderr.write(f"round {number + 1} of {chosen.rounds}\n")
        compare(report, chosen.only, shapes)
    print(report.table())
    whole = set(chosen.only) == set(CASES) and chosen.share >= 1
    output = chosen.output or (RESULTS if whole else None)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        document = report.document(chosen.rounds, (time.perf_counter() - begun) / chosen.rounds)
        output.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
