"""What one world consists of: brokers, stores, topics, clients and faults, all drawn from its seed before it runs.

A configuration holds values only; `simulation/world/cluster.py` runs it. Worlds are small on purpose: few keys, a short
time of faults, small ledgers that roll over often. Many seeds fit in a minute, and each meets many edge cases.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from simulation.environment.random_streams import RandomStreams
from simulation.faults import plan as fault_plan
from simulation.faults.plan import Fault, FaultTargets
from simulation.world import scalable, variants
from simulation.world.scalable import ScalablePlan
from simulation.world.workload import (
    CHECKPOINT,
    GROUP,
    TopicPlan,
    draw_topics,
)

KEPT, ONCE = "public/kept", "public/once"  # namespaces: without and with deduplication, both keep everything
LEFT = "public/left"  # has no policy: what the product keeps by default
GONE = "public/gone"  # keeps nothing that all subscriptions have acknowledged
PRODUCERS, CONSUMERS = "producers", "consumers"  # the hosts of the clients
OTHERS = "others"  # more consumers: one host dies and the other does not
SESSION_S = 4.0
HALF_RUNS = 0.5  # of the worlds with shared stores
COUNTED = 0.3  # of the worlds on shared stores
MORE_BROKERS = 0.3  # of the worlds with three brokers
DAY_MINUTES = 24 * 60


MESSAGE_BYTES = {"maxMessageSize": "600"}  # in worlds with chunks: large messages of theirs have about four


@dataclass(frozen=True, slots=True)
class WorldConfig:
    seed: int
    brokers: tuple[str, ...]
    shared: bool  # brokers on shared stores; else one broker on its own disk
    chaos_s: float
    settings: Mapping[str, str]
    topics: tuple[TopicPlan, ...]
    faults: tuple[Fault, ...]
    store_fault_rates: Mapping[str, float] = field(default_factory=dict)  # of the metadata store, while chaos lasts
    ledger_fault_rates: Mapping[str, float] = field(default_factory=dict)  # of the ledger store, the same
    flips: bool = False  # a power cut may leave wrong bits in what was not synced
    session_s: float = SESSION_S
    counts_per_node: bool = False  # the metadata store counts versions as ZooKeeper does (H-C6)
    gathers: bool = False  # one more consumer takes all topics together
    steward_s: float = 1.0  # between two deeds of the operator, on average
    scale: ScalablePlan | None = None  # its topics are scalable
    kept_minutes: int = -1  # what topics that keep everything have as their retention; no world lasts so long
    clock_trusted_s: float = 0.0  # brokers trust their clocks after so long; 0: as it is
    chunked_bytes: int = 0  # of a message, and of the incomplete messages of a consumer; 0: the real limit

    @property
    def clients(self) -> tuple[str, ...]:
        """The hosts of its clients."""
        return (CONSUMERS, PRODUCERS) if self.scale is None else (CONSUMERS, OTHERS, PRODUCERS)

    def without(self, *gone: int) -> WorldConfig:
        """The same world without some of its faults, to reduce a failing one."""
        return replace(self, faults=tuple(fault for place, fault in enumerate(self.faults) if place not in gone))

    def rows(self) -> list[str]:
        """For people."""
        stores = "shared stores" if self.shared else "a disk of its own"
        lines = [f"seed {self.seed}: {len(self.brokers)} broker(s) on {stores}, {self.chaos_s:.1f} s of chaos"]
        lines += [f"  {key}={value}" for key, value in sorted(self.settings.items())]
        lines += [f"  store {key}={value:g}" for key, value in sorted(self.store_fault_rates.items())]
        lines += [f"  ledgers {key}={value:g}" for key, value in sorted(self.ledger_fault_rates.items())]
        if self.counts_per_node:
            lines.append("  store versions per node")
        for topic in self.topics:
            who = ", ".join(producer.name for producer in topic.producers)
            plain = f", plain at first, {topic.partitions} partitions" if topic.regular else ""
            lines.append(f"  {topic.topic}: {who}{plain}")
            lines += [f"    {plan.name}: {plan.type}, {plan.consumers} consumer(s)" for plan in topic.subscriptions]
        if self.gathers:
            lines.append("  all: Shared, one consumer of every topic")
        if self.scale is not None:
            lines.append(f"  {self.scale}")
        return lines + [f"  {fault}" for fault in self.faults]


def host_part(topic: TopicPlan, host: str, hosts: Sequence[str]) -> TopicPlan:
    """The clients of one host for a topic. Two hosts for consumers have about half of them each."""
    if host == PRODUCERS:
        return replace(topic, subscriptions=())
    if OTHERS not in hosts:
        return replace(topic, producers=())
    parts = []
    for plan in topic.subscriptions:
        here = (plan.consumers + 1) // 2
        first, count = (0, here) if host == CONSUMERS else (here, plan.consumers - here)
        parts.append(replace(plan, first=first, consumers=count))
    return replace(topic, producers=(), subscriptions=tuple(parts))


def world_config(seed: int) -> WorldConfig:
    streams = RandomStreams(seed)
    world = _scalable(seed, streams) if scalable.is_scalable(streams) else _plain(seed, streams)
    if not world.shared:
        return world
    world = cutting_runs(world, streams.fork("faults", "half runs"))
    return with_more_brokers(world, streams.fork("faults", "other brokers"))


def with_more_brokers(world: WorldConfig, chance: random.Random) -> WorldConfig:
    """Some of the worlds with three brokers have four or five. The faults of the first three stay the same."""
    if len(world.brokers) < 3 or chance.random() >= MORE_BROKERS:
        return world
    more = tuple(f"b{number}" for number in range(3, chance.choice((4, 5))))
    place = FaultTargets(more, world.clients, world.shared, SESSION_S, peers=world.scale is not None)
    faults = (*world.faults, *fault_plan.draw_faults(place, world.chaos_s, chance))
    in_order = tuple(sorted(faults, key=lambda fault: fault.at_s))
    return replace(world, brokers=(*world.brokers, *more), faults=in_order)


def cutting_runs(world: WorldConfig, chance: random.Random) -> WorldConfig:
    """In half of the worlds with shared stores a recovery may keep the first entries of a run alone, as bookies do."""
    if chance.random() >= HALF_RUNS:
        return world
    return replace(world, ledger_fault_rates={**world.ledger_fault_rates, "half_run": chance.choice((0.3, 0.8))})


def _scalable(seed: int, streams: RandomStreams) -> WorldConfig:
    rng = streams.fork("faults", "shape")
    shared = rng.random() < 0.75
    brokers = tuple(f"b{number}" for number in range(rng.choice((1, 2, 3, 3)) if shared else 1))
    chaos_s = rng.uniform(4.0, 9.0)
    place = FaultTargets(brokers, (PRODUCERS, CONSUMERS, OTHERS), shared, SESSION_S, peers=True)
    kept = [f"topic://{KEPT}/s0"] if rng.random() < 0.5 else []
    kept = variants.move_to_default_retention(streams.fork("workload", "left"), kept, KEPT, LEFT)
    once = [f"topic://{ONCE}/s1"] if not kept or rng.random() < 0.3 else []
    plan, topics = scalable.draw_scalable(streams.fork("workload", "plans"), kept=kept, once=once)
    topics = variants.add_consumer_kinds(streams.fork("workload", "ways"), topics)
    topics = scalable.add_consumers(streams.fork("workload", "sharers"), topics)
    held = scalable.unretained_topic(streams.fork("workload", "held plan"), f"topic://{GONE}/held")
    topics = variants.add_seeks_to_beginning(streams.fork("workload", "moved"), topics)
    topics = variants.add_batch_reader(streams.fork("workload", "batches"), topics, held)
    topics = variants.add_seeks(streams.fork("workload", "seeks"), topics)
    topics = variants.remove_keys(streams.fork("workload", "keyless"), topics)
    topics = variants.add_migration(streams.fork("workload", "migrations"), topics)
    topics = tuple(replace(one, topic=one.topic.replace(LEFT, KEPT)) if one.regular else one for one in topics)
    topics = variants.add_churn(streams.fork("workload", "restless"), topics)
    topics = variants.add_dead_letters(streams.fork("workload", "buried"), topics)
    topics = variants.add_work(streams.fork("workload", "working"), topics)
    topics = variants.add_quiet_groups(streams.fork("workload", "quiet topics"), topics)
    topics = variants.add_late_acks(streams.fork("workload", "late acknowledgements"), topics)
    topics = variants.add_many_subscriptions(streams.fork("workload", "many subscriptions"), topics)
    config = WorldConfig(
        seed,
        brokers,
        shared,
        chaos_s,
        {**_settings(rng), **scalable.settings(rng)},
        topics,
        fault_plan.draw_faults(place, chaos_s, streams.fork("faults", "plan")),
        _store_fault_rates(rng) if shared else {},
        _ledger_fault_rates(rng) if shared else {},
        flips=rng.random() < 0.5,
        counts_per_node=shared and streams.fork("faults", "versions").random() < COUNTED,
        scale=plan,
    )
    lapses = streams.fork("workload", "lapses")
    if lapses.random() < variants.LAPSED:
        config = lapsing(config, lapses)
    config = chunking(config, streams.fork("workload", "chunks"), streams.fork("workload", "cramped"))
    return mixing(config, streams.fork("workload", "chunk halves")) if "maxMessageSize" in config.settings else config


def chunking(world: WorldConfig, chance: random.Random, apart: random.Random) -> WorldConfig:
    """In some worlds brokers take small messages only, and large ones come in chunks."""
    topics = variants.add_chunks(chance, world.topics)
    if topics is world.topics:
        return world
    return replace(
        world, topics=variants.limit_pending_chunks(apart, topics), settings={**world.settings, **MESSAGE_BYTES}
    )


def mixing(world: WorldConfig, chance: random.Random) -> WorldConfig:
    """Half of the worlds with chunks mix the chunks of several messages, and have some messages larger than any
    consumer assembles. Checkpoint readers end where the room ends: they have what they need."""
    if chance.random() >= variants.MIXED or any(topic.regular for topic in world.topics):
        return world
    topics = tuple(variants.with_mixed(topic) for topic in world.topics)
    if any(plan.type in (CHECKPOINT, GROUP) for topic in topics for plan in topic.subscriptions):
        return replace(world, topics=topics)
    topics = tuple(variants.with_oversized(topic) for topic in topics)
    return replace(world, topics=topics, chunked_bytes=variants.CHUNKED_BYTES)


def lapsing(world: WorldConfig, chance: random.Random) -> WorldConfig:
    """The same brokers and faults in a longer world, in which little happens and a hold expires."""
    assert world.scale is not None
    chaos_s = chance.uniform(*variants.LAPSE_S)
    longer = chaos_s / world.chaos_s
    return replace(
        world,
        chaos_s=chaos_s,
        settings={**world.settings, "managedLedgerMaxEntriesPerLedger": "5"},
        topics=(variants.with_lapses(chance, scalable.unretained_topic(chance, f"topic://{GONE}/lapsing")),),
        faults=tuple(replace(fault, at_s=fault.at_s * longer) for fault in world.faults),
        scale=replace(world.scale, reshape_s=world.scale.reshape_s * longer),
    )


def _plain(seed: int, streams: RandomStreams) -> WorldConfig:
    rng = streams.fork("faults", "shape")
    shared = rng.random() < 0.6
    brokers = tuple(f"b{number}" for number in range(rng.choice((1, 2, 3, 3)) if shared else 1))
    chaos_s = rng.uniform(4.0, 10.0)
    place = FaultTargets(brokers, (PRODUCERS, CONSUMERS), shared, SESSION_S)
    plain = [f"persistent://{KEPT}/t{number}" for number in range(rng.randint(0, 2))]
    gone = [f"persistent://{GONE}/g0"] if rng.random() < 0.4 else []
    once = [f"persistent://{ONCE}/d{number}" for number in range(rng.randint(0 if plain or gone else 1, 2))]
    return WorldConfig(
        seed,
        brokers,
        shared,
        chaos_s,
        _settings(rng),
        tuple(draw_topics(streams.fork("workload", "plans"), plain=plain, once=once, gone=gone)),
        fault_plan.draw_faults(place, chaos_s, streams.fork("faults", "plan")),
        _store_fault_rates(rng) if shared else {},
        _ledger_fault_rates(rng) if shared else {},
        flips=rng.random() < 0.5,
        counts_per_node=shared and streams.fork("faults", "versions").random() < COUNTED,
        gathers=streams.fork("workload", "gatherer plan").random() < 0.3,
        steward_s=streams.fork("workload", "steward plan").choice((0.2, 1.0, 5.0)),
        kept_minutes=DAY_MINUTES if streams.fork("workload", "retention").random() < 0.3 else -1,
    )


def _settings(rng: random.Random) -> dict[str, str]:
    """Small ledgers and rare snapshots, so that rolling, trimming and replaying happen within seconds."""
    return {
        "managedLedgerMaxEntriesPerLedger": str(rng.choice((5, 20, 50_000))),
        "managedLedgerMinLedgerRolloverTimeMinutes": "0",
        "brokerDeduplicationEntriesInterval": str(rng.choice((10, 1000))),
        "keepAliveIntervalSeconds": str(rng.choice((2, 5, 30))),
        "activeConsumerFailoverDelayTimeMillis": str(rng.choice((0, 100, 1000))),
        "activeConsumerFailoverConsistentHashing": rng.choice(("true", "false")),
        "brokerMaxConnections": "200",
    }


def _store_fault_rates(rng: random.Random) -> dict[str, float]:
    rates = {"delay_s": rng.choice((0.001, 0.01, 0.05)), "watch_s": rng.choice((0.001, 0.05, 0.5))}
    for name, values in (
        ("coalesce", (0.2, 0.8)),
        ("stale", (0.05, 0.5)),
        ("lost_applied", (0.01, 0.05)),
        ("lost_dropped", (0.01, 0.05)),
        ("late", (0.2, 0.8)),
        ("disconnect", (0.002, 0.01)),
    ):
        if rng.random() < 0.3:
            rates[name] = rng.choice(values)
    return rates


def _ledger_fault_rates(rng: random.Random) -> dict[str, float]:
    rates = {"delay_s": rng.choice((0.001, 0.01)), "append_s": rng.choice((0.001, 0.02))}
    for name, values in (
        ("fail", (0.01, 0.05)),
        ("lost_landed", (0.01, 0.05)),
        ("lost_dropped", (0.01, 0.05)),
        ("slow", (0.01, 0.1)),
        ("late_ack", (0.2, 0.8)),
    ):
        if rng.random() < 0.3:
            rates[name] = rng.choice(values)
    return rates
