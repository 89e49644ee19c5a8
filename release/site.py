"""The documents as a site: `python -m release.site pages` prepares them, `check` judges what Zensical built of them.

Prepared pages differ from the documents in what only a repository can show: links to files outside of the site become
text, and Mermaid becomes pictures. One page, the Python API, has a line for each public name, which mkdocstrings
replaces by its docstrings. Nothing here needs a network, and the site may load nothing from another origin.
"""

from __future__ import annotations

import ast
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from posixpath import normpath, relpath
from urllib.parse import unquote, urldefrag, urlsplit

from release.diagrams import svg

ROOT = Path(__file__).resolve().parents[1]
PAGES, SITE = ROOT / ".site/pages", ROOT / ".site/html"
OUTSIDE = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")  # documents at the root that are pages too
API = "API.md"

_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_MERMAID = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^(```|~~~).*?^\1$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]+`")
_API_HEAD = """# The Python API

The public names of `magnetar` with their docstrings. [CLIENT](CLIENT.md) has every option with its default, and the
errors are in [ERRORS](ERRORS.md). `magnetar.aio` has the same classes for asyncio.
"""


def documents(root: Path = ROOT) -> dict[str, str]:
    """Path of each document in the repository -> path of its page in the site."""
    found = {f"docs/{path.relative_to(root / 'docs')}" for path in (root / "docs").rglob("*.md")}
    pages = {name: name.removeprefix("docs/") for name in sorted(found)} | {name: name for name in OUTSIDE}
    return pages | {"docs/README.md": "index.md"}


def prepare(root: Path = ROOT, pages: Path = PAGES) -> None:
    if pages.exists():
        shutil.rmtree(pages)
    places = documents(root)
    for name, place in places.items():
        page = pages / place
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(rewritten((root / name).read_text(encoding="utf-8"), name, places), encoding="utf-8")
    for picture in (root / "docs").glob("*.svg"):
        shutil.copy(picture, pages / picture.name)
    shutil.copytree(Path(__file__).with_name("site_assets"), pages / "assets")
    (pages / API).write_text(
        api_page((root / "src/magnetar/__init__.py").read_text(encoding="utf-8")), encoding="utf-8"
    )


def rewritten(text: str, name: str, places: dict[str, str]) -> str:
    """A document as a page. Blocks of code stay as they are, but for diagrams."""

    def linked(match: re.Match[str]) -> str:
        target, _, anchor = match[2].partition("#")
        if not target or urlsplit(target).scheme:
            return match[0]
        place = places.get(normpath(f"{name}/../{target}"))
        if place is None:
            return match[1]
        path = relpath(place, f"{places[name]}/..".replace("index.md/..", "."))
        return f"[{match[1]}]({path}{f'#{anchor}' if anchor else ''})"

    def prose(part: str) -> str:
        rows = [_CODE.sub(_bare_pipes, line) if line.startswith("|") else line for line in part.split("\n")]
        return _LINK.sub(linked, "\n".join(rows))

    text = _MERMAID.sub(lambda match: f'<div class="diagram">{svg(match[1])}</div>', text)
    return _outside_of_fences(text, prose)


def _bare_pipes(code: re.Match[str]) -> str:
    """A pipe in the code of a table has no backslash: Python-Markdown would show it."""
    return code[0].replace("\\|", "|")


def _outside_of_fences(text: str, change: Callable[[str], str]) -> str:
    parts: list[str] = []
    end = 0
    for fence in _FENCE.finditer(text):
        parts += [change(text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(text[end:])])


def api_page(package: str) -> str:
    """A page with every name of `__all__`, for mkdocstrings."""
    for node in ast.parse(package).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]:
            names = [name for name in ast.literal_eval(node.value) if name[0].isupper()]
            return "\n".join([_API_HEAD, *(f"::: magnetar.{name}\n" for name in names)])
    raise ValueError("expected a list __all__ in the package")


class Page(HTMLParser):
    """What a built page refers to, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []  # scripts, styles, fonts, pictures: fetched without a click
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.diagrams_as_scripts = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a":
            self.links += [values["href"]] if "href" in values else []
        elif tag == "link":
            self.loads += [values.get("href", "")] if values.get("rel") not in ("canonical", "next", "prev") else []
        elif "src" in values:
            self.loads.append(values["src"])
        self.diagrams_as_scripts |= "mermaid" in values.get("class", "").split()


def faults(site: Path = SITE) -> Iterator[str]:
    """Links and anchors that lead nowhere, and everything that a page would load from another origin."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    if not pages:
        yield f"{site} has no pages: run make docs"
    for path, page in pages.items():
        name = path.relative_to(site)
        if page.diagrams_as_scripts:
            yield f"{name}: a Mermaid diagram, which needs a script from another origin"
        yield from (f"{name}: loads {url}" for url in page.loads if _is_foreign(url))
        if name.name != "404.html":
            yield from (f"{name}: {url} leads nowhere" for url in page.links if not _leads(url, path, site, pages))
    for style in sorted(site.rglob("*.css")):
        urls = re.findall(r"url\([\"']?([^\"')]+)|@import\s+[\"']([^\"']+)", style.read_text(encoding="utf-8"))
        yield from (f"{style.relative_to(site)}: loads {a or b}" for a, b in urls if _is_foreign(a or b))


def _is_foreign(url: str) -> bool:
    return urlsplit(url).scheme not in ("", "data") or url.startswith("//")


def _leads(url: str, path: Path, site: Path, pages: dict[Path, Page]) -> bool:
    if _is_foreign(url):
        return True
    target, anchor = urldefrag(unquote(url))
    file = Path(normpath(path.parent / target)) if target else path
    if file.is_dir():
        file /= "index.html"
    if not file.is_relative_to(site) or not file.is_file():
        return False
    return not anchor or anchor == "__skip" or file not in pages or anchor in pages[file].anchors


def main(arguments: list[str]) -> None:
    if arguments == ["pages"]:
        prepare()
    elif arguments == ["check"]:
        found = list(faults())
        sys.exit("\n".join(found) if found else 0)
    else:
        sys.exit("expected pages or check")


if __name__ == "__main__":
    main(sys.argv[1:])
