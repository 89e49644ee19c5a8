"""A real broker process whose loop is watched: `python -m tests.servers.probed --data DIR ...`.

Everything is the product's own; turns of the loop that take too much processor time are lines of the file `turns`
beside the data folder. Takes the options of `magnetar standalone`.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import ClassVar

import uvloop

from magnetar.admin.server import WebServer
from magnetar.broker.standalone import run
from magnetar.testing.probe import LoopProbe
from tests.servers.standalone import Standalone


class Probed(Standalone):
    """One broker, and how long its loop stood still."""

    program: ClassVar[list[str]] = ["tests.servers.probed"]

    def long_turns(self) -> list[float]:
        """Since the start, in seconds of processor time."""
        found = self.folder / "turns"
        return [float(line) for line in found.read_text().splitlines()] if found.exists() else []


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    for option in ("--data", "--port", "--http-port", "--conf"):
        parser.add_argument(option)
    asked = parser.parse_args()
    turns = Path(os.path.dirname(asked.data)) / "turns"

    def report(seconds: float) -> None:
        with turns.open("a") as file:
            file.write(f"{seconds:.4f}\n")

    class ProbedServer(WebServer):
        async def start(self, host: str, port: int) -> int:
            LoopProbe(report, garbage=True).start()
            return await super().start(host, port)

    given = {"brokerServicePort": asked.port, "webServicePort": asked.http_port}
    uvloop.run(run(asked.data, given, asked.conf, ProbedServer, say))


if __name__ == "__main__":
    main()
