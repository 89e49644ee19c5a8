"""Broken versions of the handling of chunked messages, each with one fault that worlds must find.

They work like those of `simulation.mutants.scalable`.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from magnetar.topic.dispatch.chunk_affinity import ChunkAffinity
from magnetar.topic.incomplete_chunks import IncompleteChunks
from simulation.mutants.engines import Patch
from simulation.mutants.scalable import _sharing, scalable_mutant, with_many_reshapes
from simulation.world.config import MESSAGE_BYTES, WorldConfig
from simulation.world.variants import with_chunks, with_consumer_kinds
from simulation.world.workload import BATCHES


def _waited_for() -> list[Patch]:
    """A consumer waits for the rest of a message that a seal cut off."""
    return [(IncompleteChunks, "look", lambda self: None)]


def _torn() -> list[Patch]:
    """The rest of a message goes to the segment that its key belongs to now."""
    return [(ChunkAffinity, "owner", lambda self, places: None)]


def with_mixed_chunks(world: WorldConfig, rng: random.Random) -> WorldConfig:
    """At least two producers that send in rare bursts, so that their chunks are mixed; and readers that come and go."""

    def added(topic: Any) -> Any:
        variant = with_chunks(rng, with_consumer_kinds(rng, replace(topic, subscriptions=())))
        large = tuple(
            replace(one, padding_bytes=padding, batch_messages=1, pause_s=0.1)
            for one, padding in zip(variant.producers, (3_000, *[0] * len(variant.producers)), strict=False)
        )
        brief = tuple(replace(one, stint_s=0.3, holds_s=0.0) for one in variant.subscriptions)
        names = {one.name for one in brief}
        others = tuple(one for one in topic.subscriptions if one.type != BATCHES and one.name not in names)
        return replace(variant, producers=large, subscriptions=(*others, *brief))

    kept = [topic for topic in world.topics if topic.kept and not topic.regular]
    return replace(world, topics=tuple(map(added, kept)), settings={**world.settings, **MESSAGE_BYTES})


def _cut(world: WorldConfig, rng: random.Random) -> WorldConfig:
    return with_many_reshapes(with_mixed_chunks(world, rng), rng)


def _shared(world: WorldConfig, rng: random.Random) -> WorldConfig:
    return _sharing(with_mixed_chunks(world, rng), rng)


CHUNK_MUTANTS = (
    scalable_mutant("a message that a seal cut short is waited for", 20, 48, _waited_for, _cut),
    scalable_mutant("the rest of a message goes where its key belongs by now", 10, 14, _torn, _shared),
)
