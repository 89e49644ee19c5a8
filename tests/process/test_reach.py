"""Which machines reach a broker (D19): tried from a network namespace of its own, which is another machine to it.

Without the right to make a namespace, the machine's own outer address is tried instead: a broker on 127.0.0.1 refuses
it too. Where CI asks for everything, that is a failure.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers.standalone import Standalone

REQUIRE_ALL = os.environ.get("MAGNETAR_REQUIRE") == "all"
NAME = f"magnetar{os.getpid()}"
HERE, THERE = f"10.213.{os.getpid() % 250}.1", f"10.213.{os.getpid() % 250}.2"
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5).close()"
NEIGHBOUR = [
    f"ip netns add {NAME}",
    f"ip link add mg{os.getpid()}a type veth peer name mg{os.getpid()}b netns {NAME}",
    f"ip addr add {HERE}/30 dev mg{os.getpid()}a",
    f"ip link set mg{os.getpid()}a up",
    f"ip -n {NAME} addr add {THERE}/30 dev mg{os.getpid()}b",
    f"ip -n {NAME} link set mg{os.getpid()}b up",
]


@dataclass(frozen=True)
class Neighbour:
    address: str  # of this machine, as the neighbour sees it
    command: tuple[str, ...]

    def reaches(self, port: int) -> bool:
        tried = [*self.command, sys.executable, "-c", CONNECT, self.address, str(port)]
        return subprocess.run(tried, stderr=subprocess.DEVNULL, timeout=60, check=False).returncode == 0


@pytest.fixture(scope="module")
def neighbour() -> Iterator[Neighbour]:
    try:
        for command in NEIGHBOUR:
            subprocess.run(command.split(), check=True, capture_output=True)
        yield Neighbour(HERE, ("ip", "netns", "exec", NAME))
    except (OSError, subprocess.CalledProcessError) as error:
        if REQUIRE_ALL:
            raise AssertionError("MAGNETAR_REQUIRE=all, and this machine makes no network namespace") from error
        yield Neighbour(outer_address(), ())
    finally:
        if Path("/var/run/netns", NAME).exists():
            subprocess.run(["ip", "netns", "del", NAME], check=True)


def outer_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect(("192.0.2.1", 9))  # sends nothing: the system chooses an address
        except OSError:
            pytest.skip("this machine has no address besides its loopback, and makes no network namespace")
        return str(one.getsockname()[0])


def test_broker_without_settings_serves_this_machine_only(tmp_path: Path, neighbour: Neighbour) -> None:
    with Standalone(tmp_path) as broker:
        assert broker.ask("GET", "/livez").status_code == 200
        assert not neighbour.reaches(broker.port)
        assert not neighbour.reaches(broker.http_port)
        assert "unauthenticated_broker_exposed" not in broker.log()


@pytest.mark.parametrize("settings", [{"bindAddress": "0.0.0.0"}, {}], ids=["file", "command line"])
def test_broker_that_is_asked_to_serves_other_machines(
    settings: dict[str, str], tmp_path: Path, neighbour: Neighbour
) -> None:
    more = [] if settings else ["--bind-address", "0.0.0.0"]
    with Standalone(tmp_path, settings, more=more) as broker:
        assert neighbour.reaches(broker.port)
        assert neighbour.reaches(broker.http_port)
        assert "unauthenticated_broker_exposed" in broker.log()
