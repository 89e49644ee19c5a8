"""`magnetar standalone` as people start it: what it says on a terminal, and why it cannot start."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path

from tests.servers.standalone import Standalone

PATIENCE_S = 60


def started_on_a_terminal(folder: Path) -> str:
    """What is seen until the broker tells how to stop it."""
    above, below = pty.openpty()
    command = [sys.executable, "-m", "magnetar.cli.main", "standalone", "--data", str(folder)]
    process = subprocess.Popen([*command, "--port", "0", "--http-port", "0"], stdout=below, stderr=below)
    os.close(below)
    seen = b""
    while b"Ctrl-C" not in seen and select.select([above], [], [], PATIENCE_S)[0]:
        seen += os.read(above, 65536)
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 0
    os.close(above)
    return seen.decode().replace("\r\n", "\n")


def failed(*arguments: str) -> str:
    command = [sys.executable, "-m", "magnetar.cli.main", "standalone", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ran.returncode == 1, ran
    return ran.stderr


def test_terminal_hears_where_broker_is_and_what_to_try(tmp_path: Path) -> None:
    seen = started_on_a_terminal(tmp_path / "data")
    assert "is ready." in seen
    assert str(tmp_path / "data") in seen
    assert "programs on this machine only, without authentication" in seen
    assert "magnetar message produce hello world --url pulsar://localhost:" in seen
    assert '{"ready"' not in seen


def test_used_port_is_said_once(tmp_path: Path) -> None:
    with Standalone(tmp_path / "first", watched=False) as first:
        told = failed("--data", str(tmp_path / "second"), "--port", str(first.port), "--http-port", "0")
    line = next(line for line in told.splitlines() if line.startswith("magnetar:"))
    assert f":{first.port}: Address already in use; choose another port (--port" in line
    assert "attempting to bind" not in line
    assert line.count("cannot") == 2


def test_folder_that_cannot_be_made_is_definite_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    told = failed("--data", str(tmp_path / "file" / "data"), "--port", "0", "--http-port", "0")
    assert "cannot be created: Not a directory" in told
    assert "code: E200" in told


def test_security_in_file_ends_start(tmp_path: Path) -> None:
    """D1: it used to start, open to everybody."""
    conf = tmp_path / "broker.conf"
    conf.write_text("authenticationEnabled=true\ntokenSecretKey=data:;base64,c2VjcmV0\nbrokerServicePortTls=6651\n")
    data = tmp_path / "data"
    told = failed("--data", str(data), "--port", "0", "--http-port", "0", "--conf", str(conf))
    said = [line for line in told.splitlines() if not line.startswith("20")]
    assert said == [
        "magnetar: the broker cannot start: the configuration requires authentication, TLS, which this version "
        "of Magnetar does not support",
        "  detail: settings=authenticationEnabled=true, tokenSecretKey=*****, brokerServicePortTls=6651",
        "  run: the same command after you remove these settings from the file. Until this version supports them, "
        "protect its ports with a proxy or a network that does",
        "  code: E203",
    ]
    assert not data.exists()


def test_no_file_of_broker_is_open_to_others(tmp_path: Path) -> None:
    """D21: metadata.db was 0644; what an older version left is closed at the start."""
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    (data / "metadata.db").touch(0o644)
    before = os.umask(0o022)
    try:
        with Standalone(tmp_path, watched=False) as broker:
            broker.admin("PUT", "tenants/acme", {"allowedClusters": ["standalone"]})
            modes = {path.name: path.stat().st_mode & 0o777 for path in data.rglob("*") if path.is_file()}
    finally:
        os.umask(before)
    assert {"metadata.db", "metadata.db-wal", "lock"} <= modes.keys()
    assert {name: oct(mode) for name, mode in modes.items() if mode & ~0o640} == {}


def test_folder_that_everybody_may_write_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    told = failed("--data", str(tmp_path), "--port", "0", "--http-port", "0")
    assert f"the broker cannot start: every user may write to {tmp_path}" in told
    assert "code: E200" in told
