"""The page of a long run keeps what other runs wrote to it."""

from __future__ import annotations

from simulation.report import OTHER_RUNS, other_runs, page
from simulation.runner import Tally


def test_section_of_other_runs_stays_on_page() -> None:
    fuzzed = f"{OTHER_RUNS}\n10 inputs.\n"
    first = page(Tally(), 0, "2026-01-01") + "\n" + fuzzed
    again = page(Tally(), 0, "2026-01-02") + other_runs(first)
    assert again.endswith("\n\n" + fuzzed)
    assert "2026-01-01" not in again
    assert other_runs(again) == "\n" + fuzzed
    assert other_runs(page(Tally(), 0, "2026-01-01")) == ""
