"""The choice of a broker for a bundle: the same for everybody, spread, and moved no more than it must."""

from __future__ import annotations

from collections import Counter

from magnetar.cluster.rendezvous import choose

BUNDLES = [f"/namespace/public/default/0x{number:08x}" for number in range(400)]
BROKERS = [f"broker-{number}:8080" for number in range(4)]


def test_everybody_chooses_alike_whatever_order() -> None:
    assert [choose(bundle, BROKERS) for bundle in BUNDLES] == [choose(bundle, BROKERS[::-1]) for bundle in BUNDLES]


def test_bundles_spread_over_all() -> None:
    counts = Counter(choose(bundle, BROKERS) for bundle in BUNDLES)
    assert sorted(filter(None, counts)) == BROKERS
    assert min(counts.values()) > len(BUNDLES) / len(BROKERS) / 2


def test_broker_that_goes_moves_its_own_bundles_only() -> None:
    for bundle in BUNDLES:
        before = choose(bundle, BROKERS)
        after = choose(bundle, BROKERS[1:])
        assert after == before or before == BROKERS[0]


def test_of_nobody_nobody_is_chosen() -> None:
    assert choose("b", []) is None
