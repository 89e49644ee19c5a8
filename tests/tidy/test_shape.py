"""Files that decide import nothing that waits; files on the path of a message stay plain for mypyc to compile them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.tidy.repository import ROOT, Source, findings, product

# Whole rooms, and single files of rooms that also do. A decider takes values and returns values.
PURE_ROOMS = ["base/", "layout/", "wire/"]
DECIDERS = [
    "cli/candidates.py",
    "cli/clientconf.py",
    "cli/completing.py",
    "cli/contextfacts.py",
    "cli/contexts.py",
    "cli/demo/judge.py",
    "cli/layers.py",
    "cli/lines.py",
    "client/acks.py",
    "client/address.py",
    "client/batch.py",
    "client/chunks.py",
    "client/deadletter.py",
    "client/definition.py",
    "client/follow.py",
    "client/gathering.py",
    "client/inbox.py",
    "client/lane.py",
    "client/lanes.py",
    "client/layouts.py",
    "client/message.py",
    "client/nacks.py",
    "client/opening.py",
    "client/outgoing.py",
    "client/packing.py",
    "client/pending.py",
    "client/places.py",
    "client/positions.py",
    "client/producing.py",
    "client/refusals.py",
    "client/requests.py",
    "client/router.py",
    "client/schemas.py",
    "client/start.py",
    "client/subscribing.py",
    "client/timeouts.py",
    "cluster/creation.py",
    "cluster/lookup.py",
    "cluster/registration.py",
    "cluster/rendezvous.py",
    "cluster/session.py",
    "ledger/acks.py",
    "ledger/chain.py",
    "ledger/local/index.py",
    "ledger/local/records.py",
    "ledger/local/scan.py",
    "ledger/packing.py",
    "ledger/ranges.py",
    "ledger/retention.py",
    "ledger/run.py",
    "metadata/keys.py",
    "scalable/admission.py",
    "scalable/assign.py",
    "scalable/calls.py",
    "scalable/deletion.py",
    "scalable/drain.py",
    "scalable/record.py",
    "scalable/recordform.py",
    "scalable/reshape.py",
    "scalable/sessions.py",
    "scalable/subscription.py",
    "scalable/subscriptions.py",
    "scalable/takeover.py",
    "spark/columns.py",
    "spark/decoder.py",
    "spark/frontier.py",
    "spark/hashing.py",
    "spark/options.py",
    "spark/planner.py",
    "spark/rows.py",
    "spark/stretch.py",
    "spark/tasks.py",
    "topic/access.py",
    "topic/active.py",
    "topic/dedup.py",
    "topic/dedupform.py",
    "topic/delayed.py",
    "topic/keyorder.py",
    "topic/permits.py",
    "topic/redelivery.py",
    "topic/selectors.py",
]
HOT = [
    "wire/frames.py",
    "wire/entry.py",
    "wire/templates.py",
    "wire/consuming.py",
    "wire/publishing.py",
    "wire/pushes.py",
    "wire/sends.py",
    "topic/dispatch/push.py",
    "topic/publish.py",
    "ledger/run.py",
    "ledger/local/records.py",
]
WAITING = {
    "asyncio",
    "socket",
    "ssl",
    "selectors",
    "threading",
    "concurrent",
    "time",
    "random",
    "secrets",
    "uvloop",
    "sqlite3",
    "logging",
}


def waits(source: Source) -> Iterator[str]:
    for statement, _, target in source.imports:
        if target.split(".")[0] in WAITING:
            yield source.found(statement, f"a file that decides imports no {target.split('.')[0]}")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.AsyncFunctionDef | ast.Await):
            yield source.found(node, "a file that decides does not wait")


def ceremony(source: Source) -> Iterator[str]:
    for statement, _, target in source.imports:
        if target.split(".")[0] == "msgspec" or target in ("typing.Protocol", "dataclasses.dataclass", "dataclasses"):
            yield source.found(statement, f"a hot file has no {target}")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Match):
            yield source.found(node, "a hot file has no match")
        if isinstance(node, ast.Lambda):
            yield source.found(node, "a hot file has no nested function")
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for inner in ast.walk(node):
                if inner is not node and isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield source.found(inner, "a hot file has no nested function")


def chosen(prefixes: list[str]) -> list[Source]:
    return [source for source in product() if source.path.removeprefix("src/magnetar/").startswith(tuple(prefixes))]


def test_deciders_do_not_wait() -> None:
    assert findings(waits, chosen([*PURE_ROOMS, *DECIDERS])) == []


def test_hot_files_are_plain() -> None:
    assert findings(ceremony, chosen(HOT)) == []


@pytest.mark.parametrize("path", [*DECIDERS, *HOT])
def test_the_lists_name_what_exists(path: str) -> None:
    assert (ROOT / "src" / "magnetar" / path).exists(), "renamed or removed? change the list with it"


@pytest.mark.parametrize(
    "text", ["import asyncio", "def f():\n    from time import monotonic", "async def f():\n    pass"]
)
def test_a_decider_that_waits_is_caught(text: str) -> None:
    assert findings(waits, [Source("src/magnetar/wire/x.py", text)])


@pytest.mark.parametrize(
    "text",
    [
        "from dataclasses import dataclass",
        "import dataclasses",
        "from typing import Any, Protocol",
        "import msgspec",
        "def f(x):\n    match x:\n        case 1:\n            pass",
        "def f():\n    def g():\n        pass",
        "f = lambda: 1",
    ],
)
def test_ceremony_in_a_hot_file_is_caught(text: str) -> None:
    assert findings(ceremony, [Source("src/magnetar/wire/frames.py", text)])
