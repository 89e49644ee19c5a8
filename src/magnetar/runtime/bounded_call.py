"""A blocking question that may take no longer than it may, for code that has no loop and cannot wait: whatever hangs in
it (a name server, a host that swallows packets) is left behind.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def within(seconds: float, work: Callable[[], T]) -> T | None:
    """What `work` returns, or None where it raised or took longer. It goes on in a thread that no exit waits for."""
    done: list[T] = []
    thread = threading.Thread(target=lambda: _kept(work, done), daemon=True)
    thread.start()
    thread.join(seconds)
    return done[0] if done else None


def wall_s() -> float:
    """Seconds since 1970."""
    return time.time()


def processor_s() -> float:
    """Processor time of this thread: a busy machine does not lengthen it."""
    return time.thread_time()


def _kept(work: Callable[[], T], done: list[T]) -> None:
    try:
        done.append(work())
    except Exception:  # nobody listens: no answer is an answer
        return
