"""Isolates a simulated run: calls of the product for real time, randomness, threads or sockets raise an error.

Inside `isolated(loop)` the functions of `time`, `random`, `uuid`, `os.urandom`, threads and sockets look at their
caller. Modules of `magnetar` get `ForbiddenCall`. Libraries (logging) get virtual time and randomness from the seed,
and no thread or socket if the product is behind the call. The garbage collector is off, so that it finishes nothing at
a moment that the seed did not choose. It collects at the end, which brings up errors that no code retrieved. Close a
loop inside, so that its remains are collected too.

It cannot see names that were imported out of those modules before, nor `datetime.now`: the tidy tests do.
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any
from unittest.mock import patch

from simulation.environment.inline_runtime import EPOCH_MS
from simulation.environment.loop import ForbiddenCall, VirtualLoop

CLOCKS = ("time", "monotonic", "perf_counter")


@contextlib.contextmanager
def isolated(loop: VirtualLoop, seed: int = 0) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for module, name, instead in _patches(loop, random.Random(f"{seed}:libraries")):
            stack.enter_context(patch.object(module, name, instead))
        stack.enter_context(_still())
        yield


@contextlib.contextmanager
def _still() -> Iterator[None]:
    was = gc.isenabled()
    gc.freeze()  # what was there before need not be looked at again
    gc.disable()
    try:
        yield
    finally:
        gc.collect()
        gc.unfreeze()
        if was:
            gc.enable()


def _patches(loop: VirtualLoop, chance: random.Random) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    for clock in CLOCKS:
        start = EPOCH_MS / 1000 if clock == "time" else 0.0
        yield time, clock, _near(f"time.{clock}", lambda start=start: start + loop.time())
        yield time, f"{clock}_ns", _near(f"time.{clock}_ns", lambda start=start: int((start + loop.time()) * 1e9))
    yield time, "sleep", _far("time.sleep", time.sleep)
    for name in random.__all__:
        if isinstance(getattr(getattr(random, name), "__self__", None), random.Random):
            yield random, name, _near(f"random.{name}", getattr(chance, name))
    yield os, "urandom", _near("os.urandom", chance.randbytes)
    yield uuid, "uuid4", _near("uuid.uuid4", lambda: uuid.UUID(bytes=chance.randbytes(16), version=4))
    yield threading.Thread, "start", _far("threading.Thread.start", threading.Thread.start)
    yield socket.socket, "__init__", _far("socket.socket", socket.socket.__init__)


def _near(what: str, instead: Callable[..., Any]) -> Callable[..., Any]:
    """Forbidden if the direct caller is the product."""

    def watched(*args: Any, **more: Any) -> Any:
        if _ours(sys._getframe(1)):
            raise ForbiddenCall(f"{what} in {sys._getframe(1).f_globals['__name__']}: ask the Runtime")
        return instead(*args, **more)

    return watched


def _far(what: str, instead: Callable[..., Any]) -> Callable[..., Any]:
    """Forbidden if the product is anywhere in the call stack."""

    def watched(*args: Any, **more: Any) -> Any:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if _ours(frame):
                raise ForbiddenCall(f"{what}, asked for by {frame.f_globals['__name__']}: ask the Runtime")
            frame = frame.f_back
        return instead(*args, **more)

    return watched


def _ours(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__", "")
    return bool(name == "magnetar" or name.startswith("magnetar."))
