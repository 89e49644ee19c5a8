"""One machine with a whole broker on it: the real node on a disk that forgets, a store in memory and a virtual clock.

A life is one start of the broker until its story ends, or until the power goes at a chosen call; then the next life
finds what the disk kept. Everything a client saw up to the cut is in the history, and nothing after it. What the node
reports as its own failure (a task or a request that broke) in a life without a cut is a finding.
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
from simulation.crash.frame_connection import Wire
from simulation.environment.disk import Crashed, ForgetfulFiles
from simulation.environment.inline_runtime import InlineRuntime
from simulation.environment.loop import VirtualLoop
from simulation.environment.network import Network
from simulation.environment.power import Power, PoweredStore
from simulation.stores.metadata import MemoryStore

T = TypeVar("T")
PORT = 6650
SEGMENT_BYTES = 8 * 1024  # a few dozen entries: the journal rolls, frees and copies inside a short story

Story = Callable[["Life"], Awaitable[None]]


class MortalRuntime(InlineRuntime):
    """A crash inside a lane takes the machine with it: its caller never hears of it."""

    def __init__(self, files: ForgetfulFiles, seed: int, power: Power) -> None:
        super().__init__(files, seed)
        self._power = power

    def offload(self, work: Callable[[], T], lane: str) -> asyncio.Future[T]:
        def watched() -> T:
            try:
                return work()
            except Crashed:
                self._power.out.set()
                raise

        made = super().offload(watched, lane)
        return asyncio.get_running_loop().create_future() if self._power.out.is_set() else made


class Life:
    """What a story is told in."""

    def __init__(self, node: Node, number: int) -> None:
        self.node = node
        self.number = number
        self.wires: list[Wire] = []

    async def connect(self) -> Wire:
        wire = await Wire.open("memory", PORT)
        self.wires.append(wire)
        return wire

    async def rest(self, seconds: float) -> None:
        """Virtual time passes."""
        await asyncio.sleep(seconds)


class World:
    """`ledgers` and `metadata` may wrap the engines: that is how a test injects one that lies."""

    def __init__(
        self,
        seed: int = 0,
        *,
        files: ForgetfulFiles | None = None,
        settings: dict[str, str] | None = None,
        ledgers: Callable[[LocalLedgers], LedgerStore] | None = None,
        metadata: Callable[[MetadataStore], MetadataStore] | None = None,
    ) -> None:
        self.seed = seed
        self.files = ForgetfulFiles(seed) if files is None else files
        self.store = MemoryStore()
        self.settings = settings or {}
        self.lives = 0
        self.passes = 0  # of the metadata store in the last life
        self.failures: list[str] = []
        self.node_failure: Exception | None = None
        self._ledgers = ledgers
        self._metadata = metadata
        self._now = 1.0

    def live(self, story: Story, *, cut_at: int | None = None) -> bool:
        """One life. Returns whether it came to its end and stopped cleanly; otherwise the power went."""
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
        """Between two lives: another process on the same machine. Faults of the disk are mended."""
        self.files.fail_sync_at = self.files.full_after = None
        self.store = self.store.reopen()

    def lose_power(self) -> None:
        """Between two lives: the disk keeps what it likes of what was not synced."""
        self.files = self.files.crash()
        self.store = self.store.reopen()

    async def _run(self, loop: VirtualLoop, network: Network, story: Story, cut_at: int | None) -> bool:
        power = Power(cut_at)
        runtime = MortalRuntime(self.files, self.seed + self.lives, power)
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

    async def _live(self, runtime: MortalRuntime, power: Power, story: Story) -> None:
        store: MetadataStore = PoweredStore(self.store, power)
        if self._metadata is not None:
            store = self._metadata(store)
        local = await LocalLedgers.start("/data/ledgers", runtime, store, segment_bytes=SEGMENT_BYTES)
        ledgers = local if self._ledgers is None else self._ledgers(local)
        node = Node(runtime=runtime, metadata=store, ledgers=ledgers, settings=Settings(None, self.settings))
        local.journal.on_failure.append(node.fail)
        await node.start("memory", PORT, host_shown="memory")
        await node.serve(1)
        await _told(story(Life(node, self.lives)), node)
        await node.stop()
        self.node_failure = node.failure
        self._broken(node)

    def _broken(self, node: Node) -> None:
        for counter in (node.metrics.task_failures, node.metrics.request_failures):
            if counter.value:
                self.failures.append(f"life {self.lives}: {counter.value} of {counter!r}")

    def _failed(self, power: Power, context: dict[str, Any]) -> None:
        if not power.out.is_set():
            self.failures.append(f"life {self.lives}: {context.get('message')}: {context.get('exception')!r}")


async def _told(story: Awaitable[None], node: Node) -> None:
    """Until the story ends, or the node gives up: then whoever is in the story is left in the middle of it."""
    told = asyncio.ensure_future(story)
    stopping = asyncio.ensure_future(node.stopping.wait())
    await asyncio.wait([told, stopping], return_when=asyncio.FIRST_COMPLETED)
    if not stopping.done():
        stopping.cancel()
        await told
        return
    told.cancel()
    await asyncio.wait([told])


def _bury(loop: VirtualLoop, network: Network) -> None:
    """Nobody in a dead machine does anything more: cancel, and look away from what that breaks."""
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
