"""The blocking checkpoint consumer on the client's own loop thread, beside a scripted broker: what its threads have
taken counts when a reader is left, and what they have not taken by then comes again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any

import pytest

from magnetar.base.ids import SegmentId
from magnetar.client.consumer.scalable.checkpoint.consumer import CheckpointConsumer as AsyncCheckpointConsumer
from magnetar.client.sync.checkpoint import CheckpointConsumer
from magnetar.layout.checkpoint import START, SegmentPosition
from magnetar.layout.readable_range import ReadPosition
from magnetar.runtime.portal import Portal, portal
from magnetar.wire import commands
from magnetar.wire.proto import pb
from tests.support.broker_script import single
from tests.support.checkpoint_consumer import World, a_world
from tests.unit.client.consumer.scalable.checkpoint.test_group import Group, a_group
from tests.unit.client.world import turns

WAIT_S = 60


class Here:
    """The client's place."""

    def _core(self) -> tuple[Portal, Any]:
        return portal(), None


@contextmanager
def blocking(
    made: AbstractAsyncContextManager[tuple[Any, Any]],
) -> Iterator[tuple[Any, CheckpointConsumer[bytes]]]:
    async def make(client: Any) -> AsyncCheckpointConsumer[Any]:
        consumer: AsyncCheckpointConsumer[Any] = await begin()
        return consumer

    world, begin = portal().run(made.__aenter__, WAIT_S)
    try:
        yield world, CheckpointConsumer(Here(), make)
    finally:
        portal().run(lambda: made.__aexit__(None, None, None), WAIT_S)


def bring(world: World, *entries: int, segment: int = 0) -> None:
    """Until all of them wait to be taken."""

    async def work() -> None:
        for entry in entries:
            world.scaled.deliver(segment, entry, single(b"%d" % entry))
        await turns(lambda: world.consumer.queued == len(entries))

    portal().run(work, WAIT_S)


def until(seen: Callable[[], bool]) -> None:
    portal().run(lambda: turns(seen), WAIT_S)


def refuse(world: World) -> None:
    """The reader loses its broker, and is told that nobody has the segment; then it is there again."""

    async def work() -> None:
        id = world.scaled.consumer(0)
        world.scaled.refusals[world.scaled.name(0)] = [pb.TopicNotFound]
        world.scaled.consumers.pop(id)[1].write(commands.close_consumer(id))
        await world.broker.until(lambda: not world.scaled.refusals[world.scaled.name(0)])
        await world.on(0)

    portal().run(work, WAIT_S)


@pytest.mark.parametrize("taken", [1, 2, 3])
def test_messages_taken_by_threads_before_refusal_are_not_repeated(taken: int) -> None:
    with blocking(a_world()) as (world, consumer):
        bring(world, 0, 1, 2)
        assert [consumer.receive(WAIT_S).data for _ in range(taken)] == [b"0", b"1", b"2"][:taken]
        refuse(world)
        assert world.start_of(0) == (100, taken - 1)
        assert consumer.queued == 0
        bring(world, 7)
        assert consumer.receive(WAIT_S).data == b"7"
        assert consumer.checkpoint().places == {SegmentId(0): SegmentPosition(100, 7)}


def test_reconnected_reader_continues_after_messages_held_for_threads() -> None:
    with blocking(a_world()) as (world, consumer):
        bring(world, 0, 1, 2)
        assert consumer.receive(WAIT_S).data == b"0"
        portal().call(world.broker.cut)
        until(lambda: len(world.starts()) == 1 and world.start_of(0) == (100, 2))
        assert [consumer.receive(WAIT_S).data for _ in range(2)] == [b"1", b"2"]


def test_messages_of_threads_keep_revoked_segment_until_checkpoint() -> None:
    with blocking(a_group(2)) as (world, consumer):
        assert isinstance(world, Group)
        bring(world, 0, 1)
        message = consumer.receive(WAIT_S)
        portal().call(lambda: world.scaled.assign(1, generation=2))
        until(lambda: consumer.queued == 0)  # what no thread has is for whoever reads on
        assert not message._delivery.source.closed
        assert consumer.positions == {0: SegmentPosition(100, 0), 1: START}
        consumer.checkpoint()
        until(lambda: consumer.segments == [1])
        assert world.held is not None
        assert world.held[SegmentId(0)] == ReadPosition(100, 1)


def test_nothing_of_before_seek_is_given_after_it() -> None:
    with blocking(a_world()) as (world, consumer):
        start = consumer.checkpoint()
        bring(world, 0, 1, 2)
        assert consumer.receive(WAIT_S).data == b"0"
        assert consumer.queued == 2
        consumer.seek(start)
        assert consumer.queued == 0
        assert consumer.checkpoint() == start
