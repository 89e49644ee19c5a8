"""The worlds bite: each of eleven versions of our own code that are wrong in one way is caught, and by its own fault.

The short tests begin near a seed that is known to catch; the slow ones begin at seed 0 and hold what each mutant
states: caught within so many worlds of its kind. What a mutant is, and which faults are added for it:
simulation/mutants/engines.py.
"""

from __future__ import annotations

import pytest

from simulation.mutants.engines import ENGINE_MUTANTS, Mutant

NAMES = {
    "receipt before fsync",
    "cursor snapshot before the ack",
    "deduplication snapshot skipped",
    "fence ignored",
    "torn tail trusted",
    "watch event lost without resync",
    "permit leak",
    "redelivery forgotten",
    "old owner still acknowledging",
    "a jump of the clock makes plain topics old",
    "unknown compare-and-set taken as failure",
}


def test_every_kind_of_mistake_has_its_mutant() -> None:
    assert {mutant.name for mutant in ENGINE_MUTANTS} == NAMES


@pytest.mark.parametrize("mutant", ENGINE_MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_caught_and_its_world_is_clean_without_it(mutant: Mutant) -> None:
    seed, _ = mutant.first_catch(mutant.near)
    assert mutant.is_sole_cause(seed), f"seed {seed} fails without the mutant too"


@pytest.mark.slow
@pytest.mark.parametrize("mutant", ENGINE_MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_caught_within_stated_number_of_worlds(mutant: Mutant) -> None:
    seed, tried = mutant.first_catch(0)
    assert tried <= mutant.seeds
    assert mutant.is_sole_cause(seed), f"seed {seed} fails without the mutant too"
