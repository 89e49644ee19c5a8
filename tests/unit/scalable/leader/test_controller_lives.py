"""Random lives of a topic: reshapes under writers while leaders and owners die at random steps and others come."""

from __future__ import annotations

import random

import pytest

from magnetar.base.errors import Moved
from tests.support.reshape_steps import SPLIT
from tests.unit.scalable.leader.test_controller import attempt
from tests.unit.scalable.world import KEYS, NAME, Cluster, Writer, pass_s, spawn


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.setup(3, brokerDeduplicationEnabled="true")
async def test_death_at_any_time_loses_doubles_and_disorders_nothing(cluster: Cluster, seed: int) -> None:
    rng = random.Random(seed)
    await cluster.members[0].service.create(NAME, segments=2)
    writers = [Writer(cluster, f"w{number}") for number in range(2)]
    stopping = False

    async def write(writer: Writer, keys: list[str]) -> None:
        while not stopping:
            for key in keys:
                await writer.send(key)
                await pass_s(0.4)

    tasks = [spawn(write(writer, KEYS[index::2])) for index, writer in enumerate(writers)]
    for _ in range(8):
        while len(cluster.living) < 3:
            await cluster.join()
        if rng.random() < 0.6:
            spared = rng.choice(cluster.living)  # it must do alone if need be
            for member in [one for one in cluster.living if one is not spared]:
                member.kill_at(rng.choice(SPLIT))
        active = (await cluster.record()).layout.active
        merged = rng.randrange(len(active) - 1) if len(active) > 1 and rng.random() < 0.5 else None
        for asked in rng.sample(cluster.living, len(cluster.living)):
            if merged is None:
                work = asked.service.split(NAME, active[0].id)
            else:
                work = asked.service.merge(NAME, [active[merged].id, active[merged + 1].id])
            if not isinstance(await attempt(spawn(work)), Moved):
                break
        await pass_s(0.5)
        for member in cluster.living:
            member.runtime.told = lambda name, facts: None
        await cluster.until(lambda record: record.intent is None)
    stopping = True
    for task in tasks:
        await task
    expected = {key: numbers for writer in writers for key, numbers in writer.sent.items()}
    assert await cluster.contents() == expected
    assert len((await cluster.record()).history) >= 6, "it was reshaped"
    for writer in writers:
        writer.close()
