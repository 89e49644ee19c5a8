"""The map of all modules, docs/MODULES.md: the files of each walk of ARCHITECTURE in their order, then all folders.

The sentence of a module is the first one of its docstring. `make sync` writes the page and a test compares it. Edit the
docstrings and the walks, not the page.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "magnetar"
WALKS = ROOT / "docs" / "ARCHITECTURE.md"

_HEAD = """# Modules

Every module of `src/magnetar` with the first sentence of its docstring. The [walks](#walks) list the files that
[ARCHITECTURE](ARCHITECTURE.md) explains, in the order in which to open them. The [folders](#folders) list all files.
`make sync` writes this page.

## Walks
"""
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_STEP = re.compile(r"^1\. ", re.MULTILINE)
_FILE = re.compile(r"`((?:\w+/)+\w+\.py)`")
_SENTENCE = re.compile(r"(.+?\.)(?= +[A-Z`\d(]|$)")


def page() -> str:
    parts = [_HEAD]
    for title, files in walks(WALKS.read_text(encoding="utf-8")):
        parts.append(f"\n### {title}\n\n")
        parts += [f"{number}. {_link(file)}: {_sentence(SOURCE / file)}\n" for number, file in enumerate(files, 1)]
    parts.append("\n## Folders\n")
    for folder in sorted(path.parent for path in SOURCE.rglob("__init__.py")):
        parts.append(_folder(folder))
    return "".join(parts)


def walks(text: str) -> Iterator[tuple[str, list[str]]]:
    """The sections of ARCHITECTURE with numbered steps, each with its files in the order of their first mention."""
    sections = _SECTION.split(text)[1:]
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        files = list(dict.fromkeys(file for file in _FILE.findall(body) if (SOURCE / file).exists()))
        if _STEP.search(body) and files:
            yield title, files


def _folder(folder: Path) -> str:
    modules = [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
    name = folder.relative_to(SOURCE).as_posix()
    lines = [f"\n### {'magnetar' if name == '.' else name}\n\n{_sentence(folder / '__init__.py')}\n"]
    if modules:
        rows = [f"| {_link(path.relative_to(SOURCE).as_posix())} | {_cell(_sentence(path))} |\n" for path in modules]
        lines += ["\n| module | purpose |\n|---|---|\n", *rows]
    return "".join(lines)


def _link(file: str) -> str:
    return f"[`{file}`](../src/magnetar/{file})"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _sentence(module: Path) -> str:
    """The first sentence of a docstring."""
    paragraph = " ".join(
        (ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or "").split("\n\n")[0].split()
    )
    match = _SENTENCE.match(paragraph)
    return (match[1] if match else paragraph).rstrip(":.") + "."
