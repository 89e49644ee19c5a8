"""Every interleaving of splits, merges, subscriptions and deletions, with crashes, silent session losses and lost
answers: the real deciders leave nothing dead, lost or behind, and without any one of their safeguards they do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from magnetar.base import validation
from magnetar.base.ids import SegmentId
from magnetar.scalable.machines import reshape, subscription_change
from magnetar.scalable.record.record import Kind
from tests.model import mutants
from tests.model.explore import Found, explore
from tests.model.world import Cluster, Delete, Prune, Recreate, Rules


def split(segment: int, op: str = "") -> reshape.Request:
    return reshape.Request(op or f"split {segment}", Kind.SPLIT, (SegmentId(segment),), now_ms=1)


def merge(*segments: int) -> reshape.Request:
    return reshape.Request("merge", Kind.MERGE, tuple(SegmentId(one) for one in segments), now_ms=1)


DELETE, RECREATE, PRUNE = Delete("delete"), Recreate("create"), Prune("prune")
SUBSCRIBE = subscription_change.create("subscribe", "s")
UNSUBSCRIBE = subscription_change.delete("unsubscribe", "s")


@dataclass(frozen=True)
class Row:
    name: str
    segments: int
    asked: tuple[Any, ...]
    states: int  # seen when it was written: fewer would mean that something is not tried any more
    work: tuple[Any, ...] = ()
    subscribed: tuple[str, ...] = ()
    refuse: tuple[SegmentId, int] | None = None
    faults: dict[str, int] = field(default_factory=dict)

    def explored(self, rules: Rules | None = None) -> Found:
        cluster = Cluster(rules or Rules(), refuse=self.refuse)
        start = cluster.start(self.segments, self.asked, work=self.work, subscribed=self.subscribed, **self.faults)
        return explore(start, cluster.moves, broken=cluster.broken, unsettled=cluster.unsettled)


CRASH, EXPIRY, LOSS = {"crashes": 1}, {"expiries": 1}, {"losses": 1}
ROWS = {
    row.name: row
    for row in [
        Row("one split", 1, (split(0),), 29),
        Row("one split, a crash", 1, (split(0),), 161, faults=CRASH),
        Row("one split, a silent expiry", 1, (split(0),), 2275, faults=EXPIRY),
        Row("one split, a lost answer", 1, (split(0),), 147, faults=LOSS),
        Row("one split, two lost answers", 1, (split(0),), 455, faults={"losses": 2}),
        Row("one split, a crash and a lost answer", 1, (split(0),), 953, faults=CRASH | LOSS),
        Row("one split, a silent expiry and a lost answer", 1, (split(0),), 33813, faults=EXPIRY | LOSS),
        Row("one merge", 2, (merge(0, 1),), 29),
        Row("one merge, a crash", 2, (merge(0, 1),), 159, faults=CRASH),
        Row("one merge, a silent expiry", 2, (merge(0, 1),), 2173, faults=EXPIRY),
        Row("one merge, a lost answer", 2, (merge(0, 1),), 147, faults=LOSS),
        Row("two splits at once", 2, (split(0), split(1)), 253),
        Row("two splits of one segment", 1, (split(0, "one"), split(0, "two")), 217),
        Row("two splits at once, a crash", 2, (split(0), split(1)), 1277, faults=CRASH),
        Row("two splits at once, a silent expiry", 2, (split(0), split(1)), 31010, faults=EXPIRY),
        Row("split and merge overlapping", 2, (split(0), merge(0, 1)), 217),
        Row("split and merge overlapping, a crash", 2, (split(0), merge(0, 1)), 925, faults=CRASH),
        Row("split and merge overlapping, a silent expiry", 2, (split(0), merge(0, 1)), 19788, faults=EXPIRY),
        Row("split while subscribing", 1, (split(0),), 2500, work=(SUBSCRIBE,)),
        Row("split while subscribing, a crash", 1, (split(0),), 24318, work=(SUBSCRIBE,), faults=CRASH),
        Row("split while subscribing, a lost answer", 1, (split(0),), 71842, work=(SUBSCRIBE,), faults=LOSS),
        Row("split while unsubscribing", 1, (split(0),), 2500, work=(UNSUBSCRIBE,), subscribed=("s",)),
        Row("merge while subscribing", 2, (merge(0, 1),), 1142, work=(SUBSCRIBE,)),
        Row("split, delete, create again", 1, (split(0), DELETE, RECREATE), 1044),
        Row("split, delete, create again, a crash", 1, (split(0), DELETE, RECREATE), 5334, faults=CRASH),
        Row("split, delete, create again, a lost answer", 1, (split(0), DELETE, RECREATE), 10103, faults=LOSS),
        Row("split, delete, create again, a silent expiry", 1, (split(0), DELETE, RECREATE), 220379, faults=EXPIRY),
        Row("delete while subscribing, create again", 1, (DELETE, RECREATE), 769, work=(SUBSCRIBE,)),
        Row(
            "delete while subscribing, create again, a crash",
            1,
            (DELETE, RECREATE),
            2969,
            work=(SUBSCRIBE,),
            faults=CRASH,
        ),
        Row("a child is refused", 1, (split(0),), 75, refuse=(SegmentId(2), 0)),
        Row("a child is refused, a crash", 1, (split(0),), 542, refuse=(SegmentId(2), 0), faults=CRASH),
        Row("a child is refused to the second leader", 1, (split(0),), 16167, refuse=(SegmentId(2), 2), faults=EXPIRY),
        Row("split, prune", 1, (split(0), PRUNE), 103),
        Row("split, prune, a crash", 1, (split(0), PRUNE), 526, faults=CRASH),
        Row("split, prune, a lost answer", 1, (split(0), PRUNE), 631, faults=LOSS),
        Row("split, prune, a silent expiry", 1, (split(0), PRUNE), 11819, faults=EXPIRY),
        Row("two splits, prune", 1, (split(0), split(1), PRUNE), 957),
        Row("split, prune while subscribing", 1, (split(0), PRUNE), 11132, work=(SUBSCRIBE,)),
        Row("split, prune while unsubscribing", 1, (split(0), PRUNE), 11132, work=(UNSUBSCRIBE,), subscribed=("s",)),
        Row("split, prune, delete, create again", 1, (split(0), PRUNE, DELETE, RECREATE), 5114),
        Row("one split, a silent expiry and a crash", 1, (split(0),), 8801, faults=CRASH | EXPIRY),
    ]
}


LARGE = {  # ten seconds and half a minute of one core
    "split while subscribing, a lost answer",
    "split, delete, create again, a silent expiry",
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LARGE)) for name in ROWS])
def test_nothing_goes_wrong_in_any_interleaving_of(name: str, record_property: Callable[[str, object], None]) -> None:
    found = ROWS[name].explored()
    record_property("states", found.states)
    assert not found.wrong, str(found)
    assert found.states >= ROWS[name].states, "fewer interleavings are tried than when this was written"


@pytest.mark.parametrize(
    ("mutant", "row", "wrong"),
    [
        (mutants.no_forward_recovery, "one split, a crash", "an intent is left for ever"),
        (mutants.no_forward_recovery, "one merge, a crash", "an intent is left for ever"),
        (mutants.two_intents_at_once, "two splits at once", "orphan topics"),
        (mutants.two_intents_at_once, "split and merge overlapping", "orphan topics"),
        (mutants.no_generation_check_at_commit, "split while subscribing", "will never see"),
        (mutants.old_lists_taken_by_the_owner, "split while subscribing, a lost answer", "will never see"),
        (mutants.no_listing_check_at_the_owner, "split, delete, create again", "orphan topics"),
        (mutants.no_tombstone, "split, delete, create again", ""),
        (mutants.id_counter_restarted, "split, delete, create again", ""),
        (mutants.no_term, "a child is refused to the second leader", ""),
        (mutants.leadership_believed_without_proof, "one split, a silent expiry and a crash", "left for ever"),
        (mutants.forgotten_before_deleted, "split, prune, a crash", "orphan topics"),
        (mutants.abort_without_fencing, "a child is refused to the second leader", "dead"),
    ],
    ids=lambda one: one.__name__ if callable(one) else "",
)
def test_without_safeguard_something_breaks(mutant: Callable[[], Rules], row: str, wrong: str) -> None:
    with validation.disabled():
        found = ROWS[row].explored(mutant())
    assert found.wrong, "a safeguard that nobody misses, or a mutant that mutates nothing"
    assert wrong in found.wrong, str(found)
