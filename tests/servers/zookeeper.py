"""A real ZooKeeper, or an ensemble of several, each server in a process of its own.

The jars are those inside the wheel of PySpark, so no Maven is needed; Java is the one of `tests.servers.java`. Where
either is missing, the test that asked is skipped with a reason. Data are in a folder of the test and are not synced.
Ready means that the server answers as leader, follower or alone.

    python -m tests.servers.zookeeper        start an ensemble of three, say how long that took
"""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.servers import java
from tests.servers.pulsar import WATCHED, free_ports

MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
JARS = ("zookeeper-*", "metrics-core-*", "snappy-java-*", "slf4j-api-*", "log4j-*", "netty-*", "commons-*")
CLIENT = "org.apache.zookeeper.ZooKeeperMain"
CLIENT_S = 60.0
HEAP_MB = 192
START_S = 120.0
POLL_S = 0.05
TICK_MS = 500
SETTINGS: dict[str, object] = {
    "tickTime": TICK_MS,
    "minSessionTimeout": 2 * TICK_MS,
    "maxSessionTimeout": 60_000,
    "initLimit": 20,
    "syncLimit": 6,
    "maxClientCnxns": 0,
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "*",
    "standaloneEnabled": "true",
}


@cache
def jars() -> str:
    """The class path; skips where PySpark is not installed."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        pytest.skip("PySpark is not installed, and its jars are the ZooKeeper of this test: run make test-all")
    folder = Path(found.origin).parent / "jars"
    return os.pathsep.join(sorted(str(path) for pattern in JARS for path in folder.glob(pattern + ".jar")))


def need() -> None:
    """Skips the test, with a reason that names the missing part, where no server can be started."""
    jars()
    java.java()


class ZooKeeper:
    """One server. Its ports are chosen once, so that clients find it again after a restart."""

    def __init__(self, folder: Path, settings: Mapping[str, object] | None = None) -> None:
        self.folder = folder
        self.port, self.peer_port, self.election_port = free_ports(3)
        self.settings = SETTINGS | dict(settings or {})
        self.number = 1
        self.output = folder / "zookeeper.log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def launch(self) -> None:
        """Starts it without waiting."""
        data = self.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        (data / "myid").write_text(str(self.number))
        settings = {"dataDir": data, "clientPort": self.port, "clientPortAddress": "127.0.0.1", **self.settings}
        conf = self.folder / "zoo.cfg"
        conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        path, _ = java.java()
        command = [str(path), f"-Xmx{HEAP_MB}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += ["-Djava.net.preferIPv4Stack=true", "-Dzookeeper.forceSync=no", "-Dzookeeper.nio.numWorkerThreads=2"]
        command += ["-cp", jars(), MAIN, str(conf)]
        with self.output.open("ab") as log:
            self.process = subprocess.Popen(
                ["sh", "-c", WATCHED, "sh", *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )

    def wait_ready(self) -> None:
        end = time.monotonic() + START_S
        while time.monotonic() < end and self.process is not None and self.process.poll() is None:
            if self.mode():
                return
            time.sleep(POLL_S)
        said = self.log()
        self.kill()
        raise AssertionError(f"ZooKeeper did not get ready:\n{said}")

    def start(self) -> Self:
        self.launch()
        self.wait_ready()
        return self

    def mode(self) -> str:
        """`leader`, `follower` or `standalone`; empty while it serves nobody."""
        for line in self.command("srvr").splitlines():
            if line.startswith("Mode: "):
                return line.removeprefix("Mode: ").strip()
        return ""

    def command(self, word: str) -> str:
        """The answer to one of the words of four letters; empty if there is none."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2.0) as connection:
                connection.sendall(word.encode())
                found = b""
                while part := connection.recv(65536):
                    found += part
                return found.decode()
        except OSError:
            return ""

    def ask_java(self, *words: str) -> list[str]:
        """The lines that ZooKeeper's own client answers to one command, with its default buffer of 1 MB."""
        path, _ = java.java()
        command = [str(path), "-XX:TieredStopAtLevel=1", "-cp", jars(), CLIENT, "-server", self.address, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=CLIENT_S, check=True)
        return done.stdout.splitlines()

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert process.stdin is not None
            process.stdin.close()

    def log(self, lines: int = 60) -> str:
        return "\n".join(self.output.read_text(errors="replace").splitlines()[-lines:])

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, number)


@contextmanager
def ensemble(folder: Path, servers: int = 3, settings: Mapping[str, object] | None = None) -> Iterator[list[ZooKeeper]]:
    """So many servers that agree."""
    need()
    members = [ZooKeeper(folder / str(number), settings) for number in range(1, servers + 1)]
    for number, member in enumerate(members, 1):
        member.number = number
        for other, peer in enumerate(members, 1):
            member.settings[f"server.{other}"] = f"127.0.0.1:{peer.peer_port}:{peer.election_port}"
    try:
        for member in members:
            member.launch()
        for member in members:
            member.wait_ready()
        yield members
    finally:
        for member in members:
            member.kill()


def main() -> int:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, ensemble(Path(folder)) as members:
        modes = ", ".join(f"{member.address} {member.mode()}" for member in members)
        sys.stdout.write(f"{modes} after {time.monotonic() - begun:.1f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
