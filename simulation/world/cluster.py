"""A world of real brokers and real clients: hosts on a virtual clock, a network between them, disks or shared stores
below, and the faults of its plan.

It has two phases. In the first, faults happen as planned while clients work. Then everything is healed, and the world
must come to rest: all sends are answered, every subscription reaches its end, every topic can be read from its
beginning. The history has what clients saw, and the checkers judge it. Errors of the loop or of a node, and a
convergence that does not come, are findings too. Nothing of the product is replaced: a test passes a broken engine or
decider explicitly (`EngineOverrides`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from magnetar.base.errors import AlreadyExists, MagnetarError, StorageFull, Unavailable, Unknown
from magnetar.base.names import namespace_name
from magnetar.broker.node import Node
from magnetar.client.client import Client
from magnetar.ledger.local.engine import LocalLedgers
from magnetar.metadata.store import MetadataStore
from magnetar.policy.policies import Policies
from magnetar.policy.settings import Settings
from simulation import history as record
from simulation.check.suite import check_history
from simulation.clients.lifecycle import ClientProcesses
from simulation.environment.host import Host
from simulation.environment.isolation import isolated
from simulation.environment.loop import NoProgress, VirtualLoop
from simulation.environment.network import Network
from simulation.environment.peer_http import HttpServer, SimulatedPeers
from simulation.environment.random_streams import RandomStreams
from simulation.environment.runtime import SimulatedRuntime
from simulation.faults.injector import FaultInjector
from simulation.faults.plan import Fault
from simulation.history import OK, History
from simulation.observe import history_marks, limits_probe
from simulation.observe.marks import MarkCounter
from simulation.observe.store_recorder import StoreRecorder
from simulation.operators.migrate import MigrationOperator
from simulation.operators.reshape import ReshapeOperator
from simulation.operators.skip import SkipOperator
from simulation.operators.topic_admin import NAMESPACE, TopicAdmin
from simulation.stores.ledger_memory import LedgerFaultRates
from simulation.stores.ledgers import MemoryLedgers
from simulation.stores.metadata import MemoryStore, StoreContent, Versions
from simulation.stores.metadata_faults import FaultRates
from simulation.world import small_limits
from simulation.world.config import (
    CONSUMERS,
    GONE,
    KEPT,
    LEFT,
    ONCE,
    OTHERS,
    PRODUCERS,
    WorldConfig,
    host_part,
)
from simulation.world.outcome import EngineOverrides, WorldResult

PORT, HTTP_PORT = 6650, 8080
SECRET = {"brokerClientAuthenticationParameters": "token:what the brokers of a world share"}
SEGMENT_BYTES = 8 * 1024  # a few dozen entries: the journal rolls, frees and copies inside a short world
WORLD_S_MAX = 4_000.0  # of virtual time: a world that is not at rest by then never will be
SUPERVISOR_S = 0.05
RESTART_S = 0.3  # a process that ended by itself is started again after this long
FELT = frozenset(
    {"topic.failed", "ledger.fenced", "ledger.recovered", "ownership.lost", "ownership.acquired", "session.lost"}
)  # late effects of faults: clients notice
FOLLOWED = frozenset({"layout.followed", "share.followed"})  # reported by clients
_NOTHING = {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}  # what all have acknowledged is dropped
_FOREVER = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}


class ClusterWorld:
    def __init__(self, config: WorldConfig, parts: EngineOverrides | None = None) -> None:
        for topic in config.topics:
            topic.validate()
        self.config = config
        self.parts = parts or EngineOverrides()
        self.streams = RandomStreams(config.seed)
        self.loop = VirtualLoop(limit_s=WORLD_S_MAX, seed=config.seed)
        self.network = Network(self.loop, self.streams)
        self.history = History(
            self.loop.time, lambda line: self.loop.note(str(line))
        )  # two runs must be alike in it too
        self.story: list[tuple[float, str]] = []
        self.marks = MarkCounter(self._marked)
        self.faults: Counter[str] = Counter()
        self.findings: list[str] = []
        self.fault_rates = replace(FaultRates(), session_s=config.session_s)
        self.nodes: dict[str, Node] = {}
        self.clients: dict[str, Client] = {}
        self.peaks: dict[str, int] = {}  # of what the gauge measured
        versions = Versions.PER_NODE if config.counts_per_node else Versions.UNIQUE
        self.store = MemoryStore(
            content=StoreContent(versions=versions),
            fault_rates=self.fault_rates,
            rng=self.streams.fork("faults", "store"),
        )
        self.ledger_fault_rates = LedgerFaultRates()
        self.ledger_store = MemoryLedgers(
            fault_rates=self.ledger_fault_rates, rng=self.streams.fork("faults", "ledgers")
        )
        self.stores: dict[str, MemoryStore] = {}
        self.ledgers: dict[str, MemoryLedgers] = {}
        self.down_until: dict[str, float] = {}
        self._fault_injector = FaultInjector(self)
        self.store_recorder = StoreRecorder(self)
        chance = self.streams.fork("workload", "steward")
        self._reshape_operator = None if config.scale is None else ReshapeOperator(self, chance, config.scale)
        self._topic_admin = self._reshape_operator or TopicAdmin(self, chance)
        self._skip_operator = SkipOperator(self, self.streams.fork("workload", "mover"))
        self._migration_operator = MigrationOperator(self, self.streams.fork("workload", "migrator"))
        self.client_processes: dict[str, ClientProcesses] = {}
        self._numbers: dict[str, int] = {}  # of the next message of each producer: what its application keeps
        self._chances = {host: self.streams.fork("workload", host) for host in (PRODUCERS, CONSUMERS, OTHERS)}
        self._over = False
        self._stops: set[str] = set()
        self.hosts = {
            name: Host(name, self.loop, self.network, self.streams, self.parts.files, on_mark=self._host_marked)
            for name in (*config.brokers, *sorted(config.clients, reverse=True))
        }
        for host in self.hosts.values():
            host.files.flips = config.flips

    def run(self) -> WorldResult:
        asyncio.set_event_loop(self.loop)
        try:
            small = small_limits.small_limits(self.config.chunked_bytes, self.config.clock_trusted_s)
            with isolated(self.loop, self.config.seed), small:
                try:
                    self.loop.run_until_complete(self._live())
                except (NoProgress, MagnetarError, AssertionError) as error:
                    self.findings.append(f"no rest after healing: {type(error).__name__}: {error}")
                finally:
                    trace = self.loop.trace()
                    self.loop.close_everything()
        finally:
            asyncio.set_event_loop(None)
        self.findings += [f"unhandled: {error}" for error in self.loop.errors]
        self.findings += [str(finding) for finding in check_history(self.history)]
        self.marks.counts.update(history_marks.count_marks(self.history))
        lines = self.history.lines
        return WorldResult(
            self.config.seed,
            self.findings,
            trace,
            self.marks.counts,
            self._injected(),
            sum(1 for line in lines if line.operation == record.SEND and line.phase == OK),
            sum(1 for line in lines if line.operation == record.RECEIVE),
            self.loop.time(),
            self.loop.calls,
            self.history,
        )

    # The two phases

    async def _live(self) -> None:
        supervisor = self._task(self._supervise())
        await self._ready()
        if self._reshape_operator is not None:
            await self._reshape_operator.make()
        self._start_all_clients()
        await self._clients_started()
        for fault in self.config.faults:
            self.loop.call_later(fault.at_s, self.inject, fault)
        for trouble, is_enabled in (
            (self.fault_rates, self.config.store_fault_rates),
            (self.ledger_fault_rates, self.config.ledger_fault_rates),
        ):
            for name, value in is_enabled.items():
                setattr(trouble, name, value)
        topic_admin, measuring = self._task(self._topic_admin.run(self.config.steward_s)), self._task(self._measure())
        at_work = [self._task(one.run()) for one in (self._skip_operator, self._migration_operator) if not one.idle]
        await asyncio.sleep(self.config.chaos_s)
        self._heal()
        await self._ready()
        self._start_all_clients()
        await self._clients_started()
        producers, consumers = self.client_processes[PRODUCERS], self.client_processes[CONSUMERS]
        await producers.stop_sending()
        for task in at_work:
            await task
        others = self.client_processes.get(OTHERS)
        if others is not None:
            others.context.settling = True
        await consumers.settle()
        if others is not None:
            await topic_admin
            await producers.probe(self.store_recorder.actives)
            await others.leave()
        await consumers.drain()
        await consumers.read_logs()
        await topic_admin
        await self._topic_admin.query_all_brokers()
        measuring.cancel()
        for processes in (producers, consumers, others):
            if processes is not None:
                await processes.close()
        await asyncio.sleep(1.0)  # until brokers have heard that the connections are closed
        limits_probe.sample_at_rest(self)
        await self._stop()
        supervisor.cancel()

    async def _measure(self) -> None:
        while True:
            limits_probe.sample_limits(self)
            await asyncio.sleep(limits_probe.EVERY_S)

    def _start_all_clients(self) -> None:
        for host in self.config.clients:
            self.start_clients(host)

    def start_clients(self, host: str) -> None:
        """Producers and consumers are on different hosts, so that a link can break under one of them alone. After a
        kill, processes of the same names replace the old ones."""
        if self.hosts[host].alive:
            return
        plans = [host_part(topic, host, self.config.clients) for topic in self.config.topics]

        async def main(runtime: SimulatedRuntime) -> None:
            client = self.clients[host] = Client(self._url(), runtime=runtime)
            processes = ClientProcesses(
                self.history,
                self._chances[host],
                lambda process: client,
                plans,
                numbers=self._numbers,
                gathers=self.config.gathers and host == CONSUMERS,
                addresses=[(name, PORT) for name in self.config.brokers],
                segments=self.store_recorder.segments,
            )
            processes.start()
            self.client_processes[host] = processes
            await self.loop.create_future()  # as long as the world

        self.client_processes.pop(host, None)
        self.hosts[host].run(main)

    async def _clients_started(self) -> None:
        await _until(lambda: len(self.client_processes) == len(self.config.clients))

    async def _ready(self) -> None:
        await _until(lambda: all(name in self.nodes and self.nodes[name].ready for name in self.config.brokers))

    def _heal(self) -> None:
        self._tell("healed")
        self._over = self._topic_admin.over = self._skip_operator.over = self._migration_operator.over = True
        self.fault_rates.clear()
        self.ledger_fault_rates.clear()
        self._fault_injector.heal()

    async def _stop(self) -> None:
        """Stops in order, as SIGTERM does: an error during the stop is a finding too."""
        for name in self.config.brokers:
            self._stops.add(name)
            node = self.nodes[name]
            node.stopping.set()
        await _until(lambda: not any(self.hosts[name].alive for name in self.config.brokers))

    # Brokers

    async def _supervise(self) -> None:
        """Starts every broker, and again whenever it is down and no fault keeps it down."""
        ended: dict[str, float] = {}
        while True:
            for name in self.config.brokers:
                host = self.hosts[name]
                if host.alive or name in self._stops:
                    continue
                if name not in ended:
                    ended[name] = self.loop.time() if name in self.nodes else -RESTART_S
                    self.history.note(name, record.FAULT, OK, what="down")
                since = ended[name]
                if self.loop.time() < max(self.down_until.get(name, 0.0), since + RESTART_S):
                    continue
                del ended[name]
                self._bury(name)
                host.run(self._broker(name))
            await asyncio.sleep(SUPERVISOR_S)

    def _bury(self, name: str) -> None:
        """Ends the store sessions and ledger handles of a dead process."""
        self.nodes.pop(name, None)
        store = self.stores.pop(name, None)
        if store is not None:
            store.crash()
        ledgers = self.ledgers.pop(name, None)
        if ledgers is not None:
            ledgers.crash(landed=None)

    def _broker(self, name: str) -> Callable[[SimulatedRuntime], Coroutine[Any, Any, None]]:
        async def main(runtime: SimulatedRuntime) -> None:
            try:
                node = await self._start(name, runtime)
            except (Unavailable, Unknown, StorageFull) as error:
                self._tell(f"{name} does not start: {error}")  # a store is away: the supervisor tries again
                return
            await node.stopping.wait()
            await node.stop()
            self._judge(name, node)

        return main

    async def _start(self, name: str, runtime: SimulatedRuntime) -> Node:
        store = self.stores[name] = self.store.peer(runtime)
        metadata: MetadataStore = store if self.parts.metadata is None else self.parts.metadata(store)
        settings = Settings(None, {"scalableTopicAutoScaleEnabled": "false", **self.config.settings, **SECRET})
        ledgers = await self._open_ledgers(name, runtime, metadata)
        wrapped = ledgers if self.parts.ledgers is None else self.parts.ledgers(ledgers)
        carrier = SimulatedPeers()
        node = Node(
            runtime=runtime,
            metadata=metadata,
            ledgers=wrapped,
            settings=settings,
            cluster=self.config.shared,
            carrier=carrier,
        )
        carrier.serve(node)
        if isinstance(ledgers, LocalLedgers):
            ledgers.journal.on_failure.append(node.fail)
        self.nodes[name] = node
        await node.start(name, PORT, host_shown=name)
        await HttpServer(node).start(name, HTTP_PORT)
        await node.serve(HTTP_PORT)
        await self._prepare(node)
        return node

    async def _open_ledgers(self, name: str, runtime: SimulatedRuntime, metadata: MetadataStore) -> Any:
        if self.config.shared:
            self.ledgers[name] = self.ledger_store.peer()
            return self.ledgers[name]
        return await LocalLedgers.start("/data/ledgers", runtime, metadata, segment_bytes=SEGMENT_BYTES)

    async def _prepare(self, node: Node) -> None:
        kept = {**_FOREVER, "retentionTimeInMinutes": self.config.kept_minutes}
        for name, document in (
            (KEPT, {"retention_policies": kept}),
            (ONCE, {"retention_policies": kept, "deduplicationEnabled": True}),
            (GONE, {"retention_policies": _NOTHING}),
            (LEFT, {}),
            (NAMESPACE, {}),
        ):
            try:
                await node.namespaces.create(namespace_name(name), Policies.of(document))
            except AlreadyExists:
                pass

    def _judge(self, name: str, node: Node) -> None:
        for counter in (node.metrics.task_failures, node.metrics.request_failures):
            if counter.value:
                self.findings.append(f"{name}: {counter.value} of {counter!r}")

    # Faults

    def inject(self, fault: Fault) -> None:
        if self._over:
            return
        self.faults[fault.kind.shown] += 1
        self._tell(f"fault {fault}")
        self.history.note("world", record.FAULT, OK, what=str(fault))
        self._fault_injector.inject(fault)

    def _injected(self) -> Counter[str]:
        """The faults of the plan, and those that the stores and disks drew."""
        counts = Counter(self.faults)
        counts.update({f"store: {name}": count for name, count in self.store.content.counts.items()})
        counts.update({f"ledgers: {name}": count for name, count in self.ledger_store.memory.counts.items()})
        for name in self.config.brokers:
            counts.update({f"disk: {kind}": count for kind, count in self.hosts[name].files.counts.items()})
        return counts

    # Reports

    def _tell(self, text: str) -> None:
        self.story.append((self.loop.time(), text))
        self.loop.note(text)

    def _host_marked(self, host: Host, name: str, facts: dict[str, object]) -> None:
        self.marks(host.name, name, facts)
        if name in FOLLOWED:
            self.store_recorder.followed(f"{host.name}/{host.starts}", facts)

    def _marked(self, host: str, name: str, facts: Any) -> None:
        shown = " ".join(f"{key}={value}" for key, value in facts.items())
        self._tell(f"{host} {name} {shown}")
        if host in self.config.brokers:
            self._fault_injector.step_taken(host, name)
        if name in FELT and (self.config.store_fault_rates or self.config.faults):
            self.history.note(host, record.FAULT, OK, what=f"{name} {shown}")

    def _url(self) -> str:
        return "pulsar://" + ",".join(f"{name}:{PORT}" for name in self.config.brokers)

    def _task(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = self.loop.create_task(work)
        return task


async def _until(true: Callable[[], bool]) -> None:
    while not true():  # noqa: ASYNC110 - the world looks from outside: nothing in it would notify it
        await asyncio.sleep(0.1)
