"""Publishes the stages that sinks have chosen and deletes those that they dropped: one broker at a time for each sink.

The holder of the sink's lock does the work. If a leader dies, another broker finds the work in its periodic sweep. Two
concurrent leaders do no harm: their messages are deduplicated, and the progress in the record only grows. This module
does not handle messages: `StageBackend` makes, seals, deletes and publishes stages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from magnetar.base.errors import Conflict, MagnetarError
from magnetar.base.limits import CALL_RETRY_S_MAX, CALL_RETRY_S_MIN, SINK_ONCE_S, SINK_SWEEP_S
from magnetar.base.names import TopicName, topic_name
from magnetar.metadata import paths
from magnetar.metadata.lock import Lock, Locks
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner, Runtime
from magnetar.staged import codec, machine
from magnetar.staged.codec import StageId
from magnetar.staged.machine import CommittedStage, Sink
from magnetar.staged.store import SinkStore

log = get("staged")

Saved = Callable[[int], Awaitable[None]]  # the number of messages of the stage that are stored


class StageBackend(Protocol):
    """The operations of a broker on stages. Each may be repeated; an error of the tree means that it is tried again."""

    async def create(self, topic: TopicName) -> None: ...

    async def seal(self, topic: TopicName) -> int:
        """Nothing more is written to it; how many messages it holds."""
        ...

    async def delete(self, topic: TopicName) -> None:
        """Deletes the topic and disconnects its writers; a missing topic is not an error."""
        ...

    async def partitions(self, topic: TopicName) -> int:
        """Of the topic that is published to, 0 if it has none. An error says that nothing can be published there."""
        ...

    async def publish(self, sink: Sink, chosen: CommittedStage, stage: TopicName, saved: Saved) -> None:
        """Everything from `chosen.published` on, in order, as the producer and with the sequence ids that it fixes."""
        ...


class StagePublisherLeader:
    """`me` is written into the locks. `sweeps`: whether this broker looks for the work that is left at a path."""

    def __init__(
        self,
        records: SinkStore,
        runtime: Runtime,
        stages: StageBackend,
        *,
        me: Callable[[], str],
        sweeps: Callable[[str], Awaitable[bool]],
        failed: Callable[[str, BaseException], None],
    ) -> None:
        self._records = records
        self._runtime = runtime
        self._stages = stages
        self._me = me
        self._sweeps = sweeps
        self._owner = Owner("sinks", failed)
        self._locks = Locks(records.store, runtime, "sinks")
        self._leading: dict[str, asyncio.Event] = {}  # sinks that are being worked on here -> look again
        self.errors: dict[str, str] = {}  # why publishing of a sink fails, if it was tried here
        self.rows = 0  # published here

    def start(self) -> None:
        self._runtime.spawn(self._owner, self._sweep())

    async def close(self) -> None:
        await self._owner.close()
        await self._locks.close()

    def changed(self, key: str) -> None:
        """Another writer changed the record."""
        wake = self._leading.get(key)
        if wake is not None:
            wake.set()

    def poke(self, key: str) -> None:
        """The sink may have work: start on it, unless this broker already works on it."""
        wake = self._leading.get(key)
        if wake is not None:
            wake.set()
        elif not self._owner.closed:
            self._leading[key] = asyncio.Event()
            self._runtime.spawn(self._owner, self._lead(key))

    async def _lead(self, key: str) -> None:
        """Runs until no work is left. A lost lock is harmless: see the top of the file."""
        again = self._leading[key]
        retry_s = CALL_RETRY_S_MIN
        lock: Lock | None = None
        try:
            while True:
                again.clear()
                try:
                    sink, _ = await self._records.read(key)
                    if sink is None or not machine.works(sink, now_ms=self._runtime.wall()):
                        return
                    if lock is None:
                        lock = await self._acquired(key)
                    if lock is None:
                        await within(again.wait(), CALL_RETRY_S_MAX)  # another broker leads it
                        continue
                    await self._work(key)
                    retry_s = CALL_RETRY_S_MIN
                    self.errors.pop(key, None)
                except MagnetarError as error:
                    if str(error) != self.errors.get(key):
                        log.warning("sink_publish_postponed", sink=key, why=str(error))
                    self.errors[key] = str(error)
                    await asyncio.sleep(retry_s)
                    retry_s = min(retry_s * 2, CALL_RETRY_S_MAX)
        finally:
            try:
                if lock is not None:
                    await self._locks.release(lock)
            except MagnetarError as error:
                log.info("lock_release_failed", sink=key, why=str(error))  # it ends with the session
            finally:
                del self._leading[key]
            if again.is_set():
                self.poke(key)

    async def _acquired(self, key: str) -> Lock | None:
        try:
            return await self._locks.acquire(paths.sink_leader(key), self._me().encode())
        except Conflict:
            return None

    async def _work(self, key: str) -> None:
        """Carries out the record: leases, then topics to delete, then stages to publish."""
        now_ms = self._runtime.wall()
        sink = await self._records.update(key, lambda one: machine.expire(one, now_ms=now_ms))
        await self._clear(key, sink)
        ready = machine.due(sink)
        if ready:
            done = await asyncio.gather(*(self._publish(key, sink, one) for one in ready), return_exceptions=True)
            for error in done:
                if error is not None:
                    raise error
            await self._clear(key, (await self._records.read(key))[0] or sink)

    async def _clear(self, key: str, sink: Sink) -> None:
        if not sink.dropped:
            return
        for number in sink.dropped:
            id = StageId(key, sink.life, number)
            await self._stages.delete(codec.stage_topic(topic_name(sink.topic), id))
            self._runtime.mark("stage.deleted", stage=str(id))
        await self._records.update(key, lambda one: machine.deleted(one, sink.dropped, now_ms=self._runtime.wall()))

    async def _publish(self, key: str, sink: Sink, chosen: CommittedStage) -> None:
        done = chosen.published

        async def saved(messages: int) -> None:
            nonlocal done
            self._runtime.mark("stage.poured", stage=str(id), messages=messages)
            self.rows += messages - done
            done = messages
            await self._records.update(
                key, lambda one: machine.published(one, chosen.number, messages, now_ms=self._runtime.wall())
            )

        id = StageId(key, sink.life, chosen.number)
        stage = codec.stage_topic(topic_name(sink.topic), id)
        self._runtime.mark("stage.publishing", stage=str(id), done=chosen.published)
        await self._stages.publish(sink, chosen, stage, saved)

    async def _sweep(self) -> None:
        """Repeats: work of a broker that died, expired leases, sinks of finished single jobs. Each sink is swept by one
        live broker."""
        while True:
            try:
                now_ms = self._runtime.wall()
                async for key, sink in self._records.some(self._sweeps):
                    if machine.works(sink, now_ms=now_ms):
                        self.poke(key)
                    elif sink.once and not sink.stages and now_ms - sink.changed_ms > SINK_ONCE_S * 1000:
                        await self._over(key)
            except MagnetarError as error:
                log.warning("sweep_failed", error=str(error))
            await asyncio.sleep(SINK_SWEEP_S)

    async def _over(self, key: str) -> None:
        sink, version = await self._records.read(key)
        if sink is not None and not (sink.stages or sink.chosen or sink.dropped):
            await self._records.delete(key, version)


async def within(wait: Awaitable[Any], seconds: float) -> None:
    """Wait for it, but no longer than that."""
    try:
        async with asyncio.timeout(seconds):
            await wait
    except TimeoutError:
        pass
