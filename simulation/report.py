"""The page that a long run writes: the number of worlds, their faults, and the rare events they met."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from simulation.observe import marks
from simulation.runner import Tally

OTHER_RUNS = "## Fuzzing\n"


def page(tally: Tally, brokers: int, day: str) -> str:
    """`brokers`: worlds with fewer are not in it."""
    shape = f" with {brokers} brokers or more" if brokers > 1 else ""
    verdict = "None failed." if not tally.failing else f"{len(tally.failing)} failed: {sorted(tally.failing)}."
    rows = [
        "# Chaos: the last long run of the simulator",
        "",
        "Written by `make chaos` (`python -m simulation run --record`). How to read and replay a world: "
        "[TESTING.md](TESTING.md); what was found and cured: [FOUND.md](FOUND.md).",
        "",
        f"On {day}, seeds {tally.first} to {tally.last}: {tally.worlds} worlds{shape}, "
        f"{tally.virtual_s:,.0f} virtual seconds, "
        f"{tally.messages:,} messages acknowledged, {tally.received:,} deliveries. {verdict}",
        "",
        *_table(("brokers in a world", "worlds"), ((str(key), value) for key, value in sorted(tally.brokers.items()))),
        "",
        *_table(("fault", "injected"), sorted(tally.faults.items())),
        "",
        *_table(("rare event", "met"), _marks(tally.marks)),
    ]
    return "\n".join(rows) + "\n"


def other_runs(before: str) -> str:
    """The part of the page about runs outside the simulator, such as fuzzing: it stays."""
    _, marker, rest = before.partition(OTHER_RUNS)
    return f"\n{marker}{rest}" if marker else ""


def _marks(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted({**dict.fromkeys(marks.WANTED, 0), **counts}.items())


def _table(head: tuple[str, str], rows: Iterable[tuple[str, int]]) -> list[str]:
    return [f"| {head[0]} | {head[1]} |", "|---|---|", *(f"| {name} | {count:,} |" for name, count in rows)]
