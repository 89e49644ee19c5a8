"""Seeds that once found something: replayed by every `make test`, so that what was cured stays cured.

`corpus.txt` has one a line: the seed, and what it found. A seed names a world of the simulator as it was then; when
worlds are drawn in another way it names another one, and what it found is kept by the unit test that came with its
cure (docs/FOUND.md). It costs little to try all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("corpus.txt")


@dataclass(frozen=True, slots=True)
class Known:
    seed: int
    found: str


def corpus() -> list[Known]:
    """ValueError: a line that is no seed with what it found."""
    found: list[Known] = []
    for row in FILE.read_text(encoding="utf-8").splitlines():
        if row and not row.startswith("#"):
            seed, _, what = row.partition(" ")
            if not what:
                raise ValueError(f"a seed without what it found: {row}")
            found.append(Known(int(seed), what.strip()))
    return found
