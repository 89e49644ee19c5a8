"""One machine with a whole broker on it: the real node, a disk that loses unsynced writes, a store in memory, a virtual
clock.

A run is one start of the broker. It ends with its scenario, or with a power cut at a chosen call; then the next run
starts on the rest of the disk. The history has everything that clients saw before the cut, and nothing after it. An
internal failure that the node reports (a broken task or request) in a run without a cut is a finding.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from magnetar.broker.node import Node
from magnetar.ledger.local.engine import LocalLedgers
from magnetar.ledger.store import LedgerStore
from magnetar.metadata.store import MetadataStore
from magnetar.policy.settings import Settings
from simulation.crash.frame_connection import FrameConnection
from simulation.environment.disk import PowerLoss, SimulatedFiles
from simulation.environment.inline_runtime import InlineRuntime
from simulation.environment.loop import VirtualLoop
from simulation.environment.network import Network
from simulation.environment.power import PoweredStore, PowerSwitch
from simulation.stores.metadata import MemoryStore

T = TypeVar("T")
PORT = 6650
SEGMENT_BYTES = 8 * 1024  # a few dozen entries: the journal rolls, frees and copies inside a short story

Scenario = Callable[["BrokerRun"], Awaitable[None]]


class CrashingRuntime(InlineRuntime):
    """A crash inside a worker thread takes the machine with it: the caller never gets the result."""

    def __init__(self, files: SimulatedFiles, seed: int, power: PowerSwitch) -> None:
        super().__init__(files, seed)
        self._power = power

    def offload(self, work: Callable[[], T], lane: str) -> asyncio.Future[T]:
        def watched() -> T:
            try:
                return work()
            except PowerLoss:
                self._power.out.set()
                raise

        thread = super().offload(watched, lane)
        return asyncio.get_running_loop().create_future() if self._power.out.is_set() else thread


class BrokerRun:
    """The arguments of a scenario: the running node and its time."""

    def __init__(self, node: Node, number: int) -> None:
        self.node = node
        self.number = number
        self.wires: list[FrameConnection] = []

    async def connect(self) -> FrameConnection:
        wire = await FrameConnection.open("memory", PORT)
        self.wires.append(wire)
        return wire

    async def rest(self, seconds: float) -> None:
        """Virtual time passes."""
        await asyncio.sleep(seconds)


class SingleBrokerWorld:
    """`ledgers` and `metadata` may wrap the engines, so that a test can inject a broken one."""

    def __init__(
        self,
        seed: int = 0,
        *,
        files: SimulatedFiles | None = None,
        settings: dict[str, str] | None = None,
        ledgers: Callable[[LocalLedgers], LedgerStore] | None = None,
        metadata: Callable[[MetadataStore], MetadataStore] | None = None,
    ) -> None:
        self.seed = seed
        self.files = SimulatedFiles(seed) if files is None else files
        self.store = MemoryStore()
        self.settings = settings or {}
        self.lives = 0
        self.passes = 0  # of the metadata store in the last life
        self.failures: list[str] = []
        self.node_failure: Exception | None = None
        self._ledgers = ledgers
        self._metadata = metadata
        self._now = 1.0

    def live(self, story: Scenario, *, cut_at: int | None = None) -> bool:
        """One run. Returns whether it reached its end and stopped cleanly; otherwise the power went."""
        self.lives += 1
        loop = VirtualLoop(self._now)
        network = Network(loop)
        asyncio.set_event_loop(loop)
        try:
            ended: bool = loop.run_until_complete(self._run(loop, network, story, cut_at))
            return ended
        finally:
            _bury(loop, network)
            self._now = loop.time() + 1.0
            asyncio.set_event_loop(None)
            loop.close()

    def restart(self) -> None:
        """Between two runs: another process on the same machine. Faults of the disk are repaired."""
        self.files.fail_sync_at = self.files.full_after = None
        self.store = self.store.reopen()

    def lose_power(self) -> None:
        """Between two runs: the disk keeps a random part of what was not synced."""
        self.files = self.files.crash()
        self.store = self.store.reopen()

    async def _run(self, loop: VirtualLoop, network: Network, story: Scenario, cut_at: int | None) -> bool:
        power = PowerSwitch(cut_at)
        runtime = CrashingRuntime(self.files, self.seed + self.lives, power)
        loop.set_exception_handler(lambda _, context: self._failed(power, context))
        owner = loop.create_task(self._live(runtime, power, story))
        out = loop.create_task(power.out.wait())
        await asyncio.wait([owner, out], return_when=asyncio.FIRST_COMPLETED)
        self.passes = power.passes
        if power.out.is_set():
            network.stop()
            return False
        out.cancel()
        owner.result()
        return True

    async def _live(self, runtime: CrashingRuntime, power: PowerSwitch, story: Scenario) -> None:
        store: MetadataStore = PoweredStore(self.store, power)
        if self._metadata is not None:
            store = self._metadata(store)
        local = await LocalLedgers.start("/data/ledgers", runtime, store, segment_bytes=SEGMENT_BYTES)
        ledgers = local if self._ledgers is None else self._ledgers(local)
        node = Node(
            runtime=runtime,
            metadata=store,
            ledgers=ledgers,
            settings=Settings(None, {"scalableTopicAutoScaleEnabled": "false", **self.settings}),
        )
        local.journal.on_failure.append(node.fail)
        await node.start("memory", PORT, host_shown="memory")
        await node.serve(1)
        await _told(story(BrokerRun(node, self.lives)), node)
        await node.stop()
        self.node_failure = node.failure
        self._broken(node)

    def _broken(self, node: Node) -> None:
        for counter in (node.metrics.task_failures, node.metrics.request_failures):
            if counter.value:
                self.failures.append(f"life {self.lives}: {counter.value} of {counter!r}")

    def _failed(self, power: PowerSwitch, context: dict[str, Any]) -> None:
        if not power.out.is_set():
            self.failures.append(f"life {self.lives}: {context.get('message')}: {context.get('exception')!r}")


async def _told(story: Awaitable[None], node: Node) -> None:
    """Runs until the scenario ends or the node gives up; then the scenario is abandoned where it stands."""
    task = asyncio.ensure_future(story)
    stopping = asyncio.ensure_future(node.stopping.wait())
    await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
    if not stopping.done():
        stopping.cancel()
        await task
        return
    task.cancel()
    await asyncio.wait([task])


def _bury(loop: VirtualLoop, network: Network) -> None:
    """Cancels all tasks of a dead machine, and ignores the errors of that."""
    network.stop()
    loop.set_exception_handler(lambda _, __: None)
    for _ in range(100):
        left = asyncio.all_tasks(loop)
        if not left:
            return
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.wait(left, timeout=60))
    raise AssertionError(f"tasks that do not end: {left}")
