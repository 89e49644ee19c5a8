"""The page of a long run keeps what other runs wrote to it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from simulation import __main__ as command
from simulation.report import OTHER_RUNS, other_runs, page
from simulation.runner import Tally, WorldSummary
from simulation.world.config import world_config


def test_section_of_other_runs_stays_on_page() -> None:
    fuzzed = f"{OTHER_RUNS}\n10 inputs.\n"
    first = page(Tally(), 1, "2026-01-01") + "\n" + fuzzed
    again = page(Tally(), 1, "2026-01-02") + other_runs(first)
    assert again.endswith("\n\n" + fuzzed)
    assert "2026-01-01" not in again
    assert other_runs(again) == "\n" + fuzzed
    assert other_runs(page(Tally(), 1, "2026-01-01")) == ""


def test_page_names_seeds_and_brokers_of_its_worlds() -> None:
    tally = Tally()
    for seed in (7, 4, 9):
        tally.add(WorldSummary(seed, 2, ["lost"] if seed == 4 else [], "", {}, {}, 1, 1, 1.0))
    assert "seeds 4 to 9: 3 worlds with 2 brokers or more" in page(tally, 2, "2026-01-01")
    assert "1 failed: [4]." in page(tally, 2, "2026-01-01")
    assert "3 worlds, " in page(tally, 1, "2026-01-01")


def test_run_passes_over_worlds_of_fewer_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def run_worlds(seeds: Iterable[int], jobs: int) -> list[WorldSummary]:
        seen.extend(seeds)
        return []

    monkeypatch.setattr(command, "run_worlds", run_worlds)
    assert command.main(["run", "--seeds", "20", "--first", "5", "--brokers", "2"]) == 0
    assert len(seen) == 20
    assert min(seen) >= 5
    assert all(len(world_config(seed).brokers) > 1 for seed in seen)
