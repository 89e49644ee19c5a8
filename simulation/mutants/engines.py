"""Broken versions of the product's engines and deciders, each with one fault that worlds must find.

A world takes them as overrides, or they replace one function while a world runs; the product has no switch for any of
them. Everything else is the real code.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

from magnetar.base import validation
from magnetar.base.errors import Fenced, MagnetarError, NotReady, Unknown
from magnetar.base.ids import Position
from magnetar.ledger import record as ledger_record
from magnetar.ledger import snapshots
from magnetar.ledger.clock import SteadyClock
from magnetar.ledger.local import scan
from magnetar.ledger.run import Run
from magnetar.metadata import cache
from magnetar.metadata.store import Event, MetadataStore, Unsubscribe
from magnetar.topic.dedup.snapshots import DedupSnapshots
from magnetar.topic.dispatch.key_shared import KeySharedDispatcher
from magnetar.topic.dispatch.shared import SharedDispatcher
from magnetar.topic.producers.publish import Publication
from magnetar.topic.subscriptions.consumer import Consumer
from simulation.faults.plan import (
    CALM_S,
    DAYS_S,
    Fault,
    FaultKind,
)
from simulation.mutants.lying_stores import OverstatingLedgers, UnsyncedFiles
from simulation.stores.ledger_memory import StoredLedger
from simulation.stores.ledgers import MemoryLedgers, MemoryWriter
from simulation.world.cluster import ClusterWorld
from simulation.world.config import (
    CONSUMERS,
    DAY_MINUTES,
    WorldConfig,
    world_config,
)
from simulation.world.outcome import EngineOverrides

Patch = tuple[Any, str, Any]
PROVOKED_TIMES = 4  # that each is added, to each broker where that matters


@dataclass(frozen=True, slots=True)
class Mutant:
    """`shared`: it applies to worlds on shared stores, or to those on one disk. `seeds`: the number of worlds within
    which it must be caught. `near`: a seed near one that catches it, where a short test begins. `provoke` adds
    situations to its worlds that the missing safeguard is for."""

    name: str
    seeds: int
    near: int
    shared: bool
    parts: EngineOverrides = field(default_factory=EngineOverrides)
    patches: Callable[[], list[Patch]] = list
    provoke: Callable[[WorldConfig, random.Random], WorldConfig] | None = None
    brokers: int = 1  # at least
    scalable: bool = False  # its worlds have scalable topics; else plain ones

    def config(self, seed: int) -> WorldConfig | None:
        """The world of a seed, if the mutant applies to it; else None."""
        config = world_config(seed)
        if config.shared != self.shared or len(config.brokers) < self.brokers:
            return None
        if (config.scale is not None) != self.scalable:
            return None
        if self.provoke is None:
            return config
        provoked = self.provoke(config, random.Random(f"{seed}:{self.name}"))
        return provoked if provoked.topics else None

    def findings(self, seed: int) -> list[str] | None:
        """The findings of its world; None: it does not apply to the seed."""
        world = self.config(seed)
        if world is None:
            return None
        with self.applied():
            return ClusterWorld(world, self.parts).run().findings

    def is_sole_cause(self, seed: int) -> bool:
        """Whether the same world has no findings without it."""
        world = self.config(seed)
        return world is not None and not ClusterWorld(world).run().findings

    def first_catch(self, first: int) -> tuple[int, int]:
        """The first seed from there on that catches it, and the number of worlds tried. Raises LookupError if none
        did."""
        tried, seed = 0, first
        while tried < self.seeds:
            findings = self.findings(seed)
            tried += findings is not None
            if findings:
                return seed, tried
            seed += 1
        raise LookupError(f"{self.name}: not caught by {tried} worlds from seed {first} on")

    @contextmanager
    def applied(self) -> Iterator[None]:
        # Worlds must find it by what their clients see, so the machines do not check themselves.
        patches = [patch.object(*each) for each in self.patches()]
        for each in patches:
            each.start()
        try:
            with validation.disabled():
                yield
        finally:
            for each in reversed(patches):
                each.stop()


# Engines


def _unfenced() -> list[Patch]:
    """A recovery that does not stop the old writer: both write, and the new owner knows only the older entries."""

    def fence(self: MemoryWriter, by: MemoryLedgers) -> None:
        pass

    def land(self: Any, run: Run) -> None:
        self.entries += [bytes(run.entry(index)) for index in range(len(run))]
        self.counts += run.counts

    return [(MemoryWriter, "fence", fence), (StoredLedger, "land", land)]


class EventDroppingStore:
    """A metadata store that drops events silently."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._chance = random.Random(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def subscribe(self, prefix: str, heard: Callable[[Event], None]) -> Unsubscribe:
        return self._store.subscribe(prefix, lambda event: None if self._chance.random() < 0.5 else heard(event))


def _trusting() -> list[Patch]:
    """A scan of the journal that accepts every record with a header."""
    return [(scan, "sound", lambda buffer, at, record: at + record.size <= len(buffer))]


# Deciders and actors


def _forgetful_dedup() -> list[Patch]:
    async def replay(self: DedupSnapshots) -> None:
        """What was stored behind the snapshot is not read again."""

    return [(DedupSnapshots, "_replay", replay)]


