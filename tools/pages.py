"""Writes the generated pages and the picture of `docs/` and the word table of completion: `python -m tools.pages`.

Only text in the repository changes. The tests of each generator compare the files with what is generated.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tools import (
    cli_reference,
    client_reference,
    completion_words,
    error_reference,
    metrics_reference,
    module_map,
    protocol_reference,
    rest_reference,
    settings_reference,
    split_picture,
)

DOCS = Path(__file__).parents[1] / "docs"
PAGES: dict[str, Callable[[], str]] = {
    "CLI.md": cli_reference.page,
    "CLIENT.md": client_reference.page,
    "CONFIGURATION.md": settings_reference.page,
    "ERRORS.md": error_reference.page,
    "METRICS.md": metrics_reference.page,
    "MODULES.md": module_map.page,
    "REST.md": rest_reference.page,
    "split.svg": split_picture.page,
}


def main() -> None:
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
    protocol = DOCS / "PROTOCOL.md"
    protocol.write_text(protocol_reference.replace_section(protocol.read_text(encoding="utf-8")), encoding="utf-8")
    completion_words.TABLE.write_text(completion_words.table(), encoding="utf-8")


if __name__ == "__main__":
    main()
