"""Runs the demo's broker as a separate `magnetar standalone` process, so that `kill -9` really kills a broker.

The broker is ready when the command prints its line of JSON; no timing is assumed. The ports are chosen once and reused
after every restart, like the directory. Standard error goes to a file, which is shown only if the broker fails to
start.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from magnetar.base.errors import NotReady
from magnetar.base.limits import DEMO_START_S, DEMO_STOP_S

SHOWN_LINES = 15


class BrokerProcess:
    """`settings` override the broker's configuration, except ports and directory."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.url = ""
        self.http = ""
        self.pid = 0
        self._folder = folder
        self._settings = dict(settings or {})
        self._ports = ("0", "0")
        self._process: asyncio.subprocess.Process | None = None

    @property
    def up(self) -> bool:
        return self._process is not None

    async def start(self) -> None:
        port, http_port = self._ports
        command = [sys.executable, "-m", "magnetar.cli.main", "standalone", "--data", str(self._folder / "data")]
        command += ["--port", port, "--http-port", http_port, "--bind-address", "127.0.0.1"]
        if self._settings:
            conf = self._folder / "broker.conf"
            conf.write_text("".join(f"{key}={value}\n" for key, value in self._settings.items()))
            command += ["--conf", str(conf)]
        with (self._folder / "broker.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, stderr=log)
        self._process, self.pid = process, process.pid
        try:
            async with asyncio.timeout(DEMO_START_S):
                ready = await _ready(process)
        except (TimeoutError, EOFError) as error:
            await self._end(kill=True)
            lines = (self._folder / "broker.log").read_text(errors="replace").splitlines()[-SHOWN_LINES:]
            raise NotReady("the demo's broker did not start: " + "\n".join(lines)) from error
        self.url, self.http = ready["url"], ready["http"]
        self._ports = (self.url.rsplit(":", 1)[1], self.http.rsplit(":", 1)[1])

    async def kill(self) -> None:
        """Sends SIGKILL, so the broker cannot clean up."""
        await self._end(kill=True)

    async def stop(self) -> None:
        await self._end(kill=False)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end(kill=error is not None)

    async def _end(self, *, kill: bool) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        try:
            process.kill() if kill else process.terminate()
        except ProcessLookupError:  # the process has already exited
            pass
        try:
            async with asyncio.timeout(DEMO_STOP_S):
                await process.communicate()  # also closes its pipe
        except TimeoutError:
            process.kill()
            await process.communicate()


async def _ready(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout is not None
    while line := await process.stdout.readline():
        if line.startswith(b"{"):
            document: dict[str, Any] = msgspec.json.decode(line)
            return document
    raise EOFError
