"""A log is called like its module, or like a folder or another module of the same room, so that a line leads to code.

Loggers of the client begin with `client.`, because an application configures them together.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.tidy.repository import Rule, Source, findings, product

GETTERS = ("magnetar.observe.log.get",)


def rooms() -> dict[str, set[str]]:
    """Names of modules and folders, by room."""
    names: dict[str, set[str]] = {}
    for source in product():
        names.setdefault(source.room, set()).update(part.removesuffix(".py") for part in source.parts[2:])
    return names


def misnamed(known: dict[str, set[str]]) -> Rule:
    def rule(source: Source) -> Iterator[str]:
        getters = {name for _, name, target in source.imports if target in GETTERS}
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Call) and _getter(node.func, source) in {*getters, "logs.get"} and node.args:
                name = ast.literal_eval(node.args[0])
                prefix, _, last = name.rpartition(".")
                if last not in known[source.room] or prefix != ("client" if _is_inner(source, last) else ""):
                    yield source.found(node, f"{name!r}: a log is called like its module or folder")

    return rule


def _is_inner(source: Source, name: str) -> bool:
    return source.room == "client" and name != "client"


def _getter(function: ast.expr, source: Source) -> str:
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        bound = {name: target for _, name, target in source.imports if name}
        return "logs.get" if (bound.get(function.value.id), function.attr) == ("magnetar.observe.log", "get") else ""
    return function.id if isinstance(function, ast.Name) else ""


def test_logs_are_called_like_their_modules() -> None:
    assert findings(misnamed(rooms()), product()) == []


@pytest.mark.parametrize(
    "text",
    [
        'from magnetar.observe.log import get\nlog = get("visits")\n',
        'from magnetar.observe import log as logs\nlog = logs.get("visits")\n',
        'from magnetar.observe.log import get as get_log\nlog = get_log("broker.topics")\n',
    ],
)
def test_log_with_another_name_is_found(text: str) -> None:
    source = Source("src/magnetar/broker/topics/retention_sweep.py", text)
    assert len(findings(misnamed({"broker": {"retention_sweep", "topics"}}), [source])) == 1


def test_log_of_client_has_its_prefix() -> None:
    known = {"client": {"client", "pool"}}
    text = 'from magnetar.observe.log import get\nlog = get("{}")\n'
    sources = [Source("src/magnetar/client/pool.py", text.format(name)) for name in ("client.pool", "client", "pool")]
    assert [len(findings(misnamed(known), [source])) for source in sources] == [0, 0, 1]
