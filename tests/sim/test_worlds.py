"""Worlds of real brokers and clients: whatever breaks, every promise holds and everything comes to rest once healed.

Their seeds are spread over files, because the suites run one file on one core: the others are `test_worlds_*.py`. How
to replay a seed and read its story: docs/TESTING.md.
"""

from __future__ import annotations

import pytest

from simulation.corpus import CorpusEntry, read_corpus
from simulation.runner import WorldSummary, run_world
from tests.sim.world_runs import complaint, failing, groups, shown


@pytest.mark.parametrize("seeds", groups(0, 49), ids=shown)
def test_every_promise_holds_and_healed_world_comes_to_rest(seeds: range) -> None:
    assert failing(seeds) == ""


@pytest.mark.parametrize("known", read_corpus(), ids=lambda known: str(known.seed))
def test_what_was_found_once_stays_cured(known: CorpusEntry) -> None:
    result = run_world(known.seed)
    assert not result.findings, f"{complaint(result)}\n  it once found: {known.found}"


def test_failing_world_reports_findings_and_replay_command() -> None:
    found = WorldSummary(77, 1, ["1 lost: p|a|3"], "", {}, {}, 0, 0, 0.0)
    assert complaint(found) == "seed 77: python -m simulation replay 77\n  1 lost: p|a|3"
