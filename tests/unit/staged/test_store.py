"""Records under several writers and a store that loses answers: each knows its own write."""

from __future__ import annotations

import pytest

from magnetar.base.errors import NotReady, StageNotFound
from magnetar.metadata import paths
from magnetar.staged import codec, machine
from magnetar.staged.codec import StageId
from magnetar.staged.machine import Sink
from magnetar.staged.store import SinkStore
from simulation.environment.inline_runtime import InlineRuntime
from simulation.stores.metadata import MemoryStore
from tests.unit.topic.world import NoFiles

KEY = "a" * 20
NEW = Sink(topic="persistent://t/n/x", name="s", life="00000001")


def begun(sink: Sink | None) -> tuple[Sink, int]:
    after, outcome = machine.begin(sink or NEW, 0, run="", now_ms=5, lease_ms=5)
    assert isinstance(outcome, machine.StageBegun)
    return after, outcome.number


async def test_two_that_decide_same_from_same_write_different_bytes() -> None:
    store = MemoryStore()
    written = []
    for seed in range(2):
        records = SinkStore(store, InlineRuntime(NoFiles(), seed))
        await records.change(KEY, begun)
        node = await store.get(paths.sink(KEY))
        assert node is not None
        written.append(node.value)
        await store.delete(paths.sink(KEY))
    assert written[0] != written[1]


async def test_step_that_changes_nothing_is_not_written() -> None:
    store = MemoryStore()
    records = SinkStore(store, InlineRuntime(NoFiles()))
    await records.change(KEY, begun)
    before = store.puts
    await records.update(KEY, lambda sink: sink)
    assert store.puts == before


async def test_race_that_never_ends_is_given_up() -> None:
    store = MemoryStore()
    records = SinkStore(store, InlineRuntime(NoFiles()))
    rival = SinkStore(MemoryStore(content=store.content), InlineRuntime(NoFiles(), 1))
    await records.change(KEY, begun)
    raced = 0

    class Raced(SinkStore):
        async def read(self, key: str) -> tuple[Sink | None, int]:
            nonlocal raced
            found = await super().read(key)
            raced += 1
            await rival.update(key, lambda sink: machine.drop(begun(sink)[0], (), now_ms=1))
            return found

    with pytest.raises(NotReady):
        await Raced(store, InlineRuntime(NoFiles(), 2)).update(KEY, lambda sink: begun(sink)[0])
    assert raced > 10


async def test_sink_that_is_gone_or_another_life_is_told_apart() -> None:
    records = SinkStore(MemoryStore(), InlineRuntime(NoFiles()))
    with pytest.raises(StageNotFound):
        await records.update(KEY, lambda sink: sink)
    await records.change(KEY, begun)
    assert (await records.of(StageId(KEY, NEW.life, 0))).issued == 1
    with pytest.raises(StageNotFound):
        await records.of(StageId(KEY, "00000002", 0))
    with pytest.raises(StageNotFound):
        await records.issued(StageId(KEY, "00000002", 0), lambda sink: sink)
    _, version = await records.read(KEY)
    assert not await records.delete(KEY, version + 1)
    assert await records.delete(KEY, version)
    assert not await records.delete(KEY, version)


async def test_unreadable_record_hides_no_other() -> None:
    store = MemoryStore()
    records = SinkStore(store, InlineRuntime(NoFiles()))
    await store.put(paths.sink("b" * 20), b"nonsense")
    await records.change(KEY, begun)
    assert [key async for key, _ in records.all()] == [KEY]
    assert codec.decode(codec.encode(NEW)) == NEW
