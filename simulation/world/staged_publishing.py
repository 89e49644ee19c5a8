"""Worlds of staged publishing: brokers that fail while they publish, a target that is split and merged, drivers that
give up and run a batch again with other tasks, tasks that run twice.

`StageWorld` has one broker on its own disk, which loses power. `ClusterStageWorld` has three on shared stores: they are
killed, and they lose their sessions, so that another broker finishes what one began. `check_rows` checks that each row
of each batch is stored once, and that the rows of a key are in the order of their tasks and batches.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from magnetar import InitialPosition
from magnetar.aio import Client
from magnetar.base.errors import AlreadyExists, Conflict, MagnetarError, Unavailable, Unknown
from magnetar.base.names import topic_name
from magnetar.broker.node import Node
from magnetar.client.staged_sink import Stage, StagedSink
from magnetar.ledger.local.engine import LocalLedgers
from magnetar.policy.settings import Settings
from simulation.environment.host import Host
from simulation.environment.isolation import isolated
from simulation.environment.loop import VirtualLoop
from simulation.environment.network import Network
from simulation.environment.peer_http import HttpServer, SimulatedPeers
from simulation.environment.random_streams import RandomStreams
from simulation.environment.runtime import SimulatedRuntime
from simulation.stores.ledger_memory import LedgerFaultRates
from simulation.stores.ledgers import MemoryLedgers
from simulation.stores.metadata import MemoryStore, StoreContent, Versions
from simulation.stores.metadata_faults import FaultRates

PORT, HTTP_PORT = 6650, 8080
SESSION_S = 4.0
SECRET = {"brokerClientAuthenticationParameters": "token:shared by the brokers of this world"}
TARGET = topic_name("topic://public/default/rows")
BATCHES, ROWS, KEYS = 5, 60, 7
KEPT = {"defaultRetentionTimeInMinutes": "-1", "defaultRetentionSizeInMB": "-1"}
CRASHES_MAX = 25
DANGEROUS = ("stage.begun", "stage.publishing", "stage.committed", "takeover.won")  # marks of the broker
RESTART_S = 0.3  # a broker that could not start
LOST_S = 30.0  # a driver waits so long for an attempt, then begins another


@dataclass
class StageEvents:
    """What happened in a world, so that a test can check that the faults occurred."""

    rows: list[tuple[str, str]]
    crashes: int = 0
    sessions_lost: int = 0
    reshapes: int = 0
    attempts: int = 0
    publishers: set[str] = field(default_factory=set)  # brokers that published for the sink
    left: int = 0  # stage topics at the end


class StageWorld:
    names: tuple[str, ...] = ("broker",)

    def __init__(self, seed: int) -> None:
        self.streams = RandomStreams(seed)
        self.chance = random.Random(seed)
        self.loop = VirtualLoop(seed=seed)
        self.network = Network(self.loop, self.streams)
        self.brokers = {
            name: Host(name, self.loop, self.network, self.streams, on_mark=self._marked) for name in self.names
        }
        self.spark = Host("spark", self.loop, self.network, self.streams)
        self.store = MemoryStore()
        self.nodes: dict[str, Node] = {}
        self.seen = StageEvents([])
        self.calm = False  # nothing breaks any more

    def run(self) -> StageEvents:
        async def whole() -> None:
            for name in self.names:
                self._start(name)
            await self.spark.run(self._write)

        with isolated(self.loop):
            try:
                self.loop.run_until_complete(whole())
            finally:
                self.loop.close_everything()
        assert not self.loop.errors, self.loop.errors
        for node in self.nodes.values():
            assert not node.metrics.task_failures.value + node.metrics.request_failures.value, node
        return self.seen

    # The brokers, and what happens to them

    def _start(self, name: str) -> None:
        self._bury(name)
        self.brokers[name].run(partial(self._serve, name))

    def _bury(self, name: str) -> None:
        self.nodes.pop(name, None)

    async def _serve(self, name: str, runtime: SimulatedRuntime) -> None:
        try:
            node = self.nodes[name] = await self._open(name, runtime)
            if await node.scalable.read(TARGET) is None:
                with suppress(AlreadyExists, Conflict):  # another broker creates it
                    await node.scalable.create(TARGET, segments=2)
        except (Unavailable, Unknown):  # the store is away
            self.loop.call_later(RESTART_S, self._start, name, context=self.loop.outside)
            return
        await self._reshape(node)

    async def _open(self, name: str, runtime: SimulatedRuntime) -> Node:
        ledgers = await LocalLedgers.start("/data/ledgers", runtime, self.store, segment_bytes=8 * 1024)
        node = Node(runtime=runtime, metadata=self.store, ledgers=ledgers, settings=Settings(None, KEPT))
        ledgers.journal.on_failure.append(node.fail)
        await node.start("0.0.0.0", PORT, host_shown=name)
        await node.serve(HTTP_PORT)
        return node

    async def _reshape(self, node: Node) -> None:
        """Splits and merges during this run of the broker."""
        while True:
            await asyncio.sleep(self.chance.uniform(0.5, 3.0))
            try:
                record = await node.scalable.read(TARGET)
                active = [] if record is None else list(record.layout.active)
                if len(active) > 2 and self.chance.random() < 0.5:
                    lower = self.chance.randrange(len(active) - 1)
                    await node.scalable.merge(TARGET, [one.id for one in active[lower : lower + 2]])
                elif 0 < len(active) < 5:
                    await node.scalable.split(TARGET, self.chance.choice(active).id)
            except MagnetarError:
                continue
            self.seen.reshapes += 1

    def _marked(self, host: Host, name: str, facts: dict[str, object]) -> None:
        """Injects a fault at a moment when data can be lost."""
        if name == "stage.publishing":
            self.seen.publishers.add(host.name)
        if name in DANGEROUS and self.chance.random() < 0.4:
            self.loop.call_later(self.chance.uniform(0.0, 0.08), self._strike, host, context=self.loop.outside)

    def _strike(self, host: Host) -> None:
        if self.calm or not host.alive or self.seen.crashes >= CRASHES_MAX:
            return
        host.crash() if self.chance.random() < 0.5 else host.kill()
        self.store = self.store.reopen()
        self._restart_later(host)

    def _restart_later(self, host: Host) -> None:
        self.seen.crashes += 1
        self.loop.call_later(self.chance.uniform(0.1, 1.0), self._start, host.name, context=self.loop.outside)

    # The query

    async def _write(self, runtime: SimulatedRuntime) -> None:
        url = "pulsar://" + ",".join(f"{name}:{PORT}" for name in self.names)
        async with Client(url, runtime=runtime) as client:
            for batch in range(BATCHES):
                while not await self._attempt(client, batch):
                    pass
            sink = StagedSink(client, str(TARGET), "query")
            while not await sink.published(BATCHES - 1):
                pass
            self.calm = True
            await self._read(client)
            self.seen.left = await self._stages_left()

    async def _stages_left(self) -> int:
        while True:
            try:
                for node in self.nodes.values():
                    names = [name async for name in node.catalogue.topics(TARGET.namespace, stages=True)]
                    return sum("__stage" in name for name in names)
            except MagnetarError:
                pass  # the last fault
            await asyncio.sleep(1.0)

    async def _attempt(self, client: Client, batch: int) -> bool:
        """One run of a batch, with tasks of its own; False: the driver runs it again."""
        self.seen.attempts += 1
        tasks = self.chance.randrange(1, 4)
        parts = [[row for row in range(ROWS) if row % KEYS % tasks == task] for task in range(tasks)]
        sink = StagedSink(client, str(TARGET), "query", run=str(self.seen.attempts))
        twice = [task for task in range(tasks) if self.chance.random() < 0.3]
        try:
            async with asyncio.timeout(LOST_S):
                done = await asyncio.gather(*(self._task(sink, batch, parts[task]) for task in [*range(tasks), *twice]))
                stages = [stage.id for stage in done[:tasks] if stage is not None]
                if self.chance.random() < 0.2:
                    return False  # the driver dies here: no abort
                await sink.commit(batch, stages, timeout_s=LOST_S)
        except (MagnetarError, TimeoutError):
            return False
        if self.chance.random() < 0.3:
            await sink.forget(stages)  # an abort that comes after the commit
            return False  # and the batch is run again: it finds that there is nothing to do
        return True

    async def _task(self, sink: StagedSink, batch: int, rows: list[int]) -> Stage | None:
        stage = await sink.begin(batch)
        if stage is None:
            return None
        for row in rows:
            await stage.producer.post(b"%d:%d" % (batch, row), key=f"k{row % KEYS}")
            if self.chance.random() < 0.05:
                await asyncio.sleep(self.chance.uniform(0.0, 0.5))
        assert await stage.seal() == len(rows)
        return stage

    async def _read(self, client: Client) -> None:
        """What is stored: what a reshape makes come again has the place that it had."""
        consumer = await client.stream_consumer(str(TARGET), "check", initial_position=InitialPosition.EARLIEST)
        rows: dict[tuple[int, ...], tuple[str, str]] = {}
        try:
            while True:
                message = await consumer.receive(120.0 if len(rows) < BATCHES * ROWS else 20.0)
                at = message.id
                place = (at.segment, at.ledger, at.entry, at.batch_index)
                rows.setdefault(place, (message.key or "", message.data.decode()))
                await consumer.acknowledge_cumulative(message)
        except MagnetarError:
            await consumer.close()
        self.seen.rows = list(rows.values())


class ClusterStageWorld(StageWorld):
    """Three brokers on shared stores. In half of the worlds the store counts versions per node, as ZooKeeper does, and
    a recovery of a ledger may keep a part of a run."""

    names = ("b0", "b1", "b2")

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        like_engines = seed % 2 == 1
        self.store = MemoryStore(
            content=StoreContent(versions=Versions.PER_NODE if like_engines else Versions.UNIQUE),
            fault_rates=FaultRates(session_s=SESSION_S),
            rng=self.streams.fork("faults", "store"),
        )
        self.ledgers = MemoryLedgers(
            fault_rates=LedgerFaultRates(half_run=0.5 if like_engines else 0.0),
            rng=self.streams.fork("faults", "ledgers"),
        )
        self.sessions: dict[str, MemoryStore] = {}
        self.handles: dict[str, MemoryLedgers] = {}

    async def _open(self, name: str, runtime: SimulatedRuntime) -> Node:
        metadata = self.sessions[name] = self.store.peer(runtime)
        ledgers = self.handles[name] = self.ledgers.peer()
        peers = SimulatedPeers()
        settings = Settings(None, {**KEPT, **SECRET})
        node = Node(runtime=runtime, metadata=metadata, ledgers=ledgers, settings=settings, cluster=True, carrier=peers)
        peers.serve(node)
        await node.start(name, PORT, host_shown=name)
        await HttpServer(node).start(name, HTTP_PORT)
        await node.serve(HTTP_PORT)
        return node

    def _strike(self, host: Host) -> None:
        if self.calm or not host.alive or host.name not in self.nodes:
            return
        if self.chance.random() < 0.4:
            self.seen.sessions_lost += 1
            self.sessions[host.name].expire(noticed=self.chance.random() < 0.5)
        elif self.seen.crashes < CRASHES_MAX:
            host.kill()
            self._bury(host.name)
            self._restart_later(host)

    def _bury(self, name: str) -> None:
        """Ends the store sessions and ledger handles of a dead process."""
        super()._bury(name)
        if name in self.sessions:
            self.sessions.pop(name).crash()
            self.handles.pop(name).crash(landed=None)


def check_rows(seen: StageEvents) -> None:
    expected = sorted(f"{batch}:{row}" for batch in range(BATCHES) for row in range(ROWS))
    assert sorted(value for _, value in seen.rows) == expected
    by_key: dict[str, list[tuple[int, ...]]] = defaultdict(list)
    for key, value in seen.rows:
        by_key[key].append(tuple(map(int, value.split(":"))))
    for key, rows in by_key.items():
        assert rows == sorted(rows), f"{key} is out of order"
