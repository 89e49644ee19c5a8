"""The choice of bookies: racks, quarantine with its fall-back, and clusters that are too small."""

from __future__ import annotations

import random

import pytest

from magnetar.base.errors import NotEnoughNodes
from magnetar.base.limits import BOOKKEEPER_QUARANTINED_MAX
from magnetar.ledger.bookkeeper.placement import Candidates, Quarantine, ensemble, replacements
from magnetar.ledger.store import Quorum

TRIPLE = Quorum(3, 3, 2)


@pytest.mark.parametrize("seed", range(20))
def test_ensemble_has_different_bookies(seed: int) -> None:
    chosen = ensemble(Candidates(list("abcdef")), TRIPLE, random.Random(seed).choice)
    assert len(set(chosen)) == 3


def test_every_bookie_is_chosen_sometimes() -> None:
    pick = random.Random(1).choice
    assert {bookie for _ in range(60) for bookie in ensemble(Candidates(list("abcdef")), TRIPLE, pick)} == set("abcdef")


def test_too_few_bookies_are_refused() -> None:
    with pytest.raises(NotEnoughNodes):
        ensemble(Candidates(["a", "b", "b"]), TRIPLE, random.Random(1).choice)


@pytest.mark.parametrize("seed", range(20))
def test_quarantined_bookie_is_chosen_last(seed: int) -> None:
    pick = random.Random(seed).choice
    assert "b" not in ensemble(Candidates(list("abcd"), quarantined={"b"}), TRIPLE, pick)
    assert set(ensemble(Candidates(list("abc"), quarantined=set("abc")), TRIPLE, pick)) == set("abc")


@pytest.mark.parametrize("seed", range(20))
def test_write_set_spans_racks(seed: int) -> None:
    racks = {"a": "1", "b": "1", "c": "1", "d": "2", "e": "2", "f": "3"}
    chosen = ensemble(Candidates(list("abcdef"), racks), TRIPLE, random.Random(seed).choice)
    assert {racks[bookie] for bookie in chosen} == {"1", "2", "3"}


@pytest.mark.parametrize("seed", range(20))
def test_one_rack_is_better_than_nothing(seed: int) -> None:
    racks = dict.fromkeys("abc", "1")
    assert set(ensemble(Candidates(list("abc"), racks), TRIPLE, random.Random(seed).choice)) == set("abc")


@pytest.mark.parametrize("seed", range(20))
def test_healthy_bookie_of_same_rack_precedes_quarantined_one(seed: int) -> None:
    racks = {"a": "1", "b": "1", "c": "2"}
    candidates = Candidates(list("abc"), racks, {"c"})
    assert set(ensemble(candidates, Quorum(2, 2, 2), random.Random(seed).choice)) == {"a", "b"}


@pytest.mark.parametrize("seed", range(20))
def test_replacement_keeps_racks_apart(seed: int) -> None:
    racks = {"a": "1", "b": "2", "c": "3", "d": "1", "e": "2"}
    candidates = Candidates(list("abcde"), racks)
    assert replacements(candidates, TRIPLE, "abc", [1], random.Random(seed).choice) == {1: "e"}


def test_replacement_is_not_in_ensemble() -> None:
    new = replacements(Candidates(list("abcdef")), TRIPLE, "abc", [0, 2], random.Random(1).choice)
    assert set(new) == {0, 2}
    assert set(new.values()) < set("def")
    assert len(set(new.values())) == 2


def test_position_without_candidate_is_left_out() -> None:
    candidates = Candidates(list("acd"))
    new = replacements(candidates, TRIPLE, "abc", [1], random.Random(1).choice)
    assert new == {1: "d"}
    assert replacements(Candidates(list("ac")), TRIPLE, "abc", [1], random.Random(1).choice) == {}


def test_failed_bookie_returns_after_quarantine() -> None:
    pick = random.Random(1).choice
    assert replacements(Candidates(list("abc"), quarantined={"b"}), TRIPLE, "abc", [1], pick) == {}
    assert replacements(Candidates(list("abc")), TRIPLE, "abc", [1], pick) == {1: "b"}


def test_quarantine_ends_by_time_or_release() -> None:
    quarantine = Quarantine(60.0)
    quarantine.add("a", 0.0)
    quarantine.add("b", 30.0)
    assert quarantine.members(59.0) == {"a", "b"}
    assert quarantine.members(60.0) == {"b"}
    quarantine.release("b")
    assert quarantine.members(60.0) == set()


def test_quarantine_is_bounded() -> None:
    quarantine = Quarantine(60.0)
    for number in range(BOOKKEEPER_QUARANTINED_MAX + 5):
        quarantine.add(str(number), 0.0)
    assert len(quarantine.members(1.0)) == BOOKKEEPER_QUARANTINED_MAX
    assert "4" not in quarantine.members(1.0)
