"""Importing magnetar loads nothing; every public name is there when it is asked for, in both faces."""

from __future__ import annotations

import inspect
import pickle
import pydoc
import subprocess
import sys

import pytest

import magnetar
import magnetar.testing
from magnetar import aio, errors


@pytest.mark.parametrize("module", ["magnetar", "magnetar.aio"])
def test_importing_loads_none_of_rooms(module):
    code = f"import sys, {module}; print([m for m in sys.modules if m.startswith('magnetar.') and m != 'magnetar.aio'])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("name", dir(magnetar))
def test_every_name_of_package_is_there(name):
    assert getattr(magnetar, name) is not None


def test_no_name_of_package_is_hidden():
    assert set(magnetar._HOMES) <= set(magnetar.__all__)


@pytest.mark.parametrize("name", dir(aio))
def test_every_name_of_aio_is_there(name):
    assert getattr(aio, name) is not None


def test_name_that_is_not_there_is_attribute_error():
    with pytest.raises(AttributeError):
        magnetar.nothing  # noqa: B018
    with pytest.raises(AttributeError):
        aio.nothing  # noqa: B018


# What only one face has: a thread cannot await, and a loop needs no mailbox.
ONLY_AIO: dict[str, set[str]] = {
    "Client": {"budget", "lookup", "operation_timeout_s", "pool", "runtime"},
    "Producer": {"send_nowait", "submit"},
    "CheckpointConsumer": set(),
    "Consumer": set(),
    "Reader": {"counters"},
    "QueueConsumer": set(),
    "StreamConsumer": set(),
    "TableView": set(),
}
ATTRIBUTES = {"closed", "counters", "topic"}  # of asyncio objects, where no class shows them


@pytest.mark.parametrize("name", sorted(ONLY_AIO))
def test_neither_face_drifts_from_other(name):
    awaited = {found for found, _ in inspect.getmembers(getattr(aio, name)) if not found.startswith("_")}
    blocking = {found for found, _ in inspect.getmembers(getattr(magnetar, name)) if not found.startswith("_")}
    assert awaited - ONLY_AIO[name] - blocking == set()
    assert blocking - ATTRIBUTES - awaited == set()


CLASSES = [
    *(getattr(aio, name) for name in aio.__all__),
    *(found for name in magnetar.__all__ if isinstance(found := getattr(magnetar, name), type)),
    *(found for name in errors.__all__ if isinstance(found := getattr(errors, name), type)),
]


@pytest.mark.parametrize("kind", CLASSES, ids=repr)
def test_public_class_is_named_where_users_find_it(kind):
    assert kind.__module__ in ("magnetar", "magnetar.aio", "magnetar.errors")
    assert getattr(sys.modules[kind.__module__], kind.__name__) is kind


@pytest.mark.parametrize("module", [magnetar, aio, errors, magnetar.testing])
def test_star_import_and_dir_give_public_names(module):
    assert dir(module) == sorted(module.__all__)
    assert all(getattr(module, name) is not None for name in module.__all__)
    assert {"annotations", "TYPE_CHECKING"}.isdisjoint(module.__all__)


def test_help_of_package_names_client_and_its_classes():
    shown = pydoc.plaintext.document(magnetar)
    assert all(name in shown for name in ("Client", "StreamConsumer", "create_producer", "errors"))


def test_pickled_values_and_errors_come_back():
    error = errors.TopicNotFound("no such topic", topic="t")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.facts) == (errors.TopicNotFound, str(error), {"topic": "t"})
    for value in (magnetar.MessageId(1, 2), magnetar.DeadLetters(3), magnetar.SubscriptionType.SHARED):
        assert pickle.loads(pickle.dumps(value)) == value
    assert b"magnetar.wire" not in pickle.dumps(magnetar.MessageId(1, 2))


def test_client_that_was_not_used_shows_its_url():
    assert repr(magnetar.Client("pulsar://localhost:6650")) == "<magnetar.Client pulsar://localhost:6650, not used yet>"
    assert repr(magnetar.Admin("http://localhost:8080")) == "<magnetar.Admin http://localhost:8080>"
    assert repr(aio.Admin("http://localhost:8080")) == "<magnetar.aio.Admin http://localhost:8080>"
    assert repr(magnetar.Json(dict)) == "Json(dict)"
    assert repr([magnetar.Bytes(), magnetar.String()]) == "[Bytes(), String()]"
    assert repr(aio.Client("pulsar://localhost:6650")) == "<magnetar.aio.Client pulsar://localhost:6650, 0 open>"
