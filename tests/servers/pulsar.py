"""A real Apache Pulsar standalone, from Maven packages, in a process of its own: the peer our client must also satisfy.

It has the face of `Standalone` (url, http, admin, restart), so that one suite runs on both. Ready is an answer of its
health check, not an open port. It is always ended by SIGKILL: a polite stop takes minutes, and its data are thrown
away.

    python -m tests.servers.pulsar        download what it needs, start it once, say how long that took
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2
import pytest

from tests.servers import java

POM = "pulsar.pom.xml"
POM_5 = "pulsar5.pom.xml"  # with scalable topics, which want `SCALABLE` among the settings
LOGGING = java.HERE / "pulsar.log4j2.xml"
MAIN = "org.apache.pulsar.PulsarStandaloneStarter"
HEAP_MB = 512
START_S = 400.0
POLL_S = 0.2

# The pipe ends with the process that holds it, however that ends, and the server ends with the pipe.
WATCHED = 'exec 3<&0; "$@" </dev/null 3<&- & server=$!; { read -r _ <&3; kill -9 $server; } & wait $server'

# Small, on loopback, with every feature our broker has; what a test sets goes over it.
SETTINGS: dict[str, object] = {
    "metadataStoreUrl": "",
    "configurationMetadataStoreUrl": "",
    "bindAddress": "127.0.0.1",
    "advertisedAddress": "localhost",
    "clusterName": "standalone",
    "managedLedgerDefaultEnsembleSize": 1,
    "managedLedgerDefaultWriteQuorum": 1,
    "managedLedgerDefaultAckQuorum": 1,
    "managedLedgerCacheSizeMB": 64,
    "brokerDeleteInactiveTopicsEnabled": False,
    "defaultNumberOfNamespaceBundles": 1,
    "loadBalancerEnabled": False,
    "systemTopicEnabled": True,
    "topicLevelPoliciesEnabled": True,
    "webSocketServiceEnabled": False,
    "enablePackagesManagement": False,
    "ledgerStorageClass": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
    "dbStorage_writeCacheMaxSizeMb": 32,
    "dbStorage_readAheadCacheMaxSizeMb": 32,
    "dbStorage_rocksDB_blockCacheSize": 4194304,
    "nettyMaxFrameSizeBytes": 5_253_120,  # as its own conf: the largest message and its metadata
    "journalSyncData": False,
    "journalMaxGroupWaitMSec": 1,
    "diskUsageThreshold": 0.99,
    "diskUsageWarnThreshold": 0.99,
    "allowLoopback": True,
}

# A segment that is sealed while it is written to may stay fenced there for ever, and what is in it and behind it never
# comes; with a bound the server closes such a segment and opens it anew.
SCALABLE: dict[str, object] = {
    "scalableTopicsEnabled": True,
    "scalableTopicAutoScaleEnabled": False,
    "topicFencingTimeoutSeconds": 3,
}


class Pulsar:
    """One standalone. Ports are chosen once and kept, so that clients find it again after a restart."""

    def __init__(self, folder: Path, settings: Mapping[str, object] | None = None, *, pom: str = POM) -> None:
        self.folder = folder
        self.pom = pom
        self.data = folder / "data"
        self.output = folder / "pulsar.log"
        self.port, self.http_port, self._bookie_port = free_ports(3)
        self.settings = SETTINGS | dict(settings or {})
        self.process: subprocess.Popen[bytes] | None = None
        self._http: httpx2.Client | None = None

    @property
    def url(self) -> str:
        return f"pulsar://localhost:{self.port}"

    @property
    def http(self) -> str:
        return f"http://localhost:{self.http_port}"

    # Life

    def start(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        ports = {"brokerServicePort": self.port, "webServicePort": self.http_port}
        conf = self.folder / "standalone.conf"
        conf.write_text("".join(f"{key}={_text(value)}\n" for key, value in (self.settings | ports).items()))
        properties = {
            "java.net.preferIPv4Stack": "true",
            "io.netty.tryReflectionSetAccessible": "true",
            "log4j2.is.webapp": "false",
            "log4j.configurationFile": str(LOGGING),
        }
        command = java.command(self.pom, heap_mb=HEAP_MB, properties=properties)
        command += [MAIN, "-c", str(conf), "-a", "localhost", "--no-functions-worker", "--no-stream-storage"]
        command += ["--metadata-dir", str(self.data / "metadata"), "--bookkeeper-dir", str(self.data / "bookkeeper")]
        if self.pom == POM:  # from 5 on it finds one by itself
            command += ["--bookkeeper-port", str(self._bookie_port)]
        with self.output.open("ab") as log:
            self.process = subprocess.Popen(
                ["sh", "-c", WATCHED, "sh", *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )
        self._wait_healthy(self.process)
        return self

    def kill(self) -> None:
        """SIGKILL to the whole session it was started in."""
        process, self.process = self.process, None
        if process is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert process.stdin is not None
            process.stdin.close()

    def restart(self, *, kill: bool = True) -> None:
        self.kill()
        self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        if self._http is not None:
            self._http.close()

    def log(self, lines: int = 60) -> str:
        return "\n".join(self.output.read_text(errors="replace").splitlines()[-lines:])

    # REST

    def ask(self, method: str, path: str, body: object = None, **params: object) -> httpx2.Response:
        """One request below the root; `body` is sent as JSON where there is one."""
        if self._http is None:
            self._http = httpx2.Client(timeout=60.0, follow_redirects=True)
        query = {key: str(value) for key, value in params.items()}
        if body is None:
            return self._http.request(method, self.http + path, params=query)
        return self._http.request(method, self.http + path, params=query, json=body)

    def admin(self, method: str, path: str, body: object = None, **params: object) -> Any:
        """A request below /admin/v2 that must succeed; the answer's JSON, or None where there is none."""
        answer = self.ask(method, f"/admin/v2/{path}", body, **params)
        assert answer.status_code < 300, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def _wait_healthy(self, process: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + START_S
        while time.monotonic() < end and process.poll() is None:
            try:
                if self.ask("GET", "/admin/v2/brokers/health").text.strip() == "ok":
                    return
            except httpx2.HTTPError:
                pass  # not listening yet, or still waiting for its own first topic
            time.sleep(POLL_S)
        code = process.poll()
        self.kill()
        raise AssertionError(f"Pulsar did not get healthy (exit code {code}):\n{self.log()}")


def free_ports(count: int) -> list[int]:
    """So many ports nobody listens on; all of five digits, as the cutting proxy needs them."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def main() -> int:
    begun = time.monotonic()
    try:
        for pom in (POM, POM_5):
            java.class_path(pom)
    except pytest.skip.Exception as reason:
        sys.stderr.write(f"{reason}\n")
        return 1
    fetched = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, Pulsar(Path(folder)) as server:
        sys.stdout.write(f"jars after {fetched - begun:.1f} s, healthy at {server.http} after ")
        sys.stdout.write(f"{time.monotonic() - fetched:.1f} s more\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
