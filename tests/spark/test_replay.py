"""kill -9 of a query with all its processes, in batch 0 and later: what was planned is read again, exactly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.published import Topic

pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'magnetar[spark]'")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

ROOT = Path(__file__).resolve().parents[2]


class Driven:
    """Runs of one query, one after another, on the same checkpoint."""

    def __init__(self, topic: Topic, folder: Path, **options: str) -> None:
        self.topic = topic
        self.out = folder / "out"
        self.asked = {
            "url": topic.server.url,
            "topic": topic.name,
            "checkpoint": str(folder / "checkpoint"),
            "out": str(self.out),
            "options": options,
        }

    def run(self, crash: str = "") -> None:
        command = [sys.executable, "-m", "tests.spark.driver", json.dumps({**self.asked, "crash": crash})]
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, start_new_session=True, capture_output=True, text=True, check=False
        )
        assert done.returncode == (-9 if crash else 0), done.stderr[-4000:]

    def rows(self) -> list[tuple[str, str]]:
        files = sorted(self.out.glob("*.json"), key=lambda path: int(path.stem))
        assert [int(path.stem) for path in files] == list(range(len(files)))
        return [(key, value) for path in files for key, value in json.loads(path.read_text())]

    def same_again(self, batch: int) -> None:
        """A batch that was run to its end before the crash came out the same afterwards."""
        first, again = ((self.out / f"{batch}.{kind}").read_text() for kind in ("first", "json"))
        assert sorted(json.loads(first)) == sorted(json.loads(again))
        assert json.loads(first)


def test_query_killed_in_batch_0_or_later_rereads_same_rows(topic: Topic, tmp_path: Path):
    driven = Driven(topic, tmp_path, startingOffsets="earliest", maxMessagesPerTrigger="60")
    topic.publish(100)
    for crash in ("after:0", "after:1"):
        driven.run(crash)
        topic.reshape()
        topic.publish(40)
        topic.reshape()
    driven.run()
    driven.same_again(0)
    driven.same_again(1)
    topic.judge(driven.rows())


def test_query_from_latest_killed_in_batch_0_misses_nothing(topic: Topic, tmp_path: Path):
    driven = Driven(topic, tmp_path, startingOffsets="latest")
    driven.run("before:0")  # its start is journaled, and nothing else
    topic.publish(50)
    topic.reshape()
    topic.publish(50)
    driven.run()
    topic.judge(driven.rows())
