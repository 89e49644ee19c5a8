"""A real Apache Kafka of one node, from Maven packages, in a process of its own: a peer for benchmarks.

It is broker and controller in one, on loopback, with its defaults for everything that matters to speed and safety.
Ready is an answer of its port after the storage was formatted. It is always ended by SIGKILL; its data are thrown away.

    python -m tests.servers.kafka        download what it needs, start it once, say how long that took
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from base64 import urlsafe_b64encode
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.servers import java
from tests.servers.pulsar import WATCHED, free_ports

POM = "kafka.pom.xml"
CONNECTOR_POM = "spark-kafka.pom.xml"  # Spark's own connector to it
HEAP_MB = 512
START_S = 120.0
POLL_S = 0.1

SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}


class Kafka:
    def __init__(self, folder: Path, partitions: int = 1) -> None:
        self.folder = folder
        self.output = folder / "kafka.log"
        self.port, self._controller = free_ports(2)
        self._partitions = partitions
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def servers(self) -> str:
        return f"localhost:{self.port}"

    def start(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        conf = self.folder / "server.properties"
        said = SETTINGS | {
            "controller.quorum.bootstrap.servers": f"localhost:{self._controller}",
            "listeners": f"PLAINTEXT://localhost:{self.port},CONTROLLER://localhost:{self._controller}",
            "advertised.listeners": f"PLAINTEXT://localhost:{self.port}",
            "log.dirs": str(self.folder / "data"),
            "num.partitions": str(self._partitions),
        }
        conf.write_text("".join(f"{key}={value}\n" for key, value in said.items()))
        base = java.command(POM, heap_mb=HEAP_MB, properties={})
        cluster = urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        with self.output.open("ab") as log:
            subprocess.run(
                [*base, "kafka.tools.StorageTool", "format", "--standalone", "-t", cluster, "-c", str(conf)],
                stdout=log,
                stderr=log,
                timeout=START_S,
                check=True,
            )
            self.process = subprocess.Popen(
                ["sh", "-c", WATCHED, "sh", *base, "kafka.Kafka", str(conf)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )
        self._wait()
        return self

    def kill(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert process.stdin is not None
            process.stdin.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _wait(self) -> None:
        end = time.monotonic() + START_S
        while time.monotonic() < end and self.process is not None and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
            except OSError:
                time.sleep(POLL_S)
            else:
                return
        self.kill()
        said = self.output.read_text(errors="replace").splitlines()
        raise AssertionError("Kafka did not start:\n" + "\n".join(said[-java.TAIL_LINES :]))


def connector_jars() -> list[str]:
    return java.class_path(CONNECTOR_POM).split(os.pathsep)


def main() -> int:
    begun = time.monotonic()
    try:
        java.class_path(POM)
        connector_jars()
    except pytest.skip.Exception as reason:
        sys.stderr.write(f"{reason}\n")
        return 1
    fetched = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, Kafka(Path(folder)) as server:
        sys.stdout.write(f"jars after {fetched - begun:.1f} s, listening at {server.servers} after ")
        sys.stdout.write(f"{time.monotonic() - fetched:.1f} s more\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
