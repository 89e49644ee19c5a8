"""A process under measurement: started on a core of its own, its processor time and memory read from /proc."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.load import Link, Refused

HOUSE = Path(__file__).resolve().parents[1]
START_S_MAX = 30.0
STOP_S_MAX = 20.0
TICKS = os.sysconf("SC_CLK_TCK")


class Peer:
    """A server process on one port. `started` is when it was asked to start, by this process's clock."""

    def __init__(self, arguments: list[str], port: int, log: Path, core: int) -> None:
        self.port = port
        self.http_port = 0  # of a broker
        self.log = log
        self.started = time.perf_counter()
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=HOUSE,
                stdout=out,
                stderr=out,
                preexec_fn=lambda: os.sched_setaffinity(0, {core}),
            )

    def connect(self) -> Link:
        """A connection, once there is somebody to answer it."""
        deadline = self.started + START_S_MAX
        while True:
            try:
                return Link(self.port)
            except ConnectionRefusedError:
                if self.process.poll() is not None or time.perf_counter() > deadline:
                    raise Refused(f"the peer did not start, see {self.log}:\n{self.log.read_text()[-2000:]}") from None
                time.sleep(0.002)

    @property
    def url(self) -> str:
        return f"pulsar://localhost:{self.port}"

    def rest(self, method: str, path: str) -> Any:
        """A request below /admin/v2 that must succeed; the answer's JSON, or None where there is none."""
        request = urllib.request.Request(f"http://localhost:{self.http_port}/admin/v2/{path}", method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            body = answer.read()
        return json.loads(body) if body else None

    def cpu_s(self) -> float:
        """Of all threads that live, to the nanosecond; where the kernel does not say, in its ticks."""
        spent = 0
        for thread in Path(f"/proc/{self.process.pid}/task").glob("*/schedstat"):
            with contextlib.suppress(FileNotFoundError):  # it has just ended
                spent += int(thread.read_text().split()[0])
        if spent:
            return spent / 1e9
        stat = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(stat[11]) + int(stat[12])) / TICKS

    def resident_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextlib.contextmanager
def running(arguments: list[str], port: int, log: Path, core: int) -> Iterator[Peer]:
    peer = Peer(arguments, port, log, core)
    try:
        yield peer
    finally:
        peer.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
