"""Versions of what keeps messages in chunks together that are wrong on purpose, each in one way: worlds must catch
every one. As in `simulation.mutants.scalable`, whose kind they are.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from magnetar.topic.dispatch.chunk_affinity import ChunkAffinity
from magnetar.topic.incomplete_chunks import IncompleteChunks
from simulation.mutants.engines import Patch
from simulation.mutants.scalable import _busy, _mutant, _sharing
from simulation.world.config import MESSAGE_BYTES, Shape
from simulation.world.variants import with_chunks, with_ways
from simulation.world.workload import BATCHES


def _waited_for() -> list[Patch]:
    """A message that a seal cut short is waited for."""
    return [(IncompleteChunks, "look", lambda self: None)]


def _torn() -> list[Patch]:
    """The rest of a message goes where its key belongs by now."""
    return [(ChunkAffinity, "owner", lambda self, places: None)]


def _chunked(world: Shape, rng: random.Random) -> Shape:
    """Two producers at least, who send in bursts and not often, so that chunks of one lie between those of another; and
    readers that come and go."""

    def added(topic: Any) -> Any:
        made = with_chunks(rng, with_ways(rng, replace(topic, subscriptions=())))
        large = tuple(
            replace(one, padding_bytes=padding, batch_messages=1, pause_s=0.1)
            for one, padding in zip(made.producers, (3_000, *[0] * len(made.producers)), strict=False)
        )
        brief = tuple(replace(one, stint_s=0.3, holds_s=0.0) for one in made.subscriptions)
        names = {one.name for one in brief}
        others = tuple(one for one in topic.subscriptions if one.type != BATCHES and one.name not in names)
        return replace(made, producers=large, subscriptions=(*others, *brief))

    kept = [topic for topic in world.topics if topic.kept and not topic.regular]
    return replace(world, topics=tuple(map(added, kept)), settings={**world.settings, **MESSAGE_BYTES})


def _cut(world: Shape, rng: random.Random) -> Shape:
    return _busy(_chunked(world, rng), rng)


def _shared(world: Shape, rng: random.Random) -> Shape:
    return _sharing(_chunked(world, rng), rng)


CUT_SHORT = (
    _mutant("a message that a seal cut short is waited for", 20, 48, _waited_for, _cut),
    _mutant("the rest of a message goes where its key belongs by now", 10, 14, _torn, _shared),
)
