"""Versions of our own engines and deciders that are wrong on purpose, each in one way: worlds must catch every one.

Given to a world as parts, or put in the place of one function while a world runs; the product has no switch for any of
them. What is not lied about is the real thing.
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
    Kind,
)
from simulation.mutants.lying_stores import Forgetting, Overstated
from simulation.stores.ledger_memory import Stored
from simulation.stores.ledgers import MemoryLedgers, MemoryWriter
from simulation.world.cluster import ClusterWorld
from simulation.world.config import (
    CONSUMERS,
    DAY_MINUTES,
    Shape,
    shape,
)
from simulation.world.outcome import Parts

Patch = tuple[Any, str, Any]
PROVOKED_TIMES = 4  # that each is added, to each broker where that matters


@dataclass(frozen=True, slots=True)
class Mutant:
    """`shared`: which worlds it lives in, those on shared stores or those on one disk. `seeds`: within so many of them
    it must be caught. `near`: a seed that catches it, so that a short test can begin there. `provoked`: its
    worlds meet more of what its safeguard is for."""

    name: str
    seeds: int
    near: int
    shared: bool
    parts: Parts = field(default_factory=Parts)
    patches: Callable[[], list[Patch]] = list
    provoked: Callable[[Shape, random.Random], Shape] | None = None
    brokers: int = 1  # at least
    scalable: bool = False  # its worlds have scalable topics; else plain ones

    def shape(self, seed: int) -> Shape | None:
        """The world of a seed in which it lives; None: it does not."""
        found = shape(seed)
        if found.shared != self.shared or len(found.brokers) < self.brokers:
            return None
        if (found.scale is not None) != self.scalable:
            return None
        if self.provoked is None:
            return found
        made = self.provoked(found, random.Random(f"{seed}:{self.name}"))
        return made if made.topics else None

    def caught(self, seed: int) -> list[str] | None:
        """What its world finds; None: it does not live there."""
        world = self.shape(seed)
        if world is None:
            return None
        with self.loose():
            return ClusterWorld(world, self.parts).run().findings

    def blamed(self, seed: int) -> bool:
        """Whether the same world is clean without it."""
        world = self.shape(seed)
        return world is not None and not ClusterWorld(world).run().findings

    def hunt(self, first: int) -> tuple[int, int]:
        """The first seed from there on that catches it, and how many worlds were tried. LookupError: none did."""
        tried, seed = 0, first
        while tried < self.seeds:
            found = self.caught(seed)
            tried += found is not None
            if found:
                return seed, tried
            seed += 1
        raise LookupError(f"{self.name}: not caught by {tried} worlds from seed {first} on")

    @contextmanager
    def loose(self) -> Iterator[None]:
        # Worlds must find it by what their clients see, so the machines do not check themselves.
        patches = [patch.object(*each) for each in [*self.patches(), (validation, "enabled", False)]]
        for each in patches:
            each.start()
        try:
            yield
        finally:
            for each in reversed(patches):
                each.stop()


# Engines


def _unfenced() -> list[Patch]:
    """A recovery that lets the old writer go on: both write, and the new owner knows only what was there."""

    def fence(self: MemoryWriter, by: MemoryLedgers) -> None:
        pass

    def land(self: Any, run: Run) -> None:
        self.entries += [bytes(run.entry(index)) for index in range(len(run))]
        self.counts += run.counts

    return [(MemoryWriter, "fence", fence), (Stored, "land", land)]


class Deaf:
    """A metadata store that drops events and never says so."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._chance = random.Random(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def subscribe(self, prefix: str, heard: Callable[[Event], None]) -> Unsubscribe:
        return self._store.subscribe(prefix, lambda event: None if self._chance.random() < 0.5 else heard(event))


def _trusting() -> list[Patch]:
    """A scan of the journal that takes every record with a header for whole."""
    return [(scan, "sound", lambda buffer, at, record: at + record.size <= len(buffer))]


# Deciders and actors


def _forgetful_dedup() -> list[Patch]:
    async def replay(self: DedupSnapshots) -> None:
        """What was stored behind the snapshot is not read again."""

    return [(DedupSnapshots, "_replay", replay)]


