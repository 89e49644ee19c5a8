"""A member of a checkpoint group beside a scripted broker: its segments come from the controller, its places from the
group's hold."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from magnetar.base.errors import Misuse, Refused
from magnetar.base.ids import SegmentId
from magnetar.client.checkpoint import CheckpointConsumer, DataLost
from magnetar.client.checkpoint_group import last_of, next_of
from magnetar.client.options import checkpointing_of
from magnetar.client.schemas import BYTES
from magnetar.client.subscribing import InitialPosition
from magnetar.layout import stretch
from magnetar.layout.checkpoint import DONE, START, Reached
from magnetar.layout.stretch import Place
from magnetar.wire import plans
from magnetar.wire.ids import MessageId
from magnetar.wire.proto import pb
from tests.unit.client.checkpointed import K, World
from tests.unit.client.scaled import TOPIC, a_scaled
from tests.unit.client.scripted import single
from tests.unit.client.world import Link, run, turns

ROOT, LEFT = SegmentId(0), SegmentId(1)


class Group(World):
    """Keeps one hold, as a broker does."""

    def __init__(self, scaled: Any) -> None:
        super().__init__(scaled)
        self.held: dict[SegmentId, Place] | None = None
        self.lost: tuple[SegmentId, ...] = ()  # while nobody held anything
        self.broker.handlers[K.HOLD] = self._hold

    def _hold(self, link: Link, command: pb.BaseCommand) -> bool:
        asked = command.hold
        new = self.held is None
        self.held = dict(self.held or {})
        if asked.HasField("places") and (new or not asked.begins):
            for id, place in plans.read_places(asked.places).items():
                self.held[id] = max(place, self.held.get(id, stretch.START))
        link.write(
            plans.held(
                asked.request_id,
                self.held,
                incarnation=1,
                until_ms=1,
                moved=new,
                expired=bool(self.lost),
                lost=self.lost,
            )
        )
        return True


@asynccontextmanager
async def a_group(segments: int = 1, *, ours: bool = True) -> AsyncIterator[tuple[Group, Any]]:
    async with a_scaled(segments, ours=ours) as (scaled, lookup):
        world = Group(scaled)
        made: list[CheckpointConsumer[bytes]] = []

        async def begin(start: Any = InitialPosition.EARLIEST) -> CheckpointConsumer[bytes]:
            asked = checkpointing_of(str(TOPIC), {"name": "c"}, "1", "g")
            consumer: CheckpointConsumer[bytes] = CheckpointConsumer(
                lookup, str(TOPIC), asked, start=start, schema=BYTES, grouped=True
            )
            world.consumer = consumer
            made.append(consumer)
            await consumer.start()
            return consumer

        try:
            yield world, begin
        finally:
            for consumer in made:
                await consumer.close()


def test_it_registers_as_a_checkpoint_consumer_and_reads_under_the_groups_name():
    async def body() -> None:
        async with a_group(2) as (world, begin):
            await begin()
            [registered] = world.broker.kinds(K.SCALABLE_TOPIC_SUBSCRIBE)
            said = registered.scalableTopicSubscribe
            assert (said.consumer_type, said.subscription, said.consumer_name) == (pb.CHECKPOINT, "g", "c")
            for command in world.broker.kinds(K.SUBSCRIBE):
                assert (command.subscribe.subscription, command.subscribe.durable) == ("g", False)

    run(body)


def test_a_segment_is_opened_where_the_group_is_h_g5():
    async def body() -> None:
        async with a_group(2) as (world, begin):
            world.held = {ROOT: Place(100, 7)}
            await begin()
            assert world.start_of(0) == (100, 6)
            assert world.start_of(1) == (-1, -1)

    run(body)


def test_latest_moves_a_new_group_and_not_one_that_is_there():
    async def body() -> None:
        async with a_group() as (world, begin):
            world.mark[0] = MessageId(100, 41)
            consumer = await begin(InitialPosition.LATEST)
            assert world.held == {ROOT: Place(100, 42)}
            await consumer.close()
            world.mark[0] = MessageId(100, 99)
            await begin(InitialPosition.LATEST)
            assert world.held == {ROOT: Place(100, 42)}

    run(body)


def test_where_a_new_group_begins_is_said_in_one_breath_so_that_no_member_starts_in_between():
    async def body() -> None:
        async with a_group() as (world, begin):
            world.mark[0] = MessageId(100, 41)
            await begin(InitialPosition.LATEST)
            first = world.broker.kinds(K.HOLD)[0].hold
            assert first.begins
            assert plans.read_places(first.places) == {ROOT: Place(100, 42)}

    run(body)


def test_a_group_whose_hold_had_expired_hears_what_it_lost_h_g4():
    async def body() -> None:
        async with a_group(2) as (world, begin):
            world.held, world.lost = {ROOT: Place(100, 7)}, (LEFT,)
            with pytest.raises(DataLost):
                await begin()

    run(body)


def test_a_checkpoint_says_how_far_this_one_is_and_answers_for_all():
    async def body() -> None:
        async with a_group(2) as (world, begin):
            consumer = await begin()
            world.scaled.deliver(0, 0, single(b"a"))
            await consumer.receive(60)
            assert world.held == dict.fromkeys((ROOT, LEFT), stretch.START)
            world.held = {LEFT: Place(101, 5)}  # another member's
            kept = await consumer.checkpoint()
            assert world.held == {ROOT: Place(100, 1), LEFT: Place(101, 5)}
            assert kept.places == {ROOT: Reached(100, 0), LEFT: Reached(101, 4)}

    run(body)


def test_the_end_of_a_segment_is_said_with_the_next_checkpoint_and_then_it_is_left():
    async def body() -> None:
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
            assert world.held[ROOT] == stretch.DONE
            await turns(lambda: consumer.segments == [])

    run(body)


def test_an_end_that_comes_after_the_checkpoint_that_covers_everything_is_said_by_itself():
    """Else who waits for the next message before it says more would wait for ever."""

    async def body() -> None:
        async with a_group() as (world, begin):
            consumer = await begin()
            world.scaled.deliver(0, 0, single(b"a"))
            await consumer.receive(60)
            await consumer.checkpoint()
            world.split(0)
            world.scaled.end(0)
            await world.broker.until(lambda: world.held == {ROOT: stretch.DONE})
            await turns(lambda: consumer.segments == [])

    run(body)


def test_a_segment_that_is_taken_away_is_left_with_the_checkpoint_that_covers_what_was_received():
    async def body() -> None:
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
            assert world.held[LEFT] == Place(101, 1)

    run(body)


def test_an_older_assignment_that_comes_later_takes_nothing_away():
    """A push may overtake the answer to a registration."""

    async def body() -> None:
        async with a_group(2) as (world, begin):
            consumer = await begin()
            world.scaled.assign(0, 1, generation=7)
            world.scaled.assign(generation=6)
            world.scaled.assign(0, generation=8)
            await turns(lambda: consumer.segments == [0])
            world.scaled.assign(0, 1, generation=9)
            world.scaled.assign(generation=6)
            await turns(lambda: consumer.segments == [0, 1])

    run(body)


def test_a_segment_of_which_nothing_was_received_is_left_at_once():
    async def body() -> None:
        async with a_group(2) as (world, begin):
            consumer = await begin()
            world.scaled.assign(0, generation=2)
            await turns(lambda: consumer.segments == [0])

    run(body)


def test_a_member_cannot_move_its_group_and_a_broker_without_holds_has_no_groups():
    async def body() -> None:
        async with a_group() as (_, begin):
            consumer = await begin()
            with pytest.raises(Misuse):
                await consumer.seek(InitialPosition.EARLIEST)
        async with a_group(ours=False) as (_, begin):
            with pytest.raises(Refused):
                await begin()

    run(body)


@pytest.mark.parametrize(
    "place", [START, DONE, Reached(3, 4), Reached(3, -1), Reached(3, 4, 2, 4), Reached(3, 4, 0, 2)]
)
def test_the_last_message_read_and_the_next_one_to_read_say_the_same(place):
    assert last_of(next_of(place)) == place
