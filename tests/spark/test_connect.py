"""Source and sink through Spark Connect: a client without Java, and a server that finds the format by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

from magnetar import Client
from tests.servers.spark import Connect
from tests.servers.standalone import Standalone
from tests.spark.conftest import SETTINGS
from tests.spark.published import Topic
from tests.spark.test_sink import Target

pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'magnetar[spark]'")
pytest.importorskip("grpc_status", reason="a client of Spark Connect needs more: pip install 'pyspark[connect]'")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
RUN_S = 600.0


def by_key(rows: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for key, value in rows:
        found[key].append(value)
    return found


def test_client_of_spark_connect_writes_reads_and_streams(server: Standalone, topic: Topic, tmp_path: Path) -> None:
    rows = [(f"k{number % 5}", f"v{number}") for number in range(60)]
    asked = {"url": server.url, "source": topic.name, "target": f"{topic.name}-out", "rows": rows}
    with Connect(tmp_path / "server", SETTINGS) as connect:
        told = json.dumps({**asked, "remote": connect.remote, "checkpoint": str(tmp_path / "state")})
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.connecting", told],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path, "JAVA_HOME": str(tmp_path)},  # whoever starts a Java here fails
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
        )
        assert done.returncode == 0, f"{done.stderr[-4000:]}\n{connect.log()}"
    assert by_key(json.loads(done.stdout.splitlines()[-1])) == by_key(rows)
    with Client(server.url) as client:
        copied = Target(server, client, asked["target"]).read(len(rows))
    assert by_key((message.key or "", message.data.decode()) for message in copied) == by_key(rows)
