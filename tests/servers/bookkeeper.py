"""Real bookies from Maven packages, each in a process of its own, with a real ZooKeeper: the peers of our client.

Their folders belong to the test. Entries are synced to the disk before they are acknowledged, as by default. Ready
means that a bookie listens. They end by SIGKILL. What is missing skips the test that asked, as for the other servers.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.servers import java, zookeeper
from tests.servers.pulsar import LOGGING, WATCHED, free_ports
from tests.servers.zookeeper import ZooKeeper

POM = "bookkeeper.pom.xml"
MAIN = "org.apache.bookkeeper.server.Main"
PEER = java.HERE / "BookKeeperPeer.java"
ROOT = "/ledgers"
SORTED = "org.apache.bookkeeper.bookie.SortedLedgerStorage"
DATABASE = "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage"
HEAP_MB = 192
START_S = 300.0
PEER_S = 120.0
POLL_S = 0.1
SETTINGS: dict[str, object] = {
    "allowLoopback": "true",
    "advertisedAddress": "127.0.0.1",
    "listeningInterface": "lo",
    "zkTimeout": 10_000,
    "ledgerStorageClass": SORTED,
    "dbStorage_writeCacheMaxSizeMb": 16,
    "dbStorage_readAheadCacheMaxSizeMb": 16,
    "dbStorage_rocksDB_blockCacheSize": 8_388_608,
    "skipListSizeLimit": 8_388_608,
    "journalMaxSizeMB": 64,
    "journalPreAllocSizeMB": 4,
    "journalMaxBackups": 0,
    "logSizeLimit": 67_108_864,
    "entryLogFilePreallocationEnabled": "false",
    "pageLimit": 1_000,
    "openFileLimit": 200,
    "serverNumIOThreads": 2,
    "numAddWorkerThreads": 1,
    "numReadWorkerThreads": 1,
    "gcWaitTime": 10_000,
    "minorCompactionInterval": 60,
    "majorCompactionInterval": 120,
    "diskUsageThreshold": 0.99,
    "diskUsageWarnThreshold": 0.99,
    "minUsableSizeForIndexFileCreation": 10_000_000,
    "minUsableSizeForEntryLogCreation": 10_000_000,
    "minUsableSizeForHighPriorityWrites": 10_000_000,
    "httpServerEnabled": "false",
}


class Bookie:
    """One bookie. Its port is chosen once, so that clients find it again after a restart."""

    def __init__(self, folder: Path, keeper: ZooKeeper, settings: Mapping[str, object]) -> None:
        self.folder = folder
        (self.port,) = free_ports(1)
        self.id = f"127.0.0.1:{self.port}"
        self.output = folder / "bookie.log"
        self.conf = folder / "bookie.conf"
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)
        uri = f"zk+hierarchical://{keeper.address}{ROOT}"
        own: dict[str, object] = {"bookiePort": self.port, "metadataServiceUri": uri}
        own |= {"journalDirectories": folder / "journal", "ledgerDirectories": folder / "ledgers"}
        text = "".join(f"{key}={value}\n" for key, value in (SETTINGS | own | dict(settings)).items())
        self.conf.write_text(text)

    def launch(self) -> None:
        """Starts it without waiting."""
        with self.output.open("ab") as log:
            self.process = subprocess.Popen(
                ["sh", "-c", WATCHED, "sh", "nice", "-n", "10", *_java(MAIN), "--conf", str(self.conf)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )

    def wait_ready(self) -> None:
        end = time.monotonic() + START_S
        while time.monotonic() < end and self.process is not None and self.process.poll() is None:
            if self._listens():
                return
            time.sleep(POLL_S)
        said = "\n".join(self.output.read_text(errors="replace").splitlines()[-40:])
        self.kill()
        raise AssertionError(f"the bookie did not get ready:\n{said}")

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

    def _listens(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0):
                return True
        except OSError:
            return False

    def _signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, number)


class Ensemble:
    """A ZooKeeper and its bookies."""

    def __init__(self, folder: Path, settings: Mapping[str, object] | None = None) -> None:
        self.folder = folder
        self.settings = dict(settings or {})
        self.keeper = ZooKeeper(folder / "zookeeper")
        self.bookies: list[Bookie] = []

    def start(self, bookies: int) -> None:
        """The cluster must be initialized first, by our client."""
        new = [self._new() for _ in range(bookies)]
        for bookie in new:
            bookie.launch()
        for bookie in new:
            bookie.wait_ready()

    def java_client(self, *words: str) -> list[str]:
        """The result of one call of BookKeeper's Java client."""
        command = ["nice", "-n", "10", *_java(str(PEER)), f"zk+hierarchical://{self.keeper.address}{ROOT}", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PEER_S, check=False, cwd=self.folder)
        for line in done.stdout.splitlines():
            _, mark, result = line.partition("RESULT ")  # behind a stack trace that the log did not end with a line
            if mark:
                return result.split()
        raise AssertionError(f"{words}: {done.stdout[-3000:]} {done.stderr[-3000:]}")

    def stop(self) -> None:
        for bookie in self.bookies:
            bookie.kill()
        self.keeper.kill()

    def _new(self) -> Bookie:
        bookie = Bookie(self.folder / f"bookie-{len(list(self.folder.iterdir()))}", self.keeper, self.settings)
        self.bookies.append(bookie)
        return bookie


def need() -> None:
    """Skips the test, with a reason that names the missing part, where no bookie can be started."""
    zookeeper.need()
    java.class_path(POM)


@contextmanager
def ensemble(folder: Path, settings: Mapping[str, object] | None = None) -> Iterator[Ensemble]:
    """A ZooKeeper that runs, and no bookie yet."""
    need()
    servers = Ensemble(folder, settings)
    try:
        servers.keeper.start()
        yield servers
    finally:
        servers.stop()


def _java(main: str) -> list[str]:
    properties = {"java.net.preferIPv4Stack": "true", "log4j2.configurationFile": str(LOGGING)}
    return [*java.command(POM, heap_mb=HEAP_MB, properties=properties), main]
