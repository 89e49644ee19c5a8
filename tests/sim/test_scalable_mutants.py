"""The worlds with scalable topics bite: versions of our own brokers and clients that are wrong in one way are caught,
each by its own fault.

As `test_mutants.py`: the short tests begin near a seed that is known to catch, the slow ones at seed 0. Of those that
need many worlds there are slow tests only.
"""

from __future__ import annotations

import pytest

from simulation.mutants.chunks import CHUNK_MUTANTS
from simulation.mutants.clients import CLIENT_MUTANTS
from simulation.mutants.engines import Mutant
from simulation.mutants.scalable import SCALABLE_MUTANTS
from simulation.mutants.subscriptions import SUBSCRIPTION_MUTANTS

ALL = (*SCALABLE_MUTANTS, *SUBSCRIPTION_MUTANTS, *CHUNK_MUTANTS, *CLIENT_MUTANTS)
NAMES = {
    "drain judged from unflushed acks",
    "children given before their ancestors are latched",
    "children wait for late acknowledgements",
    "a segment counts as received after its hold",
    "only direct parents gate",
    "deduplication map not seeded",
    "take-over does not finish an intent",
    "cursor not created on a child",
    "old leader not stopped",
    "subscription born during a reshape overlooked",
    "segment ids restarted",
    "a bucket changes hands with entries unacknowledged",
    "finished segments left out of a checkpoint",
    "a batch read with its first message",
    "a hold forgotten when a topic lets go",
    "a plan told again though more came",
    "a seek forgets sealed segments",
    "a seek to a time forgets sealed segments",
    "a cursor is moved by its first seek only",
    "sealed segments are left when all is skipped",
    "subscriptions of a plain topic not carried over",
    "a hold ends unannounced",
    "a gap is passed over without a word",
    "a message that a seal cut short is waited for",
    "the rest of a message goes where its key belongs by now",
    "a split deletes what has no subscription",
    "a jump of the clock makes everything old",
    "messages without keys told apart by nothing",
    "a group opens a segment that it has finished",
    "a batch is buried by its count",
    "dead letters are not sent in chunks",
    "messages of a segment that was left are handed out",
    "the oldest half of a message gives way",
    "a message that no consumer puts together is sent",
}


QUICK = {
    "drain judged from unflushed acks",
    "cursor not created on a child",
    "children wait for late acknowledgements",
    "take-over does not finish an intent",
    "finished segments left out of a checkpoint",
    "a hold forgotten when a topic lets go",
    "a split deletes what has no subscription",
    "a batch is buried by its count",
    "the oldest half of a message gives way",
    "a message that no consumer puts together is sent",
}


def test_every_kind_of_mistake_has_its_mutant() -> None:
    assert {mutant.name for mutant in ALL} == NAMES


@pytest.mark.parametrize("mutant", [one for one in ALL if one.name in QUICK], ids=lambda mutant: mutant.name)
def test_mutant_is_caught_and_its_world_is_clean_without_it(mutant: Mutant) -> None:
    seed, _ = mutant.first_catch(mutant.near)
    assert mutant.is_sole_cause(seed), f"seed {seed} fails without the mutant too"


@pytest.mark.slow
@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_mutant_is_caught_within_stated_number_of_worlds(mutant: Mutant) -> None:
    seed, tried = mutant.first_catch(0)
    assert tried <= mutant.seeds
    assert mutant.is_sole_cause(seed), f"seed {seed} fails without the mutant too"