def _leaking() -> list[Patch]:
    """Some of the permits that a client grants are lost."""

    def flow(self: Consumer, messages: int) -> None:
        real(self, messages - 1)

    real = Consumer.flow
    return [(Consumer, "flow", flow)]


def _forgotten_redelivery() -> list[Patch]:
    def give_back(self: SharedDispatcher, positions: list[Position]) -> None:
        real(self, positions[1:])

    real = SharedDispatcher._give_back
    return [
        (kind, "_give_back", give_back)
        for kind in (SharedDispatcher, KeySharedDispatcher)
        if "_give_back" in vars(kind)
    ]


def _old_owner() -> list[Patch]:
    """A fenced owner answers as if it were not fenced."""

    def done(self: Publication, run: Run, error: MagnetarError | None) -> None:
        real(self, run, None if isinstance(error, Fenced) else error)

    real = Publication.done
    return [(Publication, "done", done)]


def _hasty_judge() -> list[Patch]:
    """A compare-and-set without an answer counts as one that did not happen."""

    async def put(store: MetadataStore, path: str, value: bytes, *, expected: int, ephemeral: bool = False) -> Any:
        try:
            return await store.put(path, value, expected=expected, ephemeral=ephemeral)
        except Unknown as error:
            raise NotReady("taken for one that did not happen", path=path) from error

    return [(room, "put_checked", put) for room in (ledger_record, snapshots, cache)]


def _gullible() -> list[Patch]:
    """Ages are measured by the wall clock without a check."""

    def read(self: SteadyClock, wall_ms: int, now_s: float) -> int:
        self.trusted = True
        return wall_ms

    return [(SteadyClock, "read", read)]


# Faults that a safeguard is for


def _with(world: WorldConfig, more: list[Fault]) -> WorldConfig:
    return replace(world, faults=tuple(sorted([*world.faults, *more], key=lambda fault: fault.at_s)))


def _two_owners(world: WorldConfig, rng: random.Random) -> WorldConfig:
    """A session ends and its broker does not know; consumers must look the topic up while producers go on with it."""
    more = [
        Fault(rng.uniform(CALM_S, world.chaos_s), FaultKind.ESTRANGE, (broker, CONSUMERS), for_s=rng.uniform(0.02, 0.2))
        for broker in world.brokers * PROVOKED_TIMES
    ]
    return _with(world, more)


def _torn_writes(world: WorldConfig, rng: random.Random) -> WorldConfig:
    more = [
        Fault(
            rng.uniform(CALM_S, world.chaos_s),
            FaultKind.TEAR,
            world.brokers,
            for_s=0.2,
            amount=float(rng.randint(1, 3)),
        )
        for _ in range(PROVOKED_TIMES)
    ]
    return _with(world, more)


def _lost_answers(world: WorldConfig, rng: random.Random) -> WorldConfig:
    """The metadata store loses answers to writes that happened; ledgers roll over all the time."""
    settings = {**world.settings, "managedLedgerMaxEntriesPerLedger": "5"}
    return replace(world, store_fault_rates={**world.store_fault_rates, "lost_applied": 0.1}, settings=settings)


def _wrong_clocks(world: WorldConfig, rng: random.Random) -> WorldConfig:
    """Topics that keep a day, and clocks that are two days ahead for some seconds: nothing else happens."""
    faults = [
        Fault(at_s, FaultKind.JUMP, (broker,), amount=amount)
        for broker in world.brokers
        for at_s, amount in ((rng.uniform(2.0, 4.0), DAYS_S), (11.0, -DAYS_S))
    ]
    calm = replace(world, faults=(), store_fault_rates={}, ledger_fault_rates={}, chaos_s=14.0)
    return _with(replace(calm, kept_minutes=DAY_MINUTES, clock_trusted_s=1.0), faults)


ENGINE_MUTANTS = (
    Mutant("receipt before fsync", 20, 4, False, EngineOverrides(files=UnsyncedFiles)),
    Mutant("cursor snapshot before the ack", 20, 1, False, EngineOverrides(ledgers=OverstatingLedgers)),
    Mutant("deduplication snapshot skipped", 40, 28, False, patches=_forgetful_dedup),
    Mutant("fence ignored", 20, 18, True, patches=_unfenced, provoke=_two_owners, brokers=2),
    Mutant("torn tail trusted", 10, 1, False, patches=_trusting, provoke=_torn_writes),
    Mutant("watch event lost without resync", 30, 18, True, EngineOverrides(metadata=EventDroppingStore)),
    Mutant("permit leak", 10, 1, False, patches=_leaking),
    Mutant("redelivery forgotten", 20, 1, False, patches=_forgotten_redelivery),
    Mutant("old owner still acknowledging", 20, 5, True, patches=_old_owner, provoke=_two_owners, brokers=2),
    Mutant("a jump of the clock makes plain topics old", 10, 3, True, patches=_gullible, provoke=_wrong_clocks),
    Mutant("unknown compare-and-set taken as failure", 20, 0, True, patches=_hasty_judge, provoke=_lost_answers),
)