def _leaking() -> list[Patch]:
    """Of the permits that a client grants, some are lost on the way."""

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
    """Who is fenced answers as if it were not."""

    def done(self: Publication, run: Run, error: MagnetarError | None) -> None:
        real(self, run, None if isinstance(error, Fenced) else error)

    real = Publication.done
    return [(Publication, "done", done)]


def _hasty_judge() -> list[Patch]:
    """A compare-and-set without an answer is taken for one that did not happen."""

    async def put(store: MetadataStore, path: str, value: bytes, *, expected: int, ephemeral: bool = False) -> Any:
        try:
            return await store.put(path, value, expected=expected, ephemeral=ephemeral)
        except Unknown as error:
            raise NotReady("taken for one that did not happen", path=path) from error

    return [(room, "put_checked", put) for room in (ledger_record, snapshots, cache)]


def _gullible() -> list[Patch]:
    """The time that ages are measured by is whatever the wall clock says."""

    def read(self: SteadyClock, wall_ms: int, now_s: float) -> int:
        self.trusted = True
        return wall_ms

    return [(SteadyClock, "read", read)]


# Faults that a safeguard is for


def _with(world: Shape, more: list[Fault]) -> Shape:
    return replace(world, faults=tuple(sorted([*world.faults, *more], key=lambda fault: fault.at_s)))


def _two_owners(world: Shape, rng: random.Random) -> Shape:
    """A session ends and its broker does not know; consumers must look the topic up while producers go on with it."""
    more = [
        Fault(rng.uniform(CALM_S, world.chaos_s), Kind.ESTRANGE, (broker, CONSUMERS), for_s=rng.uniform(0.02, 0.2))
        for broker in world.brokers * PROVOKED_TIMES
    ]
    return _with(world, more)


def _torn_writes(world: Shape, rng: random.Random) -> Shape:
    more = [
        Fault(rng.uniform(CALM_S, world.chaos_s), Kind.TEAR, world.brokers, for_s=0.2, amount=float(rng.randint(1, 3)))
        for _ in range(PROVOKED_TIMES)
    ]
    return _with(world, more)


def _lost_answers(world: Shape, rng: random.Random) -> Shape:
    """Of the metadata store, to writes that happened; and ledgers that roll all the time."""
    settings = {**world.settings, "managedLedgerMaxEntriesPerLedger": "5"}
    return replace(world, nasty={**world.nasty, "lost_applied": 0.1}, settings=settings)


def _wrong_clocks(world: Shape, rng: random.Random) -> Shape:
    """Topics that keep a day, and clocks that are two days ahead for some seconds: nothing else happens."""
    faults = [
        Fault(at_s, Kind.JUMP, (broker,), amount=amount)
        for broker in world.brokers
        for at_s, amount in ((rng.uniform(2.0, 4.0), DAYS_S), (11.0, -DAYS_S))
    ]
    calm = replace(world, faults=(), nasty={}, ledgers={}, chaos_s=14.0)
    return _with(replace(calm, kept_minutes=DAY_MINUTES, clock_trusted_s=1.0), faults)


MUTANTS = (
    Mutant("receipt before fsync", 20, 4, False, Parts(files=Forgetting)),
    Mutant("cursor snapshot before the ack", 20, 1, False, Parts(ledgers=Overstated)),
    Mutant("deduplication snapshot skipped", 40, 28, False, patches=_forgetful_dedup),
    Mutant("fence ignored", 20, 18, True, patches=_unfenced, provoked=_two_owners, brokers=2),
    Mutant("torn tail trusted", 10, 1, False, patches=_trusting, provoked=_torn_writes),
    Mutant("watch event lost without resync", 30, 18, True, Parts(metadata=Deaf)),
    Mutant("permit leak", 10, 1, False, patches=_leaking),
    Mutant("redelivery forgotten", 20, 1, False, patches=_forgotten_redelivery),
    Mutant("old owner still acknowledging", 20, 5, True, patches=_old_owner, provoked=_two_owners, brokers=2),
    Mutant("a jump of the clock makes plain topics old", 10, 3, True, patches=_gullible, provoked=_wrong_clocks),
    Mutant("unknown compare-and-set taken as failure", 20, 0, True, patches=_hasty_judge, provoked=_lost_answers),
)
