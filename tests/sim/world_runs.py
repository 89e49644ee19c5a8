"""Worlds tried by tests, and what a failing one tells: its findings and the command that tells its story."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from simulation.runner import WorldSummary, run_world

GROUP = 5  # seeds in a test: small enough to find one, large enough not to drown in names


def groups(first: int, last: int) -> list[range]:
    return [range(start, min(start + GROUP, last + 1)) for start in range(first, last + 1, GROUP)]


def shown(seeds: Sequence[int]) -> str:
    return f"{seeds[0]}-{seeds[-1]}"


def complaints(results: Iterable[WorldSummary]) -> list[str]:
    """One text for each world that failed; each is dropped before the next one runs."""
    return [complaint(result) for result in results if result.findings]


def complaint(result: WorldSummary) -> str:
    rows = [f"seed {result.seed}: python -m simulation replay {result.seed}"]
    return "\n".join([*rows, *(f"  {finding}" for finding in result.findings[:5])])


def failing(seeds: Iterable[int]) -> str:
    return "\n".join(complaints(map(run_world, seeds)))
