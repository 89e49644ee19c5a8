"""A real broker process that dies at a mark: `python -m tests.servers.dying --data DIR ...`.

Everything is the product's own; the file `die` beside the data folder names the mark at which the process sends itself
SIGKILL, the first time it is passed. Takes the options of `magnetar standalone`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys

from magnetar.admin.server import WebServer
from magnetar.broker.standalone import run

WHERE = ("reshape.", "topic.sealed", "subscription.", "plain.", "migration.", "stage.")  # marks that the file may name


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    for option in ("--data", "--port", "--http-port", "--conf"):
        parser.add_argument(option)
    asked = parser.parse_args()
    flag = os.path.join(os.path.dirname(asked.data), "die")

    def hold(name: str, facts: dict[str, object]) -> None:
        if name.startswith(WHERE) and os.path.exists(flag):
            with open(flag, encoding="ascii") as file:
                if file.read() == name:
                    os.kill(os.getpid(), signal.SIGKILL)

    given = {"brokerServicePort": asked.port, "webServicePort": asked.http_port}
    asyncio.run(run(asked.data, given, asked.conf, WebServer, say, marks=[hold]))


if __name__ == "__main__":
    main()
