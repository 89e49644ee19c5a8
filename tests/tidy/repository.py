"""The repository as the rules see it: its files, and for Python files the tree and what every dotted name stands for.

Reads files and nothing else. A rule takes one `Source` and returns findings, each "path:line: what is wrong", so that
the same rule judges the tree and the small snippets that prove it can say no.
"""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "magnetar"
GENERATED = ("src/magnetar/wire/generated/", "src/magnetar/ledger/bookkeeper/generated/")
PYTHON_FOLDERS = ("src", "simulation", "tests", "benchmarks", "examples", "release", "tools")


class Source:
    """One Python file. `path` is relative to the repository and decides which rules look at it."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.tree = ast.parse(text, path)

    @property
    def parts(self) -> tuple[str, ...]:
        return PurePosixPath(self.path).parts

    @property
    def room(self) -> str:
        """The folder under src/magnetar ("" for the package's own files, and for anything outside the package)."""
        inside = self.path.startswith("src/magnetar/") and len(self.parts) > 3
        return self.parts[2] if inside else ""

    @property
    def module(self) -> str:
        """The dotted name of a file under src."""
        parts = [*self.parts[1:-1], PurePosixPath(self.path).stem]
        return ".".join(part for part in parts if part != "__init__")

    @property
    def is_folder(self) -> bool:
        return self.parts[-1] == "__init__.py"

    def found(self, node: ast.AST | int, what: str) -> str:
        return f"{self.path}:{node if isinstance(node, int) else getattr(node, 'lineno', 1)}: {what}"

    @cached_property
    def imports(self) -> list[tuple[ast.stmt, str, str]]:
        """(statement, name it binds, dotted name it stands for) of every import, also those inside functions."""
        found: list[tuple[ast.stmt, str, str]] = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    whole = alias.asname is not None
                    found.append(
                        (
                            node,
                            alias.asname or alias.name.split(".")[0],
                            alias.name if whole else alias.name.split(".")[0],
                        )
                    )
                    if not whole and "." in alias.name:
                        found.append((node, "", alias.name))
            elif isinstance(node, ast.ImportFrom):
                origin = self._origin(node)
                found += [(node, alias.asname or alias.name, f"{origin}.{alias.name}") for alias in node.names]
        return found

    @cached_property
    def deferred(self) -> set[ast.stmt]:
        """Imports inside a function: they run when it is called, not when the module is loaded."""
        functions = [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        return {
            inner for outer in functions for inner in ast.walk(outer) if isinstance(inner, ast.Import | ast.ImportFrom)
        }

    @cached_property
    def names(self) -> list[tuple[ast.expr, str]]:
        """(node, dotted name) of every name, followed through imports and attributes; "?" marks one no import bound."""
        bound = {name: target for _, name, target in self.imports if name}
        inner: set[int] = set()
        found: list[tuple[ast.expr, str]] = []
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.Attribute | ast.Name) or id(node) in inner:
                continue
            chain: list[str] = []
            top: ast.expr = node
            while isinstance(top, ast.Attribute):
                chain.append(top.attr)
                top = top.value
                inner.add(id(top))
            if isinstance(top, ast.Name):
                found.append((node, ".".join([bound.get(top.id, f"?{top.id}"), *reversed(chain)])))
        return found

    def _origin(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        package = self.module.split(".") if self.is_folder else self.module.split(".")[:-1]
        package = package[: len(package) - (node.level - 1)]
        return ".".join([*package, *([node.module] if node.module else [])])


Rule = Callable[[Source], Iterable[str]]


@cache
def files() -> list[str]:
    """Every file of the repository that is tracked or would be, relative to its root."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode == 0:
        names = listing.stdout.split("\0")
    else:  # an unpacked archive
        skipped = {".venv", "__pycache__", ".git", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"}
        names = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if not skipped & set(path.parts)]
    return sorted({name for name in names if name and (ROOT / name).is_file()})


@cache
def sources() -> list[Source]:
    """Every Python file of ours; generated code is nobody's prose."""
    return [
        Source(name, (ROOT / name).read_text(encoding="utf-8"))
        for name in files()
        if name.endswith(".py") and name.split("/")[0] in PYTHON_FOLDERS and not name.startswith(GENERATED)
    ]


def product() -> Iterator[Source]:
    return (source for source in sources() if source.path.startswith("src/"))


def findings(rule: Rule, over: Iterable[Source]) -> list[str]:
    return sorted(finding for source in over for finding in rule(source))
