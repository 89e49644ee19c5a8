"""Which packages the product may import: those of a plain install everywhere, those of an extra in its own folders.

A worker of Spark has a plain install and PySpark; it must not carry the libraries of the broker or of the command line.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.tidy.repository import PACKAGE, ROOT, Source, findings, product

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Distributions whose module has another name.
DISTRIBUTIONS = {"google": "protobuf", "re2": "google-re2"}
# Folder under src/magnetar -> extras whose packages it may import; pytest is there where its plugin is loaded.
EXTRAS: dict[str, set[str]] = {
    "admin": {"broker"},
    "broker": {"broker"},
    "observe": {"broker"},
    "cli": {"cli", "broker", "spark"},
    "client": {"avro"},
    "spark": {"spark", "java"},
    "testing": {"broker", "dev"},
}

# Packages whose internals are subclassed: src/magnetar/admin/http_protocol.py. A minor version of them may rename a
# method.
SUBCLASSED = ("uvicorn", "h11")


def declared(extra: str = "") -> set[str]:
    """The packages of a plain install, or those that an extra adds itself."""
    lines = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    return {canonicalize_name(Requirement(line).name) for line in lines}


def undeclared(source: Source) -> Iterator[str]:
    allowed = declared().union(*(declared(extra) for extra in EXTRAS.get(source.room, ())))
    for statement, _, target in source.imports:
        module = target.split(".")[0]
        if module in sys.stdlib_module_names or module == PACKAGE:
            continue
        if canonicalize_name(DISTRIBUTIONS.get(module, module)) not in allowed:
            yield source.found(statement, f"{module} is in no extra that {source.room or PACKAGE} may use")


def test_every_import_is_declared_for_its_folder() -> None:
    assert findings(undeclared, product()) == []


def test_plain_install_has_no_command_line_library() -> None:
    assert not declared() & declared("cli")
    assert declared("cli")
    assert f"{PACKAGE}[cli]" in PROJECT["optional-dependencies"]["broker"]


@pytest.mark.parametrize("package", SUBCLASSED)
def test_subclassed_package_is_pinned_to_one_minor_version(package: str) -> None:
    lines = map(Requirement, PROJECT["optional-dependencies"]["broker"])
    (specifier,) = [line.specifier for line in lines if line.name == package]
    allowed = [minor for minor in range(1_000) if specifier.contains(f"0.{minor}.9")]
    assert len(allowed) == 1
    assert not specifier.contains("1.0")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/magnetar/client/x.py", "import rich"),
        ("src/magnetar/spark/x.py", "def f():\n    from cyclopts import App"),
        ("src/magnetar/client/x.py", "import starlette.requests"),
        ("src/magnetar/cli/x.py", "import requests"),
    ],
)
def test_undeclared_import_is_found(path: str, text: str) -> None:
    assert findings(undeclared, [Source(path, text)])


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/magnetar/cli/x.py", "import rich.console"),
        ("src/magnetar/client/x.py", "from google.protobuf import message\nimport asyncio\nimport magnetar.aio"),
        ("src/magnetar/broker/x.py", "import re2"),
    ],
)
def test_declared_import_is_accepted(path: str, text: str) -> None:
    assert findings(undeclared, [Source(path, text)]) == []
