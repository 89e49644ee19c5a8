"""A world of staged publishing: a broker that loses power while it publishes, a target that is split and merged,
drivers that give up and run a batch again with other tasks, tasks that run twice.

`check_rows` checks that each row of each batch is stored once, and that the rows of a key are in the order of their
tasks and batches.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from dataclasses import dataclass

from magnetar import InitialPosition
from magnetar.aio import Client
from magnetar.base.errors import MagnetarError
from magnetar.base.names import topic_name
from magnetar.broker.node import Node
from magnetar.client.staged_sink import Stage, StagedSink
from magnetar.ledger.local.engine import LocalLedgers
from magnetar.policy.settings import Settings
from simulation.environment.host import Host
from simulation.environment.isolation import isolated
from simulation.environment.loop import VirtualLoop
from simulation.environment.network import Network
from simulation.environment.random_streams import RandomStreams
from simulation.environment.runtime import SimulatedRuntime
from simulation.stores.metadata import MemoryStore

PORT = 6650
TARGET = topic_name("topic://public/default/rows")
BATCHES, ROWS, KEYS = 5, 60, 7
KEPT = {"defaultRetentionTimeInMinutes": "-1", "defaultRetentionSizeInMB": "-1"}
CRASHES_MAX = 25
DANGEROUS = ("stage.begun", "stage.publishing", "stage.committed", "takeover.won")  # marks of the broker
LOST_S = 30.0  # a driver waits so long for an attempt, then begins another


@dataclass
class StageEvents:
    """What happened in a world, so that a test can check that the faults occurred."""

    rows: list[tuple[str, str]]
    crashes: int = 0
    reshapes: int = 0
    attempts: int = 0
    left: int = 0  # stage topics at the end


class StageWorld:
    def __init__(self, seed: int) -> None:
        self.streams = RandomStreams(seed)
        self.chance = random.Random(seed)
        self.loop = VirtualLoop(seed=seed)
        self.network = Network(self.loop, self.streams)
        self.broker = Host("broker", self.loop, self.network, self.streams, on_mark=self._marked)
        self.spark = Host("spark", self.loop, self.network, self.streams)
        self.store = MemoryStore()
        self.node: Node | None = None
        self.seen = StageEvents([])
        self.calm = False  # nothing breaks any more

    def run(self) -> StageEvents:
        async def whole() -> None:
            self.broker.run(self._serve)
            await self.spark.run(self._write)

        with isolated(self.loop):
            try:
                self.loop.run_until_complete(whole())
            finally:
                self.loop.close_everything()
        assert not self.loop.errors, self.loop.errors
        return self.seen

    # The broker, and what happens to it

    async def _serve(self, runtime: SimulatedRuntime) -> None:
        ledgers = await LocalLedgers.start("/data/ledgers", runtime, self.store, segment_bytes=8 * 1024)
        node = self.node = Node(runtime=runtime, metadata=self.store, ledgers=ledgers, settings=Settings(None, KEPT))
        ledgers.journal.on_failure.append(node.fail)
        await node.start("0.0.0.0", PORT, host_shown="broker")
        await node.serve(8080)
        if await node.scalable.read(TARGET) is None:
            await node.scalable.create(TARGET, segments=2)
        await self._reshape(node)

    async def _reshape(self, node: Node) -> None:
        """Splits and merges during this run of the broker."""
        while True:
            await asyncio.sleep(self.chance.uniform(0.5, 3.0))
            record = await node.scalable.read(TARGET)
            active = [] if record is None else list(record.layout.active)
            try:
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
        if (
            name in ("stage.begun", "stage.publishing", "stage.committed", "takeover.won")
            and self.chance.random() < 0.4
        ):
            self.loop.call_later(self.chance.uniform(0.0, 0.08), self._strike, context=self.loop.outside)

    def _strike(self) -> None:
        if self.calm or not self.broker.alive or self.seen.crashes >= CRASHES_MAX:
            return
        self.broker.crash() if self.chance.random() < 0.5 else self.broker.kill()
        self.store = self.store.reopen()
        self.seen.crashes += 1
        self.loop.call_later(self.chance.uniform(0.1, 1.0), self._again, context=self.loop.outside)

    def _again(self) -> None:
        self.broker.run(self._serve)

    # The query

    async def _write(self, runtime: SimulatedRuntime) -> None:
        async with Client(f"pulsar://broker:{PORT}", runtime=runtime) as client:
            for batch in range(BATCHES):
                while not await self._attempt(client, batch):
                    pass
            sink = StagedSink(client, str(TARGET), "query")
            while not await sink.published(BATCHES - 1):
                pass
            self.calm = True
            await self._read(client)
            assert self.node is not None
            self.seen.left = len(
                [name async for name in self.node.catalogue.topics(TARGET.namespace, stages=True) if "__stage" in name]
            )

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


def check_rows(seen: StageEvents) -> None:
    expected = sorted(f"{batch}:{row}" for batch in range(BATCHES) for row in range(ROWS))
    assert sorted(value for _, value in seen.rows) == expected
    by_key: dict[str, list[tuple[int, ...]]] = defaultdict(list)
    for key, value in seen.rows:
        by_key[key].append(tuple(map(int, value.split(":"))))
    for key, rows in by_key.items():
        assert rows == sorted(rows), f"{key} is out of order"
