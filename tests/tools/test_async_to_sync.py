"""The blocking admin client is the awaiting one without the waiting words, today."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from magnetar.client.admin.aio.admin import Admin as AsyncAdmin
from magnetar.client.admin.sync.admin import Admin
from tools.async_to_sync import AIO, SYNC, blocking

FILES = sorted(path.name for path in AIO.glob("*.py") if path.name != "__init__.py")


def shaped(text: str, name: str) -> str:
    for command in (["check", "--fix", "--quiet", "--exit-zero"], ["format", "--quiet"]):
        line = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(SYNC / name), "-"]
        text = subprocess.run(line, input=text, capture_output=True, text=True, check=True).stdout
    return text


@pytest.mark.parametrize("name", FILES)
def test_blocking_client_is_made_from_awaiting_one(name: str) -> None:
    assert (SYNC / name).read_text() == shaped(blocking((AIO / name).read_text()), name), "run make sync"


def test_there_is_nothing_else_in_it() -> None:
    assert sorted(path.name for path in SYNC.glob("*.py") if path.name != "__init__.py") == FILES


def test_nothing_of_it_waits() -> None:
    for path in SYNC.glob("*.py"):
        words = path.read_text().split('"""', 2)[2].split()
        assert not {"async", "await", "asyncio"} & set(words), path.name


def test_both_faces_have_same_methods_with_same_parameters() -> None:
    for resource in ("brokers", "clusters", "tenants", "namespaces", "topics", "subscriptions", "messages", "schemas"):
        waits, blocks = getattr(AsyncAdmin(), resource), getattr(Admin(), resource)
        assert methods(waits) == methods(blocks)


def methods(resource: object) -> dict[str, list[str]]:
    found = inspect.getmembers(resource, inspect.ismethod)
    return {name: list(inspect.signature(one).parameters) for name, one in found if not name.startswith("_")}
