"""Variables are named by type or role, not by how the code obtained them: `record`, not `found`.

A one-line comprehension or lambda may use such a word. Fields of classes are not variables.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.tidy.repository import Source, findings, product, sources

WORDS = frozenset(("asked", "found", "given", "known", "made", "one", "said", "told", "wanted"))
PARAMETERS = {  # callers use these as keywords
    ("src/magnetar/policy/settings.py", "given"),
    ("src/magnetar/broker/segments/cursors.py", "asked"),
    ("simulation/mutants/scalable.py", "asked"),
}


def vague(source: Source) -> Iterator[str]:
    """Assignments, loops and parameters with one of the words."""
    brief = {
        id(name)
        for node in ast.walk(source.tree)
        for part in _brief(node)
        for name in ast.walk(part)
        if isinstance(name, ast.Name | ast.arg)
    }
    for node in ast.walk(source.tree):
        name = _bound(node)
        if name in WORDS and id(node) not in brief and (source.path, name) not in PARAMETERS:
            yield source.found(node, f"{name} does not tell what the value is: name its type or role")


def _brief(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, ast.comprehension):
        return [node.target]
    if isinstance(node, ast.ClassDef):
        return [field.target for field in node.body if isinstance(field, ast.AnnAssign)]
    return [node.args] if isinstance(node, ast.Lambda) else []


def _bound(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id if isinstance(node.ctx, ast.Store) else None
    if isinstance(node, ast.arg):
        return node.arg
    return node.name if isinstance(node, ast.MatchAs | ast.ExceptHandler) else None


def test_variables_are_named_by_role() -> None:
    simulation = [source for source in sources() if source.parts[0] == "simulation"]
    assert len(simulation) > 80
    assert findings(vague, [*product(), *simulation]) == []


@pytest.mark.parametrize(
    "text",
    [
        "found = 1\n",
        "for one in items:\n    pass\n",
        "def call(asked: int) -> int:\n    return asked\n",
        "match value:\n    case int() as told:\n        pass\n",
        "if (known := get()):\n    pass\n",
    ],
)
def test_variable_named_by_its_origin_is_found(text: str) -> None:
    assert len(list(vague(Source("src/magnetar/client/x.py", text)))) == 1


def test_comprehensions_and_lambdas_may_be_brief() -> None:
    text = "class X:\n    found: int\n"
    text += "[one.id for one in items]\nsorted(items, key=lambda one: one.id)\nrecord.found = 1\ncall(given=2)\n"
    assert list(vague(Source("src/magnetar/client/x.py", text))) == []
