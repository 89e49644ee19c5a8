"""Runs many worlds, one after another or on several cores, and adds up their results."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing import get_context

from simulation.world.cluster import ClusterWorld
from simulation.world.config import world_config
from simulation.world.outcome import WorldResult

WORLDS_A_PROCESS = 50  # then a fresh one takes its place


@dataclass(slots=True)
class WorldSummary:
    """The result of a world without its history."""

    seed: int
    brokers: int
    findings: list[str]
    trace: str
    marks: dict[str, int]
    faults: dict[str, int]
    messages: int
    received: int
    virtual_s: float


@dataclass(slots=True)
class Tally:
    worlds: int = 0
    first: int = 0  # the lowest seed, and the highest
    last: int = -1
    messages: int = 0
    received: int = 0
    virtual_s: float = 0.0
    brokers: Counter[int] = field(default_factory=Counter)
    marks: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    failing: dict[int, list[str]] = field(default_factory=dict)

    def add(self, result: WorldSummary) -> None:
        self.first = min(self.first, result.seed) if self.worlds else result.seed
        self.last = max(self.last, result.seed)
        self.worlds += 1
        self.messages += result.messages
        self.received += result.received
        self.virtual_s += result.virtual_s
        self.brokers[result.brokers] += 1
        self.marks.update(result.marks)
        self.faults.update(result.faults)
        if result.findings:
            self.failing[result.seed] = result.findings


def run_world(seed: int) -> WorldSummary:
    world = world_config(seed)
    outcome: WorldResult = ClusterWorld(world).run()
    result = WorldSummary(
        seed,
        len(world.brokers),
        outcome.findings,
        outcome.trace,
        dict(sorted(outcome.marks.items())),
        dict(sorted(outcome.faults.items())),
        outcome.messages,
        outcome.received,
        outcome.virtual_s,
    )
    del outcome
    gc.collect()
    return result


def run_worlds(seeds: Iterable[int], jobs: int) -> Iterator[WorldSummary]:
    """In the order of the seeds."""
    if jobs == 1:
        yield from map(run_world, seeds)
        return
    # multiprocessing's own pool: the executor of Python 3.11 can hang when it replaces a worker after its share.
    with get_context("spawn").Pool(jobs, maxtasksperchild=WORLDS_A_PROCESS) as pool:
        yield from pool.imap(run_world, seeds)
