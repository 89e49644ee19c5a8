"""Peers cannot fill the disk with the log of a real broker (D13)."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from pathlib import Path

from magnetar.wire.frames import encode_command
from magnetar.wire.proto import pb
from tests.servers.standalone import Standalone

CONNECTIONS = 600
LOG_BYTES_MAX = 400_000


def connect(version: str) -> bytes:
    command = pb.BaseCommand(type=pb.BaseCommand.CONNECT)
    command.connect.client_version = version
    command.connect.protocol_version = 19
    return bytes(encode_command(command))


def send_and_read_to_the_end(port: int, data: bytes) -> None:
    """Send bytes the broker refuses, and wait until it has closed the connection.

    A broker that closes before it has read everything resets the connection: that is an end as well.
    """
    with socket.create_connection(("127.0.0.1", port), 20) as peer, suppress(ConnectionError):
        peer.sendall(data)
        while peer.recv(65_536):
            pass


def test_peers_that_cause_lines_do_not_fill_log(tmp_path: Path) -> None:
    with Standalone(tmp_path) as broker:
        loud = connect("\x1b[2J" + "v" * 60_000)
        for _ in range(CONNECTIONS):
            send_and_read_to_the_end(broker.port, loud + b"\xff" * 64)
        for _ in range(CONNECTIONS):
            send_and_read_to_the_end(broker.http_port, b"no HTTP\r\n\r\n")
        for _ in range(CONNECTIONS):
            broker.ask("GET", "/admin/v2/persistent/public/none/x/stats")
        deadline = time.monotonic() + 30
        while "log_lines_dropped" not in broker.log() and time.monotonic() < deadline:
            time.sleep(0.2)
        assert "log_lines_dropped" in broker.log()
        assert broker.output.stat().st_size < LOG_BYTES_MAX
        assert b"\x1b[2J" not in broker.output.read_bytes()
