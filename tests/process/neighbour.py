"""A client that works beside a hostile one, in a process of its own: `python -m tests.process.neighbour PORT PID FILE`.

It publishes nothing and asks for little: a LOOKUP and a PING every few milliseconds, each answered by the broker's loop
alone. Each line of the file is the time of the answer and how long it took, without the time in which the broker or the
neighbour was ready to run and the machine ran something else: a busy machine is not the broker's fault.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.process.hostile import T, Talker, a_command

STEP_S = 0.002
SAMPLES_MIN = 150
WAIT_S = 60.0


class Neighbour:
    """Starts it, and reads what it saw."""

    def __init__(self, port: int, broker_pid: int, file: Path) -> None:
        self._file = file
        command = [sys.executable, "-m", "tests.process.neighbour", str(port), str(broker_pid), str(file)]
        self._process = subprocess.Popen(command, cwd=Path(__file__).parents[2])

    def __enter__(self) -> Self:
        self.p99_s(time.monotonic())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def p99_s(self, since: float) -> float:
        """Of all answers from then on, some of them still to come."""
        deadline = time.monotonic() + WAIT_S
        while True:
            assert self._process.poll() is None, "the neighbour was shut out"
            lines = self._file.read_text().splitlines()[:-1] if self._file.exists() else []
            seen = [float(took) for at, took in map(str.split, lines) if float(at) >= since]
            if len(seen) >= SAMPLES_MIN:
                return sorted(seen)[len(seen) * 99 // 100]
            assert time.monotonic() < deadline, f"the neighbour has {len(seen)} answers"
            time.sleep(0.05)


def waited_s(pid: int) -> float:
    """For a processor, of the first thread of a process: Linux counts it."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[1]) / 1e9


def main(port: int, broker_pid: int, file: Path) -> None:
    pid = os.getpid()
    with Talker(port) as talker, file.open("w", buffering=1) as out:
        number = 0
        while True:
            time.sleep(STEP_S)
            waited = waited_s(pid) + waited_s(broker_pid)
            asked = time.monotonic()
            number += 1
            talker.say(a_command(T.LOOKUP, topic="persistent://public/default/beside", request_id=number))
            talker.say(a_command(T.PING))
            answers = {talker.hear(pings=True).type for _ in range(2)}
            while T.PONG not in answers or T.LOOKUP_RESPONSE not in answers:
                answers.add(talker.hear(pings=True).type)
            done = time.monotonic()
            took = done - asked - (waited_s(pid) + waited_s(broker_pid) - waited)
            out.write(f"{done:.6f} {max(took, 0.0):.6f}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
