"""A world of real brokers and real clients: hosts on a virtual clock, a network between them, disks or shared stores
below, and the faults of its plan.

Two phases. In the first everything breaks as planned while clients work. Then everything is healed, and the world must
come to rest: what was sent is answered, every subscription comes to its end, every topic can be read from its
beginning. What clients saw is in the history, and the checkers judge it; what the loop, a node or a convergence that
did not come tells is a finding as well. Nothing of the product is replaced: a test that wants a liar gives it as an
engine or decider of its own (`Parts`).
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
from simulation.check.suite import verdict
from simulation.clients.lifecycle import Crew
from simulation.environment.host import Host
from simulation.environment.isolation import fence
from simulation.environment.loop import Stuck, VirtualLoop
from simulation.environment.network import Network
from simulation.environment.peer_http import Carried, WebServer
from simulation.environment.random_streams import Streams
from simulation.environment.runtime import SimulatedRuntime
from simulation.faults.injector import Strikes
from simulation.faults.plan import Fault
from simulation.history import OK, History
from simulation.observe import history_marks, limits_probe
from simulation.observe.marks import Marks
from simulation.observe.store_recorder import Notary
from simulation.operators.migrate import Migrator
from simulation.operators.reshape import Shaper
from simulation.operators.skip import Mover
from simulation.operators.topic_admin import NAMESPACE, Steward
from simulation.stores.ledger_memory import LedgerNastiness
from simulation.stores.ledgers import MemoryLedgers
from simulation.stores.metadata import MemoryStore
from simulation.stores.metadata_faults import Nastiness
from simulation.world import small_limits
from simulation.world.config import (
    CONSUMERS,
    GONE,
    KEPT,
    LEFT,
    ONCE,
    OTHERS,
    PRODUCERS,
    Shape,
    part_of,
)
from simulation.world.outcome import Outcome, Parts

PORT, HTTP_PORT = 6650, 8080
SECRET = {"brokerClientAuthenticationParameters": "token:what the brokers of a world share"}
SEGMENT_BYTES = 8 * 1024  # a few dozen entries: the journal rolls, frees and copies inside a short world
WORLD_S_MAX = 4_000.0  # of virtual time: whoever has not come to rest by then never will
SUPERVISOR_S = 0.05
RESTART_S = 0.3  # a process that ended by itself is started again after this long
FELT = frozenset(
    {"topic.failed", "ledger.fenced", "ledger.recovered", "ownership.lost", "ownership.acquired", "session.lost"}
)  # late effects of faults: clients notice
FOLLOWED = frozenset({"layout.followed", "share.followed"})  # told by clients
_NOTHING = {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}  # what all have acknowledged is dropped
_FOREVER = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}


class ClusterWorld:
    def __init__(self, shape: Shape, parts: Parts | None = None) -> None:
        for topic in shape.topics:
            topic.validate()
        self.shape = shape
        self.parts = parts or Parts()
        self.streams = Streams(shape.seed)
        self.loop = VirtualLoop(limit_s=WORLD_S_MAX, seed=shape.seed)
        self.network = Network(self.loop, self.streams)
        self.history = History(
            self.loop.time, lambda line: self.loop.note(str(line))
        )  # two runs must be alike in it too
        self.story: list[tuple[float, str]] = []
        self.marks = Marks(self._marked)
        self.faults: Counter[str] = Counter()
        self.findings: list[str] = []
        self.nasty = replace(Nastiness(), session_s=shape.session_s)
        self.nodes: dict[str, Node] = {}
        self.clients: dict[str, Client] = {}
        self.peaks: dict[str, int] = {}  # of what the gauge measured
        self.store = MemoryStore(nasty=self.nasty, rng=self.streams.fork("faults", "store"))
        self.ledger_nasty = LedgerNastiness()
        self.shelf = MemoryLedgers(nasty=self.ledger_nasty, rng=self.streams.fork("faults", "ledgers"))
        self.stores: dict[str, MemoryStore] = {}
        self.ledgers: dict[str, MemoryLedgers] = {}
        self.down_until: dict[str, float] = {}
        self._strikes = Strikes(self)
        self.notary = Notary(self)
        chance = self.streams.fork("workload", "steward")
        self._shaper = None if shape.scale is None else Shaper(self, chance, shape.scale)
        self._steward = self._shaper or Steward(self, chance)
        self._mover = Mover(self, self.streams.fork("workload", "mover"))
        self._migrator = Migrator(self, self.streams.fork("workload", "migrator"))
        self.crews: dict[str, Crew] = {}
        self._numbers: dict[str, int] = {}  # of the next message of each producer: what its application keeps
        self._chances = {host: self.streams.fork("workload", host) for host in (PRODUCERS, CONSUMERS, OTHERS)}
        self._over = False
        self._stops: set[str] = set()
        self.hosts = {
            name: Host(name, self.loop, self.network, self.streams, self.parts.files, marked=self._host_marked)
            for name in (*shape.brokers, *sorted(shape.clients, reverse=True))
        }
        for host in self.hosts.values():
            host.files.flips = shape.flips

    def run(self) -> Outcome:
        asyncio.set_event_loop(self.loop)
        try:
            small = small_limits.small(self.shape.chunked_bytes, self.shape.clock_trusted_s)
            with fence(self.loop, self.shape.seed), small:
                try:
                    self.loop.run_until_complete(self._live())
                except (Stuck, MagnetarError, AssertionError) as error:
                    self.findings.append(f"no rest after healing: {type(error).__name__}: {error}")
                finally:
                    trace = self.loop.trace()
                    self.loop.bury()
        finally:
            asyncio.set_event_loop(None)
        self.findings += [f"unhandled: {error}" for error in self.loop.errors]
        self.findings += [str(finding) for finding in verdict(self.history)]
        self.marks.counts.update(history_marks.counted(self.history))
        lines = self.history.lines
        return Outcome(
            self.shape.seed,
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
        if self._shaper is not None:
            await self._shaper.make()
        self._start_crews()
        await self._manned()
        for fault in self.shape.faults:
            self.loop.call_later(fault.at_s, self.strike, fault)
        for trouble, asked in ((self.nasty, self.shape.nasty), (self.ledger_nasty, self.shape.ledgers)):
            for name, value in asked.items():
                setattr(trouble, name, value)
        steward, measuring = self._task(self._steward.run(self.shape.steward_s)), self._task(self._measure())
        at_work = [self._task(one.run()) for one in (self._mover, self._migrator) if not one.idle]
        await asyncio.sleep(self.shape.chaos_s)
        self._heal()
        await self._ready()
        self._start_crews()
        await self._manned()
        producers, consumers = self.crews[PRODUCERS], self.crews[CONSUMERS]
        await producers.stop_sending()
        for task in at_work:
            await task
        others = self.crews.get(OTHERS)
        if others is not None:
            others.book.settling = True
        await consumers.settle()
        if others is not None:
            await steward
            await producers.probe(self.notary.actives)
            await others.leave()
        await consumers.drain()
        await consumers.read_logs()
        await steward
        await self._steward.ask_everybody()
        measuring.cancel()
        for crew in (producers, consumers, others):
            if crew is not None:
                await crew.close()
        await asyncio.sleep(1.0)  # until brokers have heard that the connections are closed
        limits_probe.rest(self)
        await self._stop()
        supervisor.cancel()

    async def _measure(self) -> None:
        while True:
            limits_probe.sample(self)
            await asyncio.sleep(limits_probe.EVERY_S)

    def _start_crews(self) -> None:
        for host in self.shape.clients:
            self.start_crew(host)

    def start_crew(self, host: str) -> None:
        """Producers on one host, consumers on another: a link can break under one of them alone. A crew that was killed
        is followed by another one of the same names."""
        if self.hosts[host].alive:
            return
        plans = [part_of(topic, host, self.shape.clients) for topic in self.shape.topics]

        async def main(runtime: SimulatedRuntime) -> None:
            client = self.clients[host] = Client(self._url(), runtime=runtime)
            crew = Crew(
                self.history,
                self._chances[host],
                lambda process: client,
                plans,
                numbers=self._numbers,
                gathers=self.shape.gathers and host == CONSUMERS,
                addresses=[(name, PORT) for name in self.shape.brokers],
                segments=self.notary.segments,
            )
            crew.start()
            self.crews[host] = crew
            await self.loop.create_future()  # as long as the world

        self.crews.pop(host, None)
        self.hosts[host].run(main)

    async def _manned(self) -> None:
        await _until(lambda: len(self.crews) == len(self.shape.clients))

    async def _ready(self) -> None:
        await _until(lambda: all(name in self.nodes and self.nodes[name].ready for name in self.shape.brokers))

    def _heal(self) -> None:
        self._tell("healed")
        self._over = self._steward.over = self._mover.over = self._migrator.over = True
        self.nasty.calm_down()
        self.ledger_nasty.calm_down()
        self._strikes.heal()

    async def _stop(self) -> None:
        """In order, as SIGTERM does: whatever breaks then is a finding too."""
        for name in self.shape.brokers:
            self._stops.add(name)
            node = self.nodes[name]
            node.stopping.set()
        await _until(lambda: not any(self.hosts[name].alive for name in self.shape.brokers))

    # Brokers

    async def _supervise(self) -> None:
        """Starts every broker, and again whenever it is down and not held down."""
        ended: dict[str, float] = {}
        while True:
            for name in self.shape.brokers:
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
        """What the stores notice of a process that is gone."""
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
        settings = Settings(None, {**self.shape.settings, **SECRET})
        ledgers = await self._open_ledgers(name, runtime, metadata)
        wrapped = ledgers if self.parts.ledgers is None else self.parts.ledgers(ledgers)
        carrier = Carried()
        node = Node(
            runtime=runtime,
            metadata=metadata,
            ledgers=wrapped,
            settings=settings,
            cluster=self.shape.shared,
            carrier=carrier,
        )
        carrier.serve(node)
        if isinstance(ledgers, LocalLedgers):
            ledgers.journal.on_failure.append(node.fail)
        self.nodes[name] = node
        await node.start(name, PORT, host_shown=name)
        await WebServer(node).start(name, HTTP_PORT)
        await node.serve(HTTP_PORT)
        await self._prepare(node)
        return node

    async def _open_ledgers(self, name: str, runtime: SimulatedRuntime, metadata: MetadataStore) -> Any:
        if self.shape.shared:
            self.ledgers[name] = self.shelf.peer()
            return self.ledgers[name]
        return await LocalLedgers.start("/data/ledgers", runtime, metadata, segment_bytes=SEGMENT_BYTES)

    async def _prepare(self, node: Node) -> None:
        kept = {**_FOREVER, "retentionTimeInMinutes": self.shape.kept_minutes}
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

    def strike(self, fault: Fault) -> None:
        if self._over:
            return
        self.faults[fault.kind.shown] += 1
        self._tell(f"fault {fault}")
        self.history.note("world", record.FAULT, OK, what=str(fault))
        self._strikes.do(fault)

    def _injected(self) -> Counter[str]:
        """Those of the plan, and those that the stores and disks drew."""
        found = Counter(self.faults)
        found.update({f"store: {name}": count for name, count in self.store.content.counts.items()})
        found.update({f"ledgers: {name}": count for name, count in self.shelf.shelf.counts.items()})
        for name in self.shape.brokers:
            found.update({f"disk: {kind}": count for kind, count in self.hosts[name].files.counts.items()})
        return found

    # What is told

    def _tell(self, text: str) -> None:
        self.story.append((self.loop.time(), text))
        self.loop.note(text)

    def _host_marked(self, host: Host, name: str, facts: dict[str, object]) -> None:
        self.marks(host.name, name, facts)
        if name in FOLLOWED:
            self.notary.followed(f"{host.name}/{host.lives}", facts)

    def _marked(self, host: str, name: str, facts: Any) -> None:
        shown = " ".join(f"{key}={value}" for key, value in facts.items())
        self._tell(f"{host} {name} {shown}")
        if host in self.shape.brokers:
            self._strikes.stepped(host, name)
        if name in FELT and (self.shape.nasty or self.shape.faults):
            self.history.note(host, record.FAULT, OK, what=f"{name} {shown}")

    def _url(self) -> str:
        return "pulsar://" + ",".join(f"{name}:{PORT}" for name in self.shape.brokers)

    def _task(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = self.loop.create_task(work)
        return task


async def _until(true: Callable[[], bool]) -> None:
    while not true():  # noqa: ASYNC110 - the world looks from outside: nobody in it would tell
        await asyncio.sleep(0.1)
