"""More worlds: the second part of the seeds of `test_worlds.py`, in a file of its own for another core."""

from __future__ import annotations

import pytest

from tests.sim.world_runs import failing, groups, shown


@pytest.mark.parametrize("seeds", groups(50, 99), ids=shown)
def test_every_promise_holds_and_healed_world_comes_to_rest(seeds: range) -> None:
    assert failing(seeds) == ""
