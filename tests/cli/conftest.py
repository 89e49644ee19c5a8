"""One real broker for the suite, and the command as a user runs it: a process, its exit code, what it wrote where.

`magnetar` runs in this process where only answers matter, which is quicker; `shell` runs the installed command, for
pipes, terminals and examples. Every test has names of its own.
"""

from __future__ import annotations

import itertools
import json
import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from magnetar.cli.main import main
from tests.servers.standalone import Standalone

_numbers = itertools.count(1)
PATIENCE_S = 60


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Ran]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    settings = {"forceDeleteNamespaceAllowed": True, "forceDeleteTenantAllowed": True}
    with Standalone(tmp_path_factory.mktemp("broker"), settings) as running:
        yield running


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Contexts and remembered names of whoever runs the tests are theirs."""
    for variable in ("MAGNETAR_CONTEXT", "MAGNETAR_CLIENT_CONF", "PULSAR_CLIENT_CONF"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


@pytest.fixture
def magnetar(broker: Standalone, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process; standard output is no terminal."""
    monkeypatch.setenv("MAGNETAR_URL", broker.url)
    monkeypatch.setenv("MAGNETAR_ADMIN_URL", broker.http)

    def run(*arguments: str) -> Ran:
        capfd.readouterr()
        code = main([str(one) for one in arguments])
        shown = capfd.readouterr()
        return Ran(code, shown.out, shown.err)

    return run


@pytest.fixture
def environment(broker: Standalone, own_home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    return {**kept, "MAGNETAR_URL": broker.url, "MAGNETAR_ADMIN_URL": broker.http, "TERM": "xterm-256color"}


@pytest.fixture
def shell(environment: dict[str, str]) -> Run:
    """Run a line of shell in which `magnetar` is the real command."""

    def run(line: str, **options: Any) -> Ran:
        command = f'magnetar() {{ "{sys.executable}" -m magnetar.cli.main "$@"; }}\n{line}'
        ran = subprocess.run(
            ["bash", "-c", command],
            env={**environment, **options.pop("env", {})},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            stdin=subprocess.DEVNULL if "input" not in options else None,
            **options,
        )
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    return run


@pytest.fixture
def terminal(environment: dict[str, str]) -> Callable[..., tuple[int, str]]:
    """Run a command on a terminal of its own, typing `typed` when it asks; its exit code and all that was seen."""

    def run(*arguments: str, typed: str = "", env: dict[str, str] | None = None) -> tuple[int, str]:
        above, below = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "magnetar.cli.main", *arguments],
            stdin=below,
            stdout=below,
            stderr=below,
            env={**environment, "COLUMNS": "120", **(env or {})},
        )
        os.close(below)
        seen, asked = b"", False
        while select.select([above], [], [], PATIENCE_S)[0]:
            try:
                piece = os.read(above, 65536)
            except OSError:
                break  # the other end is closed
            seen += piece
            if typed and not asked and b"to continue:" in seen:
                asked = True
                os.write(above, typed.encode() + b"\n")
        os.close(above)
        return process.wait(PATIENCE_S), seen.decode().replace("\r\n", "\n")

    return run


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A word nobody else uses."""
    return f"{re.sub(r'[^a-z0-9]+', '-', request.node.name.lower())[5:35].strip('-')}-{next(_numbers)}"


@pytest.fixture
def topic(broker: Standalone, name: str) -> str:
    """A topic that exists."""
    broker.admin("PUT", f"persistent/public/default/{name}")
    return name
