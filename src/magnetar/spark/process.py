"""Identifies the process of a query run, and checks whether another process of this machine is still alive.

A process is identified by its number and its start tick, so that a reused number is not mistaken for it. Without /proc,
no process is known to be alive.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from magnetar.spark.source.subscription_claim import Run


def this_run(number: int, began_ms: int) -> Run:
    """The query run of this process; `number` is random, of 32 bits."""
    host = socket.gethostname().replace(" ", "-") or "localhost"
    return Run(f"{number:08x}", host, os.getpid(), _ticks(os.getpid()), began_ms)


def is_alive(process: int, ticks: int) -> bool:
    return ticks > 0 and _ticks(process) == ticks


def _ticks(process: int) -> int:
    """The start tick of the process, counted from system start; 0 if it does not exist or has ended."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return 0
    state, *rest = text.rpartition(")")[2].split()  # the name may contain spaces and brackets
    return 0 if state in "ZX" else int(rest[18])
