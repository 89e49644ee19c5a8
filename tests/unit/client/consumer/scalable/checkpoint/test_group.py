"""A member of a checkpoint group beside a scripted broker: its segments come from the controller, its places from the
group's hold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from magnetar.base.errors import DataLost, Misuse, Refused
from magnetar.base.ids import Epoch, SegmentId
from magnetar.client.consumer.config import InitialPosition
from magnetar.client.consumer.scalable.checkpoint.consumer import CheckpointConsumer
from magnetar.client.consumer.scalable.checkpoint.group import last_of, next_of
from magnetar.client.options import checkpointing_of
from magnetar.client.schema import BYTES
from magnetar.layout import readable_range
from magnetar.layout.checkpoint import DONE, START, SegmentPosition
from magnetar.layout.readable_range import ReadPosition
from magnetar.wire import commands
from magnetar.wire.ids import MessageId
from magnetar.wire.proto import pb
from magnetar.wire.scalable import plans
from magnetar.wire.scalable.checkpoint import Checkpoint
from tests.support.broker_script import single
from tests.support.checkpoint_consumer import K, World
from tests.support.scalable_broker_script import TOPIC, a_scaled
from tests.unit.client.world import Link, turns

pytestmark = pytest.mark.real_clock

ROOT, LEFT, RIGHT = SegmentId(0), SegmentId(1), SegmentId(2)


class Group(World):
    """Keeps one hold, as a broker does."""

    def __init__(self, scaled: Any) -> None:
        super().__init__(scaled)
        self.held: dict[SegmentId, ReadPosition] | None = None
        self.lost: tuple[SegmentId, ...] = ()  # while nobody held anything
        self.expired = False
        self.broker.handlers[K.HOLD] = self._hold

    def _hold(self, link: Link, command: pb.BaseCommand) -> bool:
        asked = command.hold
        new = self.held is None
        if new and (asked.resumes or (asked.begins and not asked.HasField("places"))):
            link.write(commands.error(asked.request_id, pb.SubscriptionNotFound, "no such hold"))
            return True
        self.held = dict(self.held or {})
        if asked.HasField("places") and (new or not asked.begins):
            for id, place in plans.read_places(asked.places).items():
                self.held[id] = max(place, self.held.get(id, readable_range.START))
        link.write(
            plans.held(
                asked.request_id,
                self.held,
                incarnation=1,
                until_ms=1,
                moved=new,
                expired=self.expired,
                lost=self.lost if new or self.expired else (),
            )
        )
        return True


@asynccontextmanager
async def a_group(segments: int = 1, *, ours: bool = True) -> AsyncIterator[tuple[Group, Any]]:
    async with a_scaled(segments, ours=ours) as (scaled, lookup):
        world = Group(scaled)
        made: list[CheckpointConsumer[bytes]] = []

        async def begin(
            start: Any = InitialPosition.EARLIEST, *, topic: str = str(TOPIC), **said: Any
        ) -> CheckpointConsumer[bytes]:
            asked = checkpointing_of(topic, {"name": "c"}, "1", "g")
            consumer: CheckpointConsumer[bytes] = CheckpointConsumer(
                lookup, topic, asked, start=start, schema=BYTES, grouped=True, **said
            )
            world.consumer = consumer
            made.append(consumer)
            await consumer._start()
            return consumer

        try:
            yield world, begin
        finally:
            for consumer in made:
                await consumer.close()


async def test_it_registers_as_checkpoint_consumer_and_reads_under_groups_name() -> None:
    async with a_group(2) as (world, begin):
        await begin()
        [registered] = world.broker.kinds(K.SCALABLE_TOPIC_SUBSCRIBE)
        said = registered.scalableTopicSubscribe
        assert (said.consumer_type, said.subscription, said.consumer_name) == (pb.CHECKPOINT, "g", "c")
        for command in world.broker.kinds(K.SUBSCRIBE):
            assert (command.subscribe.subscription, command.subscribe.durable) == ("g", False)


async def test_segment_is_opened_where_group_is_h_g5() -> None:
    async with a_group(2) as (world, begin):
        world.held = {ROOT: ReadPosition(100, 7)}
        await begin()
        assert world.start_of(0) == (100, 6)
        assert world.start_of(1) == (-1, -1)


async def test_latest_moves_new_group_and_not_one_that_is_there() -> None:
    async with a_group() as (world, begin):
        world.mark[0] = MessageId(100, 41)
        consumer = await begin(InitialPosition.LATEST)
        assert world.held == {ROOT: ReadPosition(100, 42)}
        await consumer.close()
        world.mark[0] = MessageId(100, 99)
        await begin(InitialPosition.LATEST)
        assert world.held == {ROOT: ReadPosition(100, 42)}


@pytest.mark.parametrize("start", [InitialPosition.LATEST, 1234], ids=["latest", "time"])
async def test_group_of_migrated_topic_starts_by_old_name(start) -> None:
    async with a_group() as (world, begin):
        world.mark[0] = MessageId(100, 41)
        await begin(start, topic=str(TOPIC).replace("topic:", "persistent:"))
        assert world.held == {ROOT: ReadPosition(100, 42)}


async def test_start_of_new_group_is_stored_in_one_step() -> None:
    async with a_group() as (world, begin):
        world.mark[0] = MessageId(100, 41)
        await begin(InitialPosition.LATEST)
        first = world.broker.kinds(K.HOLD)[0].hold
        assert first.begins
        assert plans.read_places(first.places) == {ROOT: ReadPosition(100, 42)}


async def test_group_with_expired_hold_reports_loss_h_g4() -> None:
    async with a_group(2) as (world, begin):
        world.held, world.lost, world.expired = {ROOT: ReadPosition(100, 7)}, (LEFT,), True
        with pytest.raises(DataLost):
            await begin()


def kept(epoch: int = 0, **places: SegmentPosition) -> Checkpoint:
    names = {"root": ROOT, "left": LEFT, "right": RIGHT}
    return Checkpoint({names[name]: place for name, place in places.items()}, Epoch(epoch), str(TOPIC), 1)


def pruned(world: Group) -> int:
    """The first segment was split, and is gone."""
    later = world.scaled.layout.split(ROOT, now_ms=1).removed(ROOT)
    world.scaled.show(later)
    return later.epoch


async def test_new_group_reports_deleted_segment_and_leaves_no_hold_h_g4() -> None:
    async with a_group() as (world, begin):
        pruned(world)
        for _ in range(2):  # whoever tries again hears it again
            with pytest.raises(DataLost, match=r"or start elsewhere\."):
                await begin(kept(root=SegmentPosition(100, 7)))
            assert world.held is None
        gaps: list[Any] = []
        consumer = await begin(kept(root=SegmentPosition(100, 7)), on_gap=gaps.append)
        assert [(gap.segment, gap.place) for gap in gaps] == [(ROOT, SegmentPosition(100, 7))]
        assert consumer.counters.gaps == 1


async def test_existing_group_loses_nothing_by_older_checkpoint_of_member() -> None:
    async with a_group() as (world, begin):
        epoch = pruned(world)
        world.held = {LEFT: readable_range.START, RIGHT: readable_range.START}
        consumer = await begin(kept(root=SegmentPosition(100, 7)))
        assert (await consumer.checkpoint()).places == {LEFT: START, RIGHT: START}
        assert consumer.counters.gaps == 0
        assert epoch > 0


@pytest.mark.parametrize("place", [START, SegmentPosition(100, 7), SegmentPosition(100, 9, 1, 4)], ids=str)
async def test_new_group_reports_trimmed_messages_once_h_g4(place) -> None:
    async with a_group() as (world, begin):
        world.deleted[0], world.lost = MessageId(100, 9), (ROOT,)
        for _ in range(2):  # the first leaves a hold: who comes later finds it there
            with pytest.raises(DataLost, match=r"release the group's hold \(g\)"):
                await begin(kept(root=place))
        world.held = None
        gaps: list[Any] = []
        consumer = await begin(kept(root=place), on_gap=gaps.append)
        assert [(gap.segment, gap.place) for gap in gaps] == [(ROOT, place)]
        assert (await consumer.checkpoint()).places == {ROOT: SegmentPosition(100, 9)}


async def test_new_group_reports_losses_of_unopened_segments_h_g4() -> None:
    async with a_group() as (world, begin):
        world.split(0)
        world.lost = (LEFT,)
        with pytest.raises(DataLost, match="segment 1"):
            await begin(kept(root=SegmentPosition(100, 7)))


async def test_new_group_at_earliest_starts_at_rest_and_says_so() -> None:
    async with a_group() as (world, begin):
        world.deleted[0], world.lost = MessageId(100, 9), (ROOT,)
        consumer = await begin()
        assert (await consumer.checkpoint()).places == {ROOT: SegmentPosition(100, 9)}
        assert consumer.counters.gaps == 0


async def test_empty_segment_ends_itself_and_is_returned_immediately() -> None:
    """Nothing of it was received: no checkpoint need be waited for."""

    async with a_group(2) as (world, begin):
        world.deleted = {0: MessageId(100, 9), 1: MessageId(101, 9)}
        consumer = await begin()
        world.scaled.assign(0, generation=2)
        await turns(lambda: consumer.segments == [0])
        world.split(0)
        world.scaled.end(0)
        await world.broker.until(lambda: world.held is not None and world.held.get(ROOT) == readable_range.DONE)
        await turns(lambda: consumer.segments == [])


async def test_member_waits_for_layout_older_than_checkpoint_h_g8() -> None:
    async with a_group() as (world, begin):
        later = world.scaled.layout.split(ROOT, now_ms=1)
        opening = asyncio.ensure_future(begin(kept(later.epoch, root=DONE, left=SegmentPosition(101, 3), right=START)))
        await world.broker.until(lambda: bool(world.scaled.watching))
        await turns(lambda: bool(world.consumer._reading._watch._waiting))
        assert world.held is None
        world.scaled.show(later)
        await opening
        assert world.held == {ROOT: readable_range.DONE, LEFT: ReadPosition(101, 4), RIGHT: readable_range.START}


async def test_checkpoint_states_own_progress_and_covers_all() -> None:
    async with a_group(2) as (world, begin):
        consumer = await begin()
        world.scaled.deliver(0, 0, single(b"a"))
        await consumer.receive(60)
        assert world.held == dict.fromkeys((ROOT, LEFT), readable_range.START)
        world.held = {LEFT: ReadPosition(101, 5)}  # another member's
        kept = await consumer.checkpoint()
        assert world.held == {ROOT: ReadPosition(100, 1), LEFT: ReadPosition(101, 5)}
        assert kept.places == {ROOT: SegmentPosition(100, 0), LEFT: SegmentPosition(101, 4)}


async def test_segment_end_is_reported_with_next_checkpoint() -> None:
    async with a_group() as (world, begin):
        consumer = await begin()
        world.scaled.deliver(0, 0, single(b"a"))
        await consumer.receive(60)
        world.split(0)
        world.scaled.end(0)
        await turns(lambda: ROOT in consumer._reading._over)  # type: ignore[union-attr]
        assert consumer.segments == [0]
        assert (await consumer.checkpoint()).places[ROOT] == DONE
        assert world.held is not None
        assert world.held[ROOT] == readable_range.DONE
        await turns(lambda: consumer.segments == [])


async def test_late_end_after_covering_checkpoint_is_reported_alone() -> None:
    """Else who waits for the next message before it says more would wait for ever."""

    async with a_group() as (world, begin):
        consumer = await begin()
        world.scaled.deliver(0, 0, single(b"a"))
        await consumer.receive(60)
        await consumer.checkpoint()
        world.split(0)
        world.scaled.end(0)
        await world.broker.until(lambda: world.held == {ROOT: readable_range.DONE})
        await turns(lambda: consumer.segments == [])


async def test_revoked_segment_is_left_with_covering_checkpoint() -> None:
    async with a_group(2) as (world, begin):
        consumer = await begin()
        world.scaled.deliver(1, 0, single(b"a"))
        await consumer.receive(60)
        world.scaled.assign(0, generation=2)
        await turns(lambda: LEFT in consumer._reading._revoked)  # type: ignore[union-attr]
        assert consumer.segments == [0, 1]
        await consumer.checkpoint()
        await turns(lambda: consumer.segments == [0])
        assert world.held is not None
        assert world.held[LEFT] == ReadPosition(101, 1)


async def test_older_assignment_that_comes_later_takes_nothing_away() -> None:
    """A push may overtake the answer to a registration."""

    async with a_group(2) as (world, begin):
        consumer = await begin()
        world.scaled.assign(0, 1, generation=7)
        world.scaled.assign(generation=6)
        world.scaled.assign(0, generation=8)
        await turns(lambda: consumer.segments == [0])
        world.scaled.assign(0, 1, generation=9)
        world.scaled.assign(generation=6)
        await turns(lambda: consumer.segments == [0, 1])


async def test_segment_of_which_nothing_was_received_is_left_at_once() -> None:
    async with a_group(2) as (world, begin):
        consumer = await begin()
        world.scaled.assign(0, generation=2)
        await turns(lambda: consumer.segments == [0])


async def test_member_cannot_seek_group_and_old_broker_has_no_groups() -> None:
    async with a_group() as (_, begin):
        consumer = await begin()
        with pytest.raises(Misuse):
            await consumer.seek(InitialPosition.EARLIEST)
    async with a_group(ours=False) as (_, begin):
        with pytest.raises(Refused):
            await begin()


@pytest.mark.parametrize(
    "place",
    [
        START,
        DONE,
        SegmentPosition(3, 4),
        SegmentPosition(3, -1),
        SegmentPosition(3, 4, 2, 4),
        SegmentPosition(3, 4, 0, 2),
    ],
)
def test_last_message_read_and_next_one_to_read_say_same(place):
    assert last_of(next_of(place)) == place
