"""All client processes of a world: it starts them, stops the producers, settles, drains, and reads the logs.

    clients = ClientProcesses(history, chance, make_client, plans)
    clients.start()                # in the loop of the world; faults begin after that
    await clients.stop_sending()   # after healing: every producer waits for its last receipts
    await clients.settle()         # the present consumers reach the end
    await clients.drain()          # they leave; one fresh consumer for each subscription takes the rest
    await clients.read_logs()      # every topic from its beginning
    await clients.close()
    findings = check_history(history)

The method that waits for a client task raises the error of that task: it is a bug of the simulator or of the client.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from magnetar.base.errors import MagnetarError
from magnetar.client.client import Client
from simulation import history as record
from simulation.clients.batch_reader import BatchReaderProcess
from simulation.clients.checkpoint_consumer import CheckpointConsumerProcess
from simulation.clients.checkpoint_group import GroupMemberProcess
from simulation.clients.chunk_producer import ChunkProducer, Segments
from simulation.clients.consumer import ClientContext, ConsumerProcess, ReaderProcess
from simulation.clients.expiring_reader import ExpiringReaderProcess
from simulation.clients.multi_topic_consumer import ALL, MultiTopicConsumerProcess
from simulation.clients.producer import ProducerProcess
from simulation.clients.queue_consumer import QueueConsumerProcess
from simulation.clients.segment_probe import probe_segments
from simulation.clients.stream_consumer import StreamConsumerProcess
from simulation.history import INVOKE, OK, UNKNOWN, History
from simulation.world.workload import (
    BATCHES,
    CHECKPOINT,
    GROUP,
    QUEUE,
    READER,
    STREAM,
    ProducerPlan,
    SubscriptionPlan,
    TopicPlan,
)

IDLE_S = (
    75.0  # nothing for so long: it is the end. Longer than a broker takes to notice a dead client, and than back-off
)
SETTLE_S_MAX = 600.0
OPEN_TRIES_MAX = 15  # each takes as long as a client waits


class UnsettledWorld(AssertionError):
    """The world is healed but does not come to rest."""


class ClientProcesses:
    """`make_client(process)` gives each process its client: one for all, or one each on a host of its own."""

    def __init__(
        self,
        history: History,
        chance: random.Random,
        make_client: Callable[[str], Client],
        plans: Sequence[TopicPlan],
        *,
        idle_s: float = IDLE_S,
        numbers: dict[str, int] | None = None,
        gathers: bool = False,
        addresses: Sequence[tuple[str, int]] = (),
        segments: Segments = lambda topic: [],
    ) -> None:
        """`numbers` is kept after a kill: the next number of each producer. `gathers`: one consumer takes all topics.
        `addresses` of the brokers and `segments` of topics are for producers that write chunks themselves."""
        self.history = history
        self.context = ClientContext(history)
        self.plans = list(plans)
        self._chance = chance
        self._apart = random.Random(str(chance.getstate()[1][:4]))  # for what only some worlds have
        self._make_client = make_client
        self._idle_s = idle_s
        self._numbers = {} if numbers is None else numbers
        self._gathers = gathers
        self._addresses = addresses
        self._segments = segments
        self._clients: dict[int, Client] = {}
        self._producer_tasks: list[asyncio.Task[None]] = []
        self._consumer_tasks: list[asyncio.Task[None]] = []
        self._present: dict[tuple[str, str], list[ConsumerProcess]] = {}  # by topic and subscription

    def start(self) -> None:
        for topic in self.plans:
            facts: dict[str, Any] = {
                "deduplication": topic.deduplication,
                "kept": topic.kept,
                "scalable": topic.scalable,
            }
            self.history.note("world", record.TOPIC, OK, topic.topic, **facts)
            for plan in topic.subscriptions:
                for place in range(plan.first, plan.first + plan.consumers):
                    self._consumer_tasks.append(
                        self._spawn(self._run_consumer(topic, plan, f"{_short(topic)}-{plan.name}-c{place}"))
                    )
            for producer in topic.producers:
                self._producer_tasks.append(self._spawn(self._producer_process(topic, producer).run()))

        if self._gathers:
            topics = [plan.topic for plan in self.plans]
            collector = MultiTopicConsumerProcess(
                self.context, self._client("gatherer"), topics, "gatherer", self._draw()
            )
            self._consumer_tasks.append(self._spawn(collector.run()))

    async def stop_sending(self) -> None:
        self.context.sending = False
        await _ended(self._producer_tasks)

    async def settle(self) -> None:
        """Waits until no consumer gets anything more. Raises UnsettledWorld if that takes too long."""
        self.context.settling = True
        loop = asyncio.get_running_loop()
        began = loop.time()
        seen = -1
        quiet_since = began
        while loop.time() - quiet_since < self._idle_s:
            if loop.time() - began > SETTLE_S_MAX:
                raise UnsettledWorld(f"still delivering after {SETTLE_S_MAX:g} s of quiet")
            await asyncio.sleep(1.0)
            _raise_failed(self._consumer_tasks)
            # From the end back to what was looked at before: only whether anything was received matters.
            if any(line.operation in (record.RECEIVE, record.READ) for line in self.history.lines[max(seen, 0) :]):
                quiet_since = loop.time()
            seen = len(self.history.lines)
        for topic in self.plans:
            for plan in topic.subscriptions:
                if plan.type in (STREAM, QUEUE, GROUP):
                    self.history.note("world", record.SETTLE, OK, topic.topic, subscription=plan.name)
                elif plan.type not in (READER, CHECKPOINT, BATCHES):
                    present = [process.attachment for process in self._present[topic.topic, plan.name]]
                    attachments = [list(attachment) for attachment in present if attachment is not None]
                    self.history.note(
                        "world", record.SETTLE, OK, topic.topic, subscription=plan.name, attachments=attachments
                    )

    async def probe(self, actives: Callable[[str], Sequence[tuple[int, int, int]]]) -> None:
        """Every active segment of every scalable topic takes a message. `actives`: id and range of each."""
        for topic in self.plans:
            if topic.scalable:
                await probe_segments(self.history, self._client("probe"), topic, actives(topic.topic), self._numbers)

    async def leave(self) -> None:
        """Every consumer leaves and none replaces it: these processes have nothing to drain."""
        self.context.over = True
        await _ended(self._consumer_tasks)

    async def drain(self) -> None:
        """Every consumer leaves; then one fresh consumer for each subscription takes all there is."""
        self.context.over = True
        await _ended(self._consumer_tasks)
        self._consumer_tasks = [
            self._spawn(self._drain(topic, plan))
            for topic in self.plans
            for plan in (*topic.subscriptions, *([ALL] if self._gathers else []))
            if plan.type != READER
        ]
        await _ended(self._consumer_tasks)

    async def read_logs(self) -> None:
        self._consumer_tasks = [self._spawn(self._read_log(topic)) for topic in self.plans]
        await _ended(self._consumer_tasks)

    async def close(self) -> None:
        """Ends all remaining tasks immediately."""
        self.context.sending, self.context.over = False, True
        for task in (*self._producer_tasks, *self._consumer_tasks):
            task.cancel()
        await asyncio.gather(*self._producer_tasks, *self._consumer_tasks, return_exceptions=True)
        for client in self._clients.values():
            try:
                await client.close()
            except MagnetarError:
                pass  # producers that were cancelled in the middle have messages without an answer

    # Inside

    def _producer_process(self, topic: TopicPlan, plan: ProducerPlan) -> ProducerProcess | ChunkProducer:
        if not plan.mixes:
            return ProducerProcess(self.context, self._client(plan.name), topic, plan, self._draw(), self._numbers)
        chance = random.Random(self._apart.getrandbits(64))
        return ChunkProducer(self.context, self._addresses, self._segments, topic, plan, chance, self._numbers)

    def _run_consumer(self, topic: TopicPlan, plan: SubscriptionPlan, name: str) -> Coroutine[Any, Any, None]:
        process = self._make_consumer(topic, plan, name)
        self._present.setdefault((topic.topic, plan.name), []).append(process)
        return process.run()

    def _make_consumer(self, topic: TopicPlan, plan: SubscriptionPlan, name: str) -> ConsumerProcess:
        process = _kind(plan)(self.context, self._client(name), topic.topic, plan, name, self._draw(plan))
        process.address = topic.address
        return process

    async def _drain(self, topic: TopicPlan, plan: SubscriptionPlan) -> None:
        name = f"{_short(topic)}-{plan.name}-drain"
        process = self._make_consumer(topic, plan, name)
        if isinstance(process, CheckpointConsumerProcess):
            for reader in self._present[topic.topic, plan.name]:
                assert isinstance(reader, CheckpointConsumerProcess)
                if not await reader.finish(self._idle_s, OPEN_TRIES_MAX):
                    raise UnsettledWorld(f"no reader for {topic.topic} in a healed world")
            return
        await self._take_all(topic, plan, process)

    async def _take_all(self, topic: TopicPlan, plan: SubscriptionPlan, process: ConsumerProcess) -> None:
        for _ in range(OPEN_TRIES_MAX):
            process.note(record.DRAIN, INVOKE)
            consumer = await process.open()
            if consumer is not None:
                break
            await asyncio.sleep(1.0)
        else:
            raise UnsettledWorld(f"no consumer for {plan.name} of {topic.topic} in a healed world")
        try:
            while (message := await process.take(consumer, self._idle_s)) is not None:
                await process.ack(consumer, message)
        except MagnetarError as error:
            process.note(record.DRAIN, UNKNOWN, error=type(error).__name__)
            raise
        process.note(record.DRAIN, OK)
        await consumer.close()

    async def _read_log(self, topic: TopicPlan) -> None:
        name = f"{_short(topic)}-log"
        if topic.scalable:  # a consumer that comes late, and begins at the beginning of all generations
            await self._drain(topic, SubscriptionPlan("log", STREAM))
            return
        reading = ReaderProcess(
            self.context, self._client(name), topic.topic, SubscriptionPlan(name, READER), name, self._draw()
        )
        reader = await reading.reader()
        if reader is None:
            raise UnsettledWorld(f"no reader for {topic.topic} in a healed world")
        while await reader.has_message_available():
            if await reading.take(reader, self._idle_s) is None:
                break  # there is more and it does not come: what is missing is found out
        reading.note(record.DRAIN, OK)
        await reader.close()

    def _client(self, process: str) -> Client:
        client = self._make_client(process)
        self._clients[id(client)] = client
        return client

    def _draw(self, plan: SubscriptionPlan | None = None) -> random.Random:
        """A random generator for each process: the draws of one do not affect another."""
        apart = plan is not None and (
            plan.type in (QUEUE, CHECKPOINT, GROUP, BATCHES) or (plan.type == STREAM and (plan.seeks or plan.skipped))
        )
        return random.Random((self._apart if apart else self._chance).getrandbits(64))

    @staticmethod
    def _spawn(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work)


def _kind(plan: SubscriptionPlan) -> type[ConsumerProcess]:
    kinds: dict[str, type[ConsumerProcess]] = {
        READER: ReaderProcess,
        STREAM: StreamConsumerProcess,
        QUEUE: QueueConsumerProcess,
        CHECKPOINT: CheckpointConsumerProcess,
        GROUP: GroupMemberProcess,
        BATCHES: BatchReaderProcess,
    }
    return ExpiringReaderProcess if plan.lapses else kinds.get(plan.type, ConsumerProcess)


def _short(topic: TopicPlan) -> str:
    return topic.topic.rsplit("/", 1)[-1]


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        await task


def _raise_failed(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        if task.done() and not task.cancelled():
            task.result()
