"""What worlds consist of: their variants come about, and leave the rest of a world as it was."""

from __future__ import annotations

import random
from collections import Counter

from simulation.world.config import MORE_BROKERS, WorldConfig, with_more_brokers, world_config
from simulation.world.variants import MANY_SUBSCRIPTIONS

SEEDS = 150


class Always(random.Random):
    """The variant comes about, in one of its forms."""

    def random(self) -> float:
        return min(super().random(), MORE_BROKERS / 2)


def many(world: WorldConfig) -> int:
    """Stream subscriptions that were added to a topic."""
    return max((sum(one.name.startswith("many") for one in topic.subscriptions) for topic in world.topics), default=0)


def test_worlds_have_one_to_five_brokers() -> None:
    counted = Counter(len(world_config(seed).brokers) for seed in range(SEEDS))
    assert sorted(counted) == [1, 2, 3, 4, 5]


def test_some_scalable_worlds_have_tens_of_stream_subscriptions() -> None:
    worlds = [world for seed in range(SEEDS) if (world := world_config(seed)).scale is not None]
    counts = [count for world in worlds if (count := many(world))]
    assert 0 < len(counts) < len(worlds) / 4
    assert all(MANY_SUBSCRIPTIONS[0] <= count <= MANY_SUBSCRIPTIONS[1] for count in counts)


def test_more_brokers_leave_faults_of_others() -> None:
    before = next(world for seed in range(SEEDS) if len((world := world_config(seed)).brokers) == 3 and world.faults)
    after = with_more_brokers(before, Always(1))
    assert after.brokers[:3] == before.brokers
    assert len(after.brokers) > 3
    assert [fault for fault in after.faults if fault in before.faults] == list(before.faults)
    assert (after.topics, after.settings) == (before.topics, before.settings)


def test_two_brokers_stay_two() -> None:
    world = next(world for seed in range(SEEDS) if len((world := world_config(seed)).brokers) == 2)
    assert with_more_brokers(world, Always(1)) is world
