"""More worlds: those behind the first hundred seeds of `test_worlds.py` and `test_worlds_second.py`."""

from __future__ import annotations

import pytest

from tests.sim.world_runs import failing, groups, shown

pytestmark = [pytest.mark.slow]


@pytest.mark.parametrize("seeds", groups(100, 149), ids=shown)
def test_every_promise_holds_and_healed_world_comes_to_rest(seeds: range) -> None:
    assert failing(seeds) == ""
