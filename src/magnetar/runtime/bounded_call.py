"""Runs a blocking call with a time limit, for code that has no loop. If the call hangs (a name server, a host that
drops packets), its thread is abandoned.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def within(seconds: float, work: Callable[[], T]) -> T | None:
    """The result of `work`, or None if it raised or took longer. The call continues in a thread that process exit does
    not wait for.
    """
    done: list[T] = []
    thread = threading.Thread(target=lambda: _kept(work, done), daemon=True)
    thread.start()
    thread.join(seconds)
    return done[0] if done else None


def wall_s() -> float:
    """Seconds since 1970."""
    return time.time()


def processor_s() -> float:
    """Processor time of this thread: other load on the machine does not increase it."""
    return time.thread_time()


def _kept(work: Callable[[], T], done: list[T]) -> None:
    try:
        done.append(work())
    except Exception:  # the caller treats an error like a missing answer
        return
