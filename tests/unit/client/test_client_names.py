"""Importing magnetar loads nothing; every public name is there when it is asked for, in both faces."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import magnetar
from magnetar import aio


@pytest.mark.parametrize("module", ["magnetar", "magnetar.aio"])
def test_importing_loads_none_of_the_rooms(module):
    code = f"import sys, {module}; print([m for m in sys.modules if m.startswith('magnetar.') and m != 'magnetar.aio'])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("name", dir(magnetar))
def test_every_name_of_the_package_is_there(name):
    assert getattr(magnetar, name) is not None


@pytest.mark.parametrize("name", dir(aio))
def test_every_name_of_aio_is_there(name):
    assert getattr(aio, name) is not None


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError):
        magnetar.nothing  # noqa: B018
    with pytest.raises(AttributeError):
        aio.nothing  # noqa: B018


# What only one face has: a thread cannot await, and a loop needs no mailbox.
ONLY_AIO = {
    "Client": {"budget", "lookup", "operation_timeout_s", "pool", "runtime"},
    "Producer": {
        "admit",
        "admit_later",
        "admit_sheaf",
        "admit_sheaves",
        "cutting",
        "grow",
        "hurry",
        "prepared",
        "send_nowait",
        "start",
        "submit",
        "work",
    },
    "CheckpointConsumer": {"handed", "start", "stream_id"},
    "Consumer": {"source_of", "start"},
    "Reader": {"counters", "start"},
    "QueueConsumer": {"source_of", "start", "stream_id"},
    "StreamConsumer": {"hurry", "outstanding", "start", "stream_id"},
    "TableView": {"refresh", "start"},
}
ONLY_SYNC = {"core", "renewed"}
ATTRIBUTES = {"closed", "counters", "topic"}  # of asyncio objects, where no class shows them


@pytest.mark.parametrize("name", sorted(ONLY_AIO))
def test_neither_face_drifts_from_the_other(name):
    awaited = {found for found, _ in inspect.getmembers(getattr(aio, name)) if not found.startswith("_")}
    blocking = {found for found, _ in inspect.getmembers(getattr(magnetar, name)) if not found.startswith("_")}
    assert awaited - ONLY_AIO[name] - blocking == set()
    assert blocking - ONLY_SYNC - ATTRIBUTES - awaited == set()
