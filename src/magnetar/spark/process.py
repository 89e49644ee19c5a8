"""The process that a run of a query lives in, and whether another one of this machine is still there.

A process is its number and the tick at which it began, so that a number that is given again is not taken for it. Where
the system does not say (it has no /proc), nobody is known to be alive.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from magnetar.spark.source.subscription_claim import Run


def this_run(number: int, began_ms: int) -> Run:
    """The run of a query in this process; `number` is random, of 32 bits."""
    host = socket.gethostname().replace(" ", "-") or "localhost"
    return Run(f"{number:08x}", host, os.getpid(), _ticks(os.getpid()), began_ms)


def is_alive(process: int, ticks: int) -> bool:
    return ticks > 0 and _ticks(process) == ticks


def _ticks(process: int) -> int:
    """When it began, since the system started; 0 where there is none, or none that still works."""
    try:
        told = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return 0
    state, *rest = told.rpartition(")")[2].split()  # its name may have spaces and brackets
    return 0 if state in "ZX" else int(rest[18])
