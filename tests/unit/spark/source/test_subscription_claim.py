"""Two queries with one subscription: who goes on, who ends, and restarts that are never refused."""

from __future__ import annotations

import os

import pytest

from magnetar.base.errors import Conflict
from magnetar.spark.process import is_alive, this_run
from magnetar.spark.source.subscription_claim import Claim, Run, run_of

TOPIC, NAME = "topic://a/b/c", "daily"


class Hold:
    """What a broker keeps of a hold: its owner."""

    def __init__(self) -> None:
        self.owner = ""

    def by(self, claim: Claim) -> None:
        before, self.owner = self.owner, claim.owner
        claim.held(TOPIC, NAME, before)


def a_run(token: str, began_ms: int, host: str = "h1") -> Run:
    return Run(token * 8, host, 100, 7, began_ms)


def test_owner_is_read_back_as_run_it_names():
    one = a_run("a", 1_700_000_000_123)
    assert run_of(one.owner, "h1") == one
    elsewhere = run_of(one.owner, "h2")
    assert elsewhere is not None
    assert not elsewhere.here
    assert run_of("Spark", "h1") is None


def test_later_query_ends_and_earlier_says_so():
    hold, told = Hold(), []
    first, second = Claim(a_run("a", 1), told.append), Claim(a_run("b", 2), told.append)
    for claim in (first, first, second, first):
        hold.by(claim)
    with pytest.raises(Conflict, match=r"daily of topic://a/b/c is in use by another query"):
        hold.by(second)
    hold.by(first)
    assert len(told) == 1
    assert "that query is the later one" in told[0]


def test_restart_takes_over_from_run_that_ended():
    hold, told = Hold(), []
    for began, token in enumerate("abcd"):
        claim = Claim(a_run(token, began), told.append)
        for _ in range(3):
            hold.by(claim)
    assert told == []


def test_restart_on_host_with_slower_clock_takes_over():
    hold, told = Hold(), []
    hold.by(Claim(a_run("a", 9_000), told.append))
    later = Claim(a_run("b", 1, "h2"), told.append)
    for _ in range(3):
        hold.by(later)
    assert told == []


def test_only_process_that_is_there_is_alive():
    mine = this_run(5, 1_700_000_000_000)
    assert mine.process == os.getpid()
    assert is_alive(mine.process, mine.ticks)
    assert not is_alive(mine.process, mine.ticks + 1)
    assert not is_alive(mine.process, 0)
