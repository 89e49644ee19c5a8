"""A real broker process whose disk stops syncing when it is told to: `python -m tests.servers.failing --data DIR ...`.

Everything is the product's own but one call: once the file `fail` lies beside the data folder, every datasync answers
with an input/output error, as a dying disk does. Takes the options of `magnetar standalone`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

from magnetar.admin.server import WebServer
from magnetar.base.errors import StorageFailed
from magnetar.broker.standalone import run
from magnetar.cli.exit_codes import Exit, tell
from magnetar.runtime.disk import RealFile, RealFiles


class FailingFile(RealFile):
    __slots__ = ("_flag",)

    def __init__(self, file: RealFile, flag: str) -> None:
        super().__init__(file.path, file._fd)
        self._flag = flag

    def datasync(self) -> None:
        if os.path.exists(self._flag):
            raise StorageFailed(f"cannot sync {self.path}: Input/output error; check the disk and the permissions")
        super().datasync()


class FailingFiles(RealFiles):
    __slots__ = ("_flag",)

    def __init__(self, flag: str) -> None:
        self._flag = flag

    def open(self, path: str, *, create: bool = False) -> FailingFile:
        return FailingFile(super().open(path, create=create), self._flag)


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser()
    for option in ("--data", "--port", "--http-port", "--conf"):
        parser.add_argument(option)
    asked = parser.parse_args()
    given = {"brokerServicePort": asked.port, "webServicePort": asked.http_port}
    files = FailingFiles(os.path.join(os.path.dirname(asked.data), "fail"))
    failure = asyncio.run(run(asked.data, given, asked.conf, WebServer, say, files=files))
    if failure is None:
        return Exit.OK
    tell(f"the broker stopped: {failure}")
    return Exit.FAILURE


if __name__ == "__main__":
    sys.exit(main())
