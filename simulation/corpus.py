"""Seeds that once found a fault: every `make test` replays them, so that a fixed fault stays fixed.

`corpus.txt` has one seed a line and what it found. A seed names a world as the simulator drew it then. After a change
of the draws it names another world, and the unit test that came with the fix (docs/FOUND.md) covers the fault. The
replay costs little all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("corpus.txt")


@dataclass(frozen=True, slots=True)
class CorpusEntry:
    seed: int
    found: str


def read_corpus() -> list[CorpusEntry]:
    """Raises ValueError for a line that is not a seed and what it found."""
    entries: list[CorpusEntry] = []
    for row in FILE.read_text(encoding="utf-8").splitlines():
        if row and not row.startswith("#"):
            seed, _, what = row.partition(" ")
            if not what:
                raise ValueError(f"a seed without what it found: {row}")
            entries.append(CorpusEntry(int(seed), what.strip()))
    return entries
