"""Brokers that share one store of sinks, and stages that are lists: a fault can be put in front of every call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from magnetar.base.errors import MagnetarError, NotReady, TopicNotFound
from magnetar.base.names import TopicName, topic_name
from magnetar.staged import codec
from magnetar.staged.codec import StageId
from magnetar.staged.machine import AlreadyCommitted, CommittedStage, Sink
from magnetar.staged.publisher import Saved
from magnetar.staged.service import StagedSinkService
from simulation.environment.inline_runtime import InlineRuntime
from simulation.stores.metadata import MemoryStore
from tests.support.async_tests import provides, within
from tests.support.virtual_clock import run_on_clock
from tests.unit.topic.world import NoFiles

TARGET = topic_name("persistent://t/n/rows")


def anybody(topic: str) -> None:
    """May do anything with the stages of any topic."""


@dataclass
class Topics:
    """Keeps `Stages`; of all brokers."""

    stages: dict[TopicName, list[str]] = field(default_factory=dict)
    sealed: set[TopicName] = field(default_factory=set)
    target: list[str] = field(default_factory=list)
    marks: dict[str, int] = field(default_factory=dict)
    refuse: list[str] = field(default_factory=list)  # the next calls of these names fail
    refusal: type[MagnetarError] = NotReady  # in this way
    interrupt: Callable[[str], None] = lambda row: None  # before a row is published

    async def create(self, topic: TopicName) -> None:
        self._try("create")
        self.stages.setdefault(topic, [])

    async def seal(self, topic: TopicName) -> int:
        self._try("seal")
        if topic not in self.stages:
            raise TopicNotFound(str(topic))
        self.sealed.add(topic)
        return len(self.stages[topic])

    async def delete(self, topic: TopicName) -> None:
        self._try("delete")
        self.stages.pop(topic, None)

    async def partitions(self, topic: TopicName) -> int:
        self._try("partitions")
        return 0

    async def publish(self, sink: Sink, chosen: CommittedStage, stage: TopicName, saved: Saved) -> None:
        self._try("publish")
        assert stage in self.sealed
        producer = codec.producer(sink, chosen.producer)
        for index, row in enumerate(self.stages[stage]):
            if index < chosen.published:
                continue
            self.interrupt(row)
            if chosen.first + index > self.marks.get(producer, -1):
                self.target.append(row)
                self.marks[producer] = chosen.first + index
            if index % 2:
                await saved(index + 1)
        await saved(chosen.messages)

    def _try(self, call: str) -> None:
        if call in self.refuse:
            self.refuse.remove(call)
            raise self.refusal(f"{call} fails")


async def every_path(path: str) -> bool:
    return True


@dataclass
class World:
    content: MemoryStore = field(default_factory=MemoryStore)
    topics: Topics = field(default_factory=Topics)
    brokers: list[StagedSinkService] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)

    def broker(self, *, started: bool = True) -> StagedSinkService:
        number = len(self.brokers)
        made = StagedSinkService(
            MemoryStore(content=self.content.content),
            InlineRuntime(NoFiles(), number),
            self.topics,
            me=lambda: f"broker-{number}",
            sweeps=every_path,
            failed=lambda name, error: self.failures.append(error),
        )
        if started:
            made.start()
        self.brokers.append(made)
        return made

    async def stage(self, sinks: StagedSinkService, batch: int, *rows: str, name: str = "s") -> StageId:
        """Begun, written and sealed."""
        begun = await sinks.begin(TARGET, name, batch)
        assert not isinstance(begun, AlreadyCommitted)
        self.topics.stages[begun[1]] += rows
        assert await sinks.seal(begun[0], anybody) == len(rows)
        return begun[0]


@provides(World)
async def closed_world() -> AsyncIterator[World]:
    """A world whose brokers close after the test. A failure other than an error of the product fails the test."""
    world = World()
    try:
        yield world
    finally:
        for one in world.brokers:
            await one.close()
    assert [error for error in world.failures if not isinstance(error, MagnetarError)] == []


def run(body: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    run_on_clock(lambda: within(closed_world(), body))
