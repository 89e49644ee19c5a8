"""The sinks of staged publishing, for clients: begin a stage, seal it, commit a batch, drop stages that failed.

Any broker answers any call without asking another one, because the record is the only state. The leader of the sink
publishes the stages of a commit (`leader.py`). It refuses a batch that is already committed, and stages that were
dropped; it trusts that only one task writes to a stage's topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from magnetar.base.errors import Busy, NotFound, Refused, StageNotFound
from magnetar.base.limits import CALL_RETRY_S_MAX, COMMIT_WAIT_S, STAGE_LEASE_S
from magnetar.base.names import NamespaceName, TopicName, topic_name
from magnetar.metadata import paths
from magnetar.metadata.store import Event, MetadataStore
from magnetar.observe.log import get
from magnetar.runtime.runtime import Runtime
from magnetar.staged import codec, machine
from magnetar.staged.codec import StageId
from magnetar.staged.machine import AlreadyCommitted, Committed, Sink, StageBegun
from magnetar.staged.publisher import StageBackend, StagePublisherLeader, within
from magnetar.staged.store import SinkStore

log = get("staged")

May = Callable[[str], None]


class StagedSinkService:
    """`me` is written into the locks. `sweeps`: whether this broker looks for the work that is left at a path."""

    def __init__(
        self,
        store: MetadataStore,
        runtime: Runtime,
        stages: StageBackend,
        *,
        me: Callable[[], str],
        sweeps: Callable[[str], Awaitable[bool]],
        failed: Callable[[str, BaseException], None],
    ) -> None:
        self.records = SinkStore(store, runtime)
        self.leader = StagePublisherLeader(self.records, runtime, stages, me=me, sweeps=sweeps, failed=failed)
        self._runtime = runtime
        self._stages = stages
        self._heard: dict[str, list[asyncio.Event]] = {}
        self._stop: Callable[[], None] | None = None
        self.begun = 0
        self.commits = 0

    def start(self) -> None:
        self._stop = self.records.store.subscribe(paths.SINKS, self._changed)
        self.leader.start()

    async def close(self) -> None:
        if self._stop is not None:
            self._stop()
        await self.leader.close()

    # What clients ask

    async def begin(
        self, topic: TopicName, name: str, batch: int, *, run: str = "", once: bool = False
    ) -> tuple[StageId, TopicName, str] | AlreadyCommitted:
        """A stage, its topic, and a warning or nothing. Already: the batch is committed. Refused: by another query."""
        key = codec.digest(str(topic), name)
        lease_ms = round(STAGE_LEASE_S * 1000)

        def step(sink: Sink | None) -> tuple[Sink, StageBegun | AlreadyCommitted]:
            sink = sink or self._new(topic, name, once=once)
            return machine.begin(sink, batch, run=run, now_ms=self._runtime.wall(), lease_ms=lease_ms)

        try:
            sink, outcome = await self.records.change(key, step)
        except Refused as error:
            log.warning("stage_refused", sink=name, topic=str(topic), batch=batch, why=str(error))
            raise
        if outcome.warning:
            log.warning("sink_conflict_noticed", sink=name, topic=str(topic), batch=batch, why=outcome.warning)
        if isinstance(outcome, AlreadyCommitted):
            return outcome
        id = StageId(key, sink.life, outcome.number)
        stage = codec.stage_topic(topic, id)
        await self._stages.create(stage)
        self.begun += 1
        self._runtime.mark("stage.begun", stage=str(id), batch=batch)
        return id, stage, outcome.warning

    # A request names only the stage: `may` checks the permission for its target topic, and raises if it is missing

    async def seal(self, id: StageId, may: May) -> int:
        """Freezes the stage; returns its number of messages. StageNotFound: it was dropped."""
        sink = await self.records.of(id)
        may(sink.topic)
        if not machine.lists(sink, id.number):
            raise StageNotFound(f"stage {id} not found: its lease expired or it was dropped; write its rows again")
        messages = await self._stages.seal(codec.stage_topic(topic_name(sink.topic), id))
        await self.records.issued(id, lambda one: machine.seal(one, id.number, messages, now_ms=self._runtime.wall()))
        self._runtime.mark("stage.sealed", stage=str(id), messages=messages)
        return messages

    async def renew(self, id: StageId, may: May) -> None:
        lease_ms = round(STAGE_LEASE_S * 1000)
        now_ms = self._runtime.wall()

        def step(sink: Sink) -> Sink:
            may(sink.topic)
            return machine.renew(sink, id.number, now_ms=now_ms, lease_ms=lease_ms)

        await self.records.issued(id, step)

    async def drop(self, id: StageId, may: May) -> None:
        """Forget it if it was not chosen; one of a sink that is gone is forgotten."""

        def step(sink: Sink) -> Sink:
            may(sink.topic)
            return machine.drop(sink, (id.number,), now_ms=self._runtime.wall())

        try:
            await self.records.issued(id, step)
        except NotFound:
            return
        self.leader.poke(id.sink)

    async def commit(
        self, topic: TopicName, name: str, batch: int, ids: list[StageId]
    ) -> tuple[Committed | AlreadyCommitted, bool]:
        """Choose exactly these stages; and whether all that was ever committed is published. Waits while too many
        batches are being published; Busy: still, ask again."""
        key = codec.digest(str(topic), name)
        for id in ids:
            if id.sink != key:
                raise StageNotFound(f"stage {id} does not belong to sink {name}")
        partitions = await self._stages.partitions(topic) if ids else 0
        numbers = tuple(id.number for id in ids)

        def step(sink: Sink | None) -> tuple[Sink, Committed | AlreadyCommitted]:
            if sink is None or any(id.life != sink.life for id in ids):
                if ids:
                    raise StageNotFound(f"sink {name} and its stages were deleted: write the batch again")
                sink = sink or self._new(topic, name, once=False)
            return machine.commit(sink, batch, numbers, partitions=partitions, now_ms=self._runtime.wall())

        sink, outcome = await self._when_room(key, step)
        if isinstance(outcome, Committed):
            self.commits += 1
            self._runtime.mark("stage.committed", sink=name, batch=batch, stages=len(numbers))
            log.info("batch_committed", sink=name, topic=str(topic), batch=batch, stages=len(numbers))
        elif outcome.warning:
            log.warning("batch_skipped", sink=name, topic=str(topic), batch=batch, why=outcome.warning)
        self.leader.poke(key)
        return outcome, not sink.chosen

    async def _when_room(
        self, key: str, step: Callable[[Sink | None], tuple[Sink, Committed | AlreadyCommitted]]
    ) -> tuple[Sink, Committed | AlreadyCommitted]:
        until = self._runtime.monotonic() + COMMIT_WAIT_S
        while True:
            heard = asyncio.Event()
            self._heard.setdefault(key, []).append(heard)
            try:
                return await self.records.change(key, step)
            except Busy:
                self.leader.poke(key)
                left = until - self._runtime.monotonic()
                if left <= 0:
                    raise
                await within(heard.wait(), min(left, CALL_RETRY_S_MAX))
            finally:
                self._heard[key].remove(heard)
                if not self._heard[key]:
                    del self._heard[key]

    # Looking

    async def find(self, topic: TopicName, name: str) -> Sink:
        sink, _ = await self.records.read(codec.digest(str(topic), name))
        if sink is None:
            raise StageNotFound(f"{topic} has no sink {name}")
        return sink

    def trouble(self, sink: Sink) -> str:
        """The reason why publishing fails on this broker; empty if it works."""
        return self.leader.errors.get(codec.digest(sink.topic, sink.name), "")

    async def forget(self, topic: TopicName, name: str) -> None:
        """Deletes the sink with all its stages, published or not. Its next batch begins a new incarnation."""
        key = codec.digest(str(topic), name)
        while True:
            await self.find(topic, name)
            sink, version = await self.records.read(key)
            if sink is None or not await self.records.delete(key, version):
                continue
            numbers = [*(one.number for one in sink.stages), *(one.number for one in sink.chosen), *sink.dropped]
            log.info("sink_deleted", sink=name, topic=str(topic), last=sink.last, stages=len(numbers))
            for number in numbers:
                await self._stages.delete(codec.stage_topic(topic, StageId(key, sink.life, number)))
            return

    async def forget_all(self, namespace: NamespaceName) -> None:
        """Every sink whose topic is in this namespace."""
        async for _, sink in self.records.all():
            topic = topic_name(sink.topic)
            if topic.namespace == namespace:
                await self.forget(topic, sink.name)

    async def listed(self, name: TopicName) -> bool:
        """May the topic of this stage exist? Asked by its owner before it is made, and again after."""
        id = codec.stage_of(name)
        if id is None:
            return False
        sink, _ = await self.records.read(id.sink)
        return sink is not None and sink.life == id.life and machine.lists(sink, id.number)

    def _changed(self, event: Event) -> None:
        key = event.path.rpartition("/")[2]
        for heard in self._heard.get(key, ()):
            heard.set()
        self.leader.changed(key)

    def _new(self, topic: TopicName, name: str, *, once: bool) -> Sink:
        life = f"{self._runtime.rng('sinks').getrandbits(32):08x}"
        return Sink(topic=str(topic), name=name, life=life, once=once, changed_ms=self._runtime.wall())
