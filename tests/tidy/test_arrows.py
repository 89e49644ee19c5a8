"""Who may import whom: house.md's arrows as one table, held against every import of every module, deferred ones too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tidy.repository import PACKAGE, Source, findings, product

LEAF = {"base"}
PURE = LEAF | {"layout", "wire"}
STORED = LEAF | {"runtime", "observe", "metadata"}
TOPIC = PURE | STORED | {"ledger", "schema", "policy"}
CLUSTER = TOPIC | {"topic"}
ABOVE = CLUSTER | {"cluster"}
BROKER = ABOVE | {"scalable", "staged", "geo", "security", "client"}

MAY_IMPORT: dict[str, set[str]] = {
    "": set(),  # the package itself: importing magnetar costs nothing
    "base": set(),
    "layout": LEAF,
    "wire": LEAF | {"layout"},
    "runtime": LEAF,
    "observe": LEAF | {"runtime"},
    "metadata": LEAF | {"runtime", "observe"},
    "ledger": STORED,
    "schema": STORED | {"ledger"},
    "policy": STORED | {"ledger"},
    "topic": TOPIC,
    "cluster": CLUSTER,
    "security": STORED | {"policy"},
    "scalable": ABOVE,
    "staged": ABOVE,
    "geo": ABOVE | {"client"},
    "broker": BROKER,
    "admin": BROKER | {"broker"},
    "client": PURE | {"runtime", "observe"},
    "spark": LEAF | {"client", "layout"},  # who descends from whom decides what a batch reads
    "testing": LEAF | {"broker", "admin", "client", "runtime", "wire"},  # faults and clocks sit at those seams
    "cli": LEAF | {"client", "layout"},  # trees, plans and the one function that says where a key goes
}
DEFERRED: dict[str, set[str]] = {
    "cli": {"broker", "admin", "testing", "spark"}
}  # inside a command, so that --version stays quick
# Pure modules of other folders that a folder may import when it is loaded: docs/decisions/0005.
PURE_MODULES = {"cli": {"magnetar.testing.order"}}
# The package's own files hold public names; importing them loads nothing (tests/unit/client/test_client_names.py).
FACES = {
    "src/magnetar/__main__.py": {"cli"},
    "src/magnetar/__init__.py": {"base", "wire", "client", "aio", "errors"},
    "src/magnetar/aio.py": {"client"},
    "src/magnetar/errors.py": {"base", "client"},
    "src/pyspark_magnetar/__init__.py": {"spark"},  # Spark finds the data source by this module's name
}
NOBODY = {"cli", "console"}
OUTSIDE = {"simulation", "tools"}  # for developers; not in the wheel


def wrong_arrows(source: Source) -> Iterator[str]:
    room = source.room
    if room not in MAY_IMPORT:
        yield source.found(1, f"room {room!r} is not in house.md; a new folder needs its arrows first")
        return
    for statement, _, target in source.imports:
        parts = target.split(".")
        if parts[0] in OUTSIDE:
            yield source.found(statement, f"the product does not import {parts[0]}")
        if parts[0] != PACKAGE or len(parts) < 2:
            continue
        other = parts[1]
        if other == room or other.startswith("__") or _is_pure(room, target):
            continue
        allowed = (
            MAY_IMPORT[room]
            | FACES.get(source.path, set())
            | (DEFERRED.get(room, set()) if statement in source.deferred else set())
        )
        if other not in allowed:
            yield source.found(statement, f"{room or PACKAGE} may not import {other}")


def _is_pure(room: str, target: str) -> bool:
    return any(target == module or target.startswith(f"{module}.") for module in PURE_MODULES.get(room, ()))


# Inside a folder: which subfolder does not import which.
APART = {"src/magnetar/client/producer/": "magnetar.client.consumer"}


def across(source: Source) -> Iterator[str]:
    for folder, other in APART.items():
        if source.path.startswith(folder):
            for statement, _, target in source.imports:
                if target == other or target.startswith(f"{other}."):
                    yield source.found(statement, f"{folder} may not import {other}")


def test_producers_do_not_import_consumers() -> None:
    assert findings(across, product()) == []
    wrong = Source("src/magnetar/client/producer/x.py", "from magnetar.client.consumer.ack import nacks")
    assert findings(across, [wrong])


def test_every_import_follows_arrows() -> None:
    assert findings(wrong_arrows, product()) == []


def test_table_has_no_circle() -> None:
    standing: set[str] = set()
    while len(standing) < len(MAY_IMPORT):
        ready = {room for room, below in MAY_IMPORT.items() if room not in standing and below <= standing}
        assert ready, f"a circle among {sorted(set(MAY_IMPORT) - standing)}"
        standing |= ready
    assert not {room for below in MAY_IMPORT.values() for room in below} & NOBODY


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/magnetar/base/x.py", "from magnetar.wire import frames"),
        ("src/magnetar/base/x.py", "import magnetar.wire.frames"),
        ("src/magnetar/ledger/x.py", "from magnetar import wire"),
        ("src/magnetar/ledger/local/x.py", "from ...wire import frames"),
        ("src/magnetar/wire/x.py", "def f():\n    from magnetar.topic import publish"),
        ("src/magnetar/client/x.py", "from magnetar.broker import node"),
        ("src/magnetar/cli/x.py", "from magnetar.broker import node"),
        ("src/magnetar/cli/x.py", "from magnetar.testing.brokers import broker"),
        ("src/magnetar/spark/x.py", "from magnetar.testing.order import OrderChecker"),
        ("src/magnetar/broker/x.py", "def f():\n    import magnetar.cli.main"),
        ("src/magnetar/topic/x.py", "import simulation.world.cluster"),
        ("src/magnetar/client/x.py", "from tools import pages"),
        ("src/magnetar/plumbing/x.py", ""),
    ],
)
def test_wrong_arrow_is_caught(path: str, text: str) -> None:
    assert findings(wrong_arrows, [Source(path, text)])


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/magnetar/cli/x.py", "def f():\n    from magnetar.broker import node"),
        ("src/magnetar/cli/x.py", "from magnetar import __version__"),
        ("src/magnetar/cli/x.py", "from magnetar.testing.order import OrderChecker"),
        ("src/magnetar/topic/x.py", "from magnetar.ledger.run import Run\nimport asyncio"),
        ("src/magnetar/ledger/local/x.py", "from ..run import Run"),
    ],
)
def test_right_arrow_is_let_through(path: str, text: str) -> None:
    assert findings(wrong_arrows, [Source(path, text)]) == []
