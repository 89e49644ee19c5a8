"""A real `magnetar standalone` in a process of its own: started on free ports, asked over REST, stopped or killed.

Readiness is the one line of JSON that the command prints; nothing is guessed from time. A restarted broker comes back
on the same ports and the same folder, so that clients find it again. It trusts the operating system alone: no code of
the broker runs in the test's process. Its loop is watched: a turn that takes too much processor time fails the test.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

import httpx2

from tests.support import long_turns

START_S = 120.0
STOP_S = 60.0
PROBED = Path(__file__).with_name("probed.py")


class Standalone:
    """One broker. `settings` go into a conf file of Pulsar's form; ports of 0 are chosen once and then kept.
    `more`: further words of the command. Not `watched`: the command runs without a probe.
    """

    program: ClassVar[list[str]] = []  # in the place of the command; it has no probe

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, object] | None = None,
        *,
        port: int = 0,
        http_port: int = 0,
        more: Sequence[str] = (),
        watched: bool = True,
    ) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.output = folder / "broker.log"
        self.turns = folder / "turns"
        self.settings = {"scalableTopicAutoScaleEnabled": False, **(settings or {})}  # tests reshape themselves
        self.port = port
        self.http_port = http_port
        self.more = more
        self._watched = watched and not self.program
        self.process: subprocess.Popen[bytes] | None = None
        self._http: httpx2.Client | None = None

    @property
    def url(self) -> str:
        return f"pulsar://localhost:{self.port}"

    @property
    def http(self) -> str:
        return f"http://localhost:{self.http_port}"

    @property
    def pid(self) -> int:
        assert self.process is not None, "not started"
        return self.process.pid

    # Life

    def start(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        conf = self.folder / "standalone.conf"
        conf.write_text("".join(f"{key}={_text(value)}\n" for key, value in self.settings.items()))
        command = [sys.executable, *self._words(), "--data", str(self.data)]
        command += ["--port", str(self.port), "--http-port", str(self.http_port), "--conf", str(conf), *self.more]
        with self.output.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        ready = self._wait_ready(self.process)
        if self._http is None:
            self._http = httpx2.Client(timeout=60.0)
        self.port = int(ready["url"].rsplit(":", 1)[1])
        self.http_port = int(ready["http"].rsplit(":", 1)[1])
        return self

    def _words(self) -> list[str]:
        if not self._watched:
            return ["-m", *(self.program or ("magnetar.cli.main", "standalone"))]
        long_turns.watch(self.turns)
        return ["-P", str(PROBED), str(self.turns), "standalone"]

    def stop(self) -> int:
        """SIGTERM, and what the process says to it: 0 is a clean stop."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def restart(self, *, kill: bool = False) -> None:
        self._end(signal.SIGKILL if kill else signal.SIGTERM)
        self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process is not None:
            self.stop()
        if self._http is not None:
            self._http.close()
            self._http = None

    def _wait_ready(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while selector.select(START_S):
                line = process.stdout.readline()
                if not line:
                    break
                if line.startswith(b"{") and b'"ready"' in line:
                    found: dict[str, Any] = json.loads(line)
                    return found
        process.kill()
        process.wait()
        process.stdout.close()
        self.process = None
        raise AssertionError(f"the broker did not get ready (exit code {process.returncode}):\n{self.log()}")

    def _end(self, how: signal.Signals) -> int:
        process = self.process
        if process is None:
            return 0
        process.send_signal(how)
        try:
            code = process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"the broker did not stop within {STOP_S:.0f} s:\n{self.log()}") from None
        finally:
            self.process = None
            if process.stdout is not None:
                process.stdout.close()
        return code

    # What is seen from outside

    def log(self, lines: int = 60) -> str:
        return "\n".join(self.output.read_text(errors="replace").splitlines()[-lines:])

    def rss_bytes(self) -> int:
        """What the process holds in memory now."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")

    def cpu_s(self) -> float:
        """Processor seconds used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def disk_bytes(self) -> int:
        """What the data folder takes on disk, in blocks: preallocated and sparse files count as they are."""
        return sum(path.stat().st_blocks * 512 for path in self.data.rglob("*") if path.is_file())

    # REST

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        **params: object,
    ) -> httpx2.Response:
        """One request below the root; `body` is sent as JSON where there is one."""
        assert self._http is not None, "not started"
        query = {key: str(value) for key, value in params.items()}
        if body is None:
            return self._http.request(method, self.http + path, params=query, headers=headers)
        return self._http.request(method, self.http + path, params=query, headers=headers, json=body)

    def admin(self, method: str, path: str, body: object = None, **params: object) -> Any:
        """A request below /admin/v2 that must succeed; the answer's JSON, or None where there is none."""
        answer = self.ask(method, f"/admin/v2/{path}", body, headers=None, **params)
        assert answer.status_code < 300, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
