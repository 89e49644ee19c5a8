"""A seed is a world: run again in a fresh process, under another order of hashes, it is the same to the last step.

The trace sums up every line that clients wrote, every mark, fault and life, when each was, and how many calls and
tasks there were.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.tidy.repository import ROOT


def traces(seeds: Sequence[int], hash_seed: int) -> list[str]:
    command = [sys.executable, "-m", "simulation", "trace", *map(str, seeds)]
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def alike(seeds: Sequence[int]) -> None:
    first, second = traces(seeds, 1), traces(seeds, 4_242)
    assert first == second
    assert len(set(first)) == len(seeds)  # a trace that says nothing is the same for all


@pytest.mark.slow
def test_world_is_same_in_fresh_process_under_other_hashes() -> None:
    # three brokers on shared stores, one on its own disk, deduplication on and off; scalable topics, one that is read
    # in batches, one with a subscription that is moved; one that is passed over, one migrated, a hold that expires
    alike((5, 11, 23, 21, 29, 63, 14, 82, 256))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_each_of_twenty_worlds_is_same_in_two_fresh_processes(seed: int) -> None:
    assert traces([seed], 0) == traces([seed], 31_337)
