"""`magnetar standalone` whose loop is watched: `python -P tests/servers/probed.py FILE standalone --data DIR ...`.

Everything is the product's own, but limits may be lower: MAGNETAR_PROBED_LIMITS names some of `base/limits.py`. A turn
of the loop that takes too much processor time is a line of FILE: its seconds and where it was. FILE.windows counts how
often the loop came back, by milliseconds of work: `Windows` reads it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from magnetar.base import limits

LOWERED = json.loads(os.environ.get("MAGNETAR_PROBED_LIMITS", "{}"))
for limit, number in LOWERED.items():  # before other modules take them
    assert number < getattr(limits, limit), limit
    setattr(limits, limit, number)

from magnetar.admin import server  # noqa: E402
from magnetar.cli.main import main  # noqa: E402
from magnetar.testing.probe import LoopProbe  # noqa: E402

INTERVAL_S = 0.002
IDLE_S = 0.0002  # a window with less work is no turn that anybody waited for
SAVE_S = 0.5
SAMPLE_S = 0.02
FRAMES_MAX = 12


@dataclass(frozen=True)
class Windows:
    """Times between two timers of the loop in which it worked: none is shorter than its longest turn less 2 ms."""

    counts: Counter[int]  # by whole milliseconds of processor time

    @classmethod
    def read(cls, file: Path) -> Windows:
        saved = json.loads(_windows(file).read_text())
        return cls(Counter({int(key): value for key, value in saved.items()}))

    def percentile_s(self, share: float) -> float:
        """An upper bound of that share of them."""
        left = self.counts.total() * share
        for milliseconds in sorted(self.counts):
            left -= self.counts[milliseconds]
            if left <= 0:
                return (milliseconds + 1) / 1000
        return 0.0


class Watch:
    """Writes what a probe reports. A thread notes where the loop is whenever a turn lasts."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._counts: Counter[int] = Counter()
        self._windows = 0
        self._loop_thread = threading.get_ident()
        self._stack = ""
        self._ended = threading.Event()
        self._saved_s = time.monotonic()
        self._probe = LoopProbe(self._report, garbage=True, interval_s=INTERVAL_S, observe=self._observe)

    def start(self) -> None:
        threading.Thread(target=self._sample, name="sampler", daemon=True).start()
        self._probe.start()

    def stop(self) -> None:
        self._probe.stop()
        self._ended.set()

    def _report(self, seconds: float) -> None:
        with self._file.open("a") as file:
            file.write(f"{seconds:.3f} s {self._stack}\n")

    def _observe(self, seconds: float) -> None:
        self._windows += 1
        if seconds > IDLE_S:
            self._counts[int(max(seconds - INTERVAL_S, 0.0) * 1000)] += 1
        now = time.monotonic()
        if now - self._saved_s > SAVE_S:
            self._saved_s = now
            part = self._file.with_suffix(".part")
            part.write_text(json.dumps(self._counts))
            part.replace(_windows(self._file))

    def _sample(self) -> None:
        before = -1
        while not self._ended.wait(SAMPLE_S):
            if self._windows == before:
                frames = islice(traceback.walk_stack(sys._current_frames()[self._loop_thread]), FRAMES_MAX)
                self._stack = " < ".join(
                    f"{frame.f_code.co_filename}:{line} {frame.f_code.co_name}" for frame, line in frames
                )
            before = self._windows


def _windows(file: Path) -> Path:
    return file.with_suffix(".windows")


class ProbedServer(server.WebServer):
    """Takes the place of the product's own; the broker starts it in its loop."""

    file = Path()

    async def start(self, host: str, port: int) -> int:
        Watch(self.file).start()
        return await super().start(host, port)


if __name__ == "__main__":
    ProbedServer.file = Path(sys.argv.pop(1))
    server.WebServer = ProbedServer  # type: ignore[misc]  # the command loads the class when it runs
    sys.exit(main())
