"""A program whose broker is away says so: a warning at once, an error after seconds with one traceback."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import magnetar
with magnetar.Client("pulsar://localhost:1"{options}) as client:
    client.create_producer("orders")
"""


def ran(options: str = "", first: str = "") -> subprocess.CompletedProcess[str]:
    program = first + PROGRAM.format(options=options)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)


def test_refused_connection_fails_within_seconds_with_one_traceback():
    done = ran()
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    assert len(done.stderr.splitlines()) <= 15
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("magnetar.")
    assert "no broker listens at pulsar://localhost:1: every attempt failed for 5 s" in last
    assert "start the broker, or check host and port" in last
    assert done.stderr.count("connection_failed") == 1
    assert done.stderr.index("connection_failed") < done.stderr.index("Traceback")


def test_port_of_another_protocol_fails_within_seconds():
    program = (
        "import http.server, threading, time\n"
        "server = http.server.HTTPServer(('127.0.0.1', 0), http.server.BaseHTTPRequestHandler)\n"
        "threading.Thread(target=server.serve_forever, daemon=True).start()\n"
        "started = time.monotonic()\n"
        "import magnetar\n"
        "try:\n"
        "    with magnetar.Client(f'pulsar://127.0.0.1:{server.server_port}') as client:\n"
        "        client.create_producer('orders')\n"
        "except magnetar.errors.Unreachable as error:\n"
        "    print(time.monotonic() - started < 20, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.startswith("True no broker listens at pulsar://127.0.0.1:"), done.stderr
    assert "this is HTTP" in done.stdout


def test_program_that_configures_logging_decides_what_is_shown():
    quiet = "import logging\nlogging.getLogger('magnetar').addHandler(logging.NullHandler())\n"
    assert "connection_failed" not in ran(", operation_timeout_s=0.1", quiet).stderr
    root = "import logging\nlogging.basicConfig(format='%(levelname)s %(name)s %(message)s')\n"
    (line,) = [one for one in ran(", operation_timeout_s=0.1", root).stderr.splitlines() if "connection_failed" in one]
    assert line.startswith("WARNING magnetar.client.pool connection_failed url=pulsar://localhost:1 why=cannot connect")
