"""`perf` and a broker that goes away while it measures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.standalone import Standalone


@pytest.mark.parametrize("verb", ["consume", "produce"])
def test_perf_names_broker_that_went_away(tmp_path: Path, verb: str) -> None:
    with Standalone(tmp_path) as server:
        command = [sys.executable, "-m", "magnetar.cli.main", "perf", verb, "--seconds", "3", "--timeout", "2"]
        command += ["--url", server.url]
        perf = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert perf.stderr is not None
        assert "msg/s" in perf.stderr.readline()
        server.kill()
        _, said = perf.communicate(timeout=60)
        assert f"not connected to {server.url}; trying again" in said
        assert perf.returncode in (1, 6)
        assert "code: E" in said
        if verb == "consume":
            assert f"no broker answers at {server.url}" in said
