"""The fence: our own modules may not reach out of a simulated world, libraries get the world's time and chance."""

from __future__ import annotations

import gc
import logging
import os
import random
import socket
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from simulation.environment.isolation import isolated
from simulation.environment.loop import ForbiddenCall, VirtualLoop, pass_time

REACHES = [
    "time.time()",
    "time.time_ns()",
    "time.monotonic()",
    "time.perf_counter()",
    "time.sleep(0)",
    "random.random()",
    "random.choice([1])",
    "uuid.uuid4()",
    "os.urandom(4)",
    "threading.Thread(target=int).start()",
    "socket.socket()",
    "socket.create_connection(('127.0.0.1', 1))",
]
MODULES = {"time": time, "random": random, "uuid": uuid, "os": os, "threading": threading, "socket": socket}


def as_module(name: str, expression: str) -> Callable[[], Any]:
    """What that expression does in a module of that name."""
    names: dict[str, Any] = {**MODULES, "__name__": name}
    exec(f"def reach():\n    return {expression}", names)
    reach: Callable[[], Any] = names["reach"]
    return reach


@pytest.mark.parametrize("expression", REACHES)
def test_our_code_is_told_that_it_reached_out_of_world(expression: str) -> None:
    loop = VirtualLoop()
    with isolated(loop), pytest.raises(ForbiddenCall, match=r"magnetar\.topic\.made_up"):
        as_module("magnetar.topic.made_up", expression)()
    loop.close()


def test_libraries_get_virtual_time_and_chance_from_seed() -> None:
    def seen(seed: int) -> list[Any]:
        loop = VirtualLoop()
        with isolated(loop, seed):
            loop.run_until_complete(pass_time(1_000))
            expressions = ("time.time()", "time.monotonic()", "random.random()", "uuid.uuid4()", "os.urandom(4)")
            found = [as_module("some.library", expression)() for expression in expressions]
            assert logging.makeLogRecord({}).created == found[0]
        loop.close()
        return found

    assert seen(1)[1] == 1_000
    assert seen(1) == seen(1)
    assert seen(1)[2:] != seen(2)[2:]


def test_after_fence_everything_is_as_it_was() -> None:
    before = [time.time, random.random, os.urandom, uuid.uuid4, threading.Thread.start, socket.socket.__init__]
    loop = VirtualLoop()
    with isolated(loop):
        assert not gc.isenabled()
    loop.close()
    assert gc.isenabled()
    assert [time.time, random.random, os.urandom, uuid.uuid4, threading.Thread.start, socket.socket.__init__] == before
    assert as_module("magnetar.topic.made_up", "time.time()")() > 0


@pytest.mark.parametrize("closed", [False, True])
def test_unretrieved_error_is_reported_at_close_or_fence_removal(closed: bool) -> None:
    async def fails() -> None:
        raise ValueError("never retrieved")

    async def body() -> None:
        task: Any = loop.create_task(fails())
        task.itself = task  # only the collector finds it
        await pass_time(1)

    loop = VirtualLoop()
    with isolated(loop):
        loop.run_until_complete(body())
        assert loop.errors == []
        if closed:
            loop.close()
    assert [type(failure.exception) for failure in loop.errors] == [ValueError]
    loop.close()
