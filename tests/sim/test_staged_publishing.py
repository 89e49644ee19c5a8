"""Staged publishing in worlds: whatever breaks, each row of each batch is stored once, a key's in order."""

from __future__ import annotations

import pytest

from simulation.world.staged_publishing import BATCHES, ClusterStageWorld, StageWorld, check_rows


@pytest.mark.parametrize("seed", range(3))
def test_each_row_is_stored_once_whatever_breaks(seed: int) -> None:
    check_rows(StageWorld(seed).run())


@pytest.mark.slow
def test_each_row_is_stored_once_in_many_worlds() -> None:
    worlds = [StageWorld(seed).run() for seed in range(3, 23)]
    for seen in worlds:
        check_rows(seen)
    assert sum(seen.crashes for seen in worlds) > 40
    assert sum(seen.reshapes for seen in worlds) > 40
    assert sum(seen.attempts for seen in worlds) > 20 * BATCHES


@pytest.mark.parametrize("seed", [0, 1, 6])
def test_each_row_is_stored_once_on_three_brokers(seed: int) -> None:
    check_rows(ClusterStageWorld(seed).run())


@pytest.mark.slow
def test_each_row_is_stored_once_by_three_brokers_often() -> None:
    worlds = [ClusterStageWorld(seed).run() for seed in range(2, 26)]
    for seen in worlds:
        check_rows(seen)
    assert sum(seen.crashes for seen in worlds) > 40
    assert sum(seen.sessions_lost for seen in worlds) > 40
    assert sum(seen.reshapes for seen in worlds) > 40
    assert any(len(seen.publishers) > 1 for seen in worlds)  # another broker finishes what one began
