"""Servers of the installed PySpark, processes of their own on loopback: a cluster, and a Spark Connect server.

The cluster is a master and two workers. They are at two addresses: Spark begins a task a second time only on another
host than the first. Ready is what the master says of its workers, not an open port. Everything is ended by SIGKILL,
executors and all.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx2
import pytest

from tests.servers.pulsar import WATCHED, free_ports

MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
HOSTS = ("127.0.0.1", "127.0.0.2")
CORES = 2
MEMORY_MB = 1024
HEAP_MB = 512
START_S = 300.0
POLL_S = 0.1


class _Servers:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kill()

    def log(self, lines: int = 60) -> str:
        said = [one.read_text(errors="replace") for one in sorted(self.folder.glob("*.log"))]
        return "\n".join("\n".join(one.splitlines()[-lines:]) for one in said)

    def _run(self, script: str, *words: str, host: str = HOSTS[0]) -> None:
        found = find_spec("pyspark")
        if found is None or found.origin is None:
            pytest.skip("pyspark is missing: pip install 'magnetar[spark]'")
        home = Path(found.origin).parent
        around = {
            "SPARK_HOME": str(home),
            "SPARK_DAEMON_MEMORY": f"{HEAP_MB}m",
            "SPARK_LOCAL_IP": host,
            "PYSPARK_PYTHON": sys.executable,
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{len(self._processes)}.log").open("ab") as log:
            process = subprocess.Popen(
                ["bash", "-c", WATCHED, "bash", str(home / "bin" / script), *words],
                cwd=self.folder,
                env={**os.environ, **around},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._processes.append(process)

    def _wait(self, ready: Callable[[], bool]) -> None:
        end = time.monotonic() + START_S
        while time.monotonic() < end and all(one.poll() is None for one in self._processes):
            if ready():
                return
            time.sleep(POLL_S)
        self._kill()
        raise AssertionError(f"Spark did not get ready:\n{self.log()}")

    def _kill(self) -> None:
        for process in self._processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert process.stdin is not None
            process.stdin.close()
        self._processes = []


class Cluster(_Servers):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._port, self._page = free_ports(2)

    @property
    def master(self) -> str:
        return f"spark://{HOSTS[0]}:{self._port}"

    def __enter__(self) -> Self:
        at = ("--host", HOSTS[0], "--port", str(self._port), "--webui-port", str(self._page))
        self._run("spark-class", MASTER, *at)
        for number, host in enumerate(HOSTS):
            at = ("--host", host, "--port", "0", "--webui-port", "0")
            has = (
                "--cores",
                str(CORES),
                "--memory",
                f"{MEMORY_MB}m",
                "--work-dir",
                str(self.folder / f"work-{number}"),
            )
            self._run("spark-class", WORKER, *at, *has, self.master, host=host)
        self._wait(self._complete)
        return self

    def _complete(self) -> bool:
        try:
            told = httpx2.get(f"http://{HOSTS[0]}:{self._page}/json/", timeout=10.0).json()
        except (httpx2.HTTPError, ValueError):
            return False  # not listening yet
        return bool(told.get("aliveworkers") == len(HOSTS))


class Connect(_Servers):
    """No Python driver is near it: what it runs of ours it finds by itself, in the workers that it starts."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        super().__init__(folder)
        (self._port,) = free_ports(1)
        self._settings = {
            **settings,
            "spark.master": "local[2]",
            "spark.connect.grpc.binding.address": HOSTS[0],
            "spark.connect.grpc.binding.port": str(self._port),
        }

    @property
    def remote(self) -> str:
        return f"sc://{HOSTS[0]}:{self._port}"

    def __enter__(self) -> Self:
        given = [word for key, value in self._settings.items() for word in ("--conf", f"{key}={value}")]
        self._run("spark-submit", "--class", CONNECT, *given, "spark-internal")
        self._wait(self._listening)
        return self

    def _listening(self) -> bool:
        try:
            socket.create_connection((HOSTS[0], self._port), timeout=10.0).close()
        except OSError:
            return False
        return True
