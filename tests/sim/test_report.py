"""The page of a long run keeps what other runs wrote to it."""

from __future__ import annotations

from simulation.__main__ import seeds
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


def test_seeds_are_of_worlds_with_enough_brokers() -> None:
    found = list(seeds(5, 20, 2))
    assert len(found) == 20
    assert min(found) >= 5
    assert all(len(world_config(seed).brokers) > 1 for seed in found)
    assert list(seeds(5, 3, 1)) == [5, 6, 7]
