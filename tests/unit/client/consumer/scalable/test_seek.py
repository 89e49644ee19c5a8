"""A subscription moved by one of its consumers: what is asked, and that nothing of before comes after it."""

from __future__ import annotations

import pytest

from magnetar.base.errors import Conflict, Misuse, Refused
from magnetar.base.ids import Epoch, SegmentId
from magnetar.client.connection.lookup import Lookup
from magnetar.client.consumer.config import InitialPosition
from magnetar.client.consumer.scalable.seek import SeekTo, move, sought
from magnetar.layout.checkpoint import DONE, START, SegmentPosition
from magnetar.layout.readable_range import DONE as BEHIND_ALL
from magnetar.layout.readable_range import START as BEFORE_ALL
from magnetar.layout.readable_range import ReadPosition
from magnetar.wire import commands
from magnetar.wire.proto import pb
from magnetar.wire.scalable.checkpoint import Checkpoint
from magnetar.wire.scalable.plans import read_places
from tests.support.broker_script import single
from tests.support.stream_consumer import World, a_world
from tests.unit.client.batch_read.test_plan import speaks
from tests.unit.client.world import Broker, Link, a_broker, a_lookup, turns

pytestmark = pytest.mark.real_clock

K = pb.BaseCommand
T = "topic://public/default/t"
EARLIEST, LATEST = InitialPosition.EARLIEST, InitialPosition.LATEST
PLACES = {
    SegmentId(0): DONE,
    SegmentId(1): START,
    SegmentId(2): SegmentPosition(7, 4),
    SegmentId(3): SegmentPosition(8, 4, 1, 3),
    SegmentId(4): SegmentPosition(9, 4, 2, 3),
}


def answers(broker: Broker, *codes: int) -> None:
    """With these errors, one after the other, and then with success."""
    left = list(codes)

    def sought(link: Link, command: pb.BaseCommand) -> bool:
        id = command.seekSubscription.request_id
        link.write(commands.error(id, left.pop(0), "no") if left else commands.success(id))
        return True

    broker.handlers[K.SEEK_SUBSCRIPTION] = sought


async def moved(lookup: Lookup, to: SeekTo) -> None:
    await move(lookup, lambda: None, T, "s", to)


async def test_target_is_passed_unchanged_and_partial_batch_returns_whole() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        speaks(broker)
        answers(broker)
        for to in (EARLIEST, LATEST, 77, Checkpoint(PLACES, Epoch(3), T, 9)):
            await moved(lookup, to)
        first, last, time, places = [one.seekSubscription for one in broker.kinds(K.SEEK_SUBSCRIPTION)]
        assert (first.topic, first.subscription, first.to) == (T, "s", pb.FROM_EARLIEST)
        assert (last.to, time.to, time.publish_time) == (pb.FROM_LATEST, pb.FROM_TIME, 77)
        assert not any(one.HasField("places") for one in (first, last, time))
        assert places.incarnation == 9
        stands = [BEHIND_ALL, BEFORE_ALL, ReadPosition(7, 5), ReadPosition(8, 4), ReadPosition(9, 5)]
        assert read_places(places.places) == dict(zip(PLACES, stands, strict=True))
        with pytest.raises(Misuse):
            await moved(lookup, Checkpoint({}, topic=T))


async def test_unready_leader_is_retried_and_later_seek_wins() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        speaks(broker)
        answers(broker, pb.ServiceNotReady, pb.UnknownError)
        await moved(lookup, EARLIEST)
        assert len(broker.kinds(K.SEEK_SUBSCRIPTION)) == 3
        answers(broker, pb.MetadataError)
        with pytest.raises(Conflict):
            await moved(lookup, EARLIEST)
        assert len(broker.kinds(K.SEEK_SUBSCRIPTION)) == 4


async def test_broker_without_our_commands_is_not_asked() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        with pytest.raises(Refused):
            await moved(lookup, EARLIEST)
        assert broker.kinds(K.SEEK_SUBSCRIPTION) == []


def test_checkpoint_moves_its_topic_and_other_targets_move_all() -> None:
    assert sought(EARLIEST, ["a", "b"]) == sought(5, ["a", "b"]) == ["a", "b"]
    assert sought(Checkpoint(PLACES, topic="b"), ["a", "b"]) == ["b"]
    assert sought(Checkpoint(PLACES), ["a"]) == ["a"]
    old, new = "persistent://t/n/b", "topic://t/n/b"  # before and after a migration
    assert sought(Checkpoint(PLACES, topic=old), ["topic://t/n/a", new]) == [new]
    assert sought(Checkpoint(PLACES, topic=new), [old]) == [old]
    with pytest.raises(Misuse, match="another topic"):
        sought(Checkpoint(PLACES, topic="c"), ["a", "b"])
    with pytest.raises(Misuse, match="names no topic"):
        sought(Checkpoint(PLACES), ["a", "b"])


def closes_late(world: World) -> None:
    """The word that a consumer was sent away is still on its way when the leader says that all is moved."""
    scaled = world.scaled
    answers(world.broker)

    def last(link: Link, command: pb.BaseCommand) -> bool:
        id, (_, home) = next(iter(scaled.consumers.items()))
        del scaled.consumers[id]
        home.write(commands.close_consumer(id))
        link.write(commands.error(command.getLastMessageId.request_id, pb.ConsumerNotFound, "it was sent away"))
        return True

    def subscribed(link: Link, command: pb.BaseCommand) -> bool:
        scaled.consumers[command.subscribe.consumer_id] = (command.subscribe.topic, link)
        link.write(commands.success(command.subscribe.request_id, seeks=1))
        return True

    world.broker.handlers[K.GET_LAST_MESSAGE_ID] = last
    world.broker.handlers[K.SUBSCRIBE] = subscribed


async def test_nothing_before_seek_is_returned_or_acknowledged_afterwards() -> None:
    async with a_world(ack_group_s=60.0) as world:
        for entry in range(5):
            world.scaled.deliver(0, entry, single(b"before"))
        await turns(lambda: world.consumer.queued == 5)
        old = await world.take(2)
        await world.consumer.acknowledge_cumulative(old[0])  # waits for its group
        closes_late(world)
        await world.consumer.seek(EARLIEST)
        assert (world.consumer.queued, world.consumer.unacknowledged) == (0, 0)
        await world.consumer.acknowledge_cumulative(old[1])
        await world.open(0)
        world.scaled.deliver(0, 0, single(b"again"))
        [new] = await world.take(1)
        assert new.data == b"again"
        await world.consumer.acknowledge_cumulative(old[1], confirm=True)
        assert world.acks() == []
        await world.consumer.acknowledge_cumulative(new)
        world.share.parts[SegmentId(0)].acker.flush()
        await world.broker.until(lambda: world.acks() == [(world.scaled.name(0), 100, 0)])


async def test_seek_does_not_wait_for_acknowledgements_of_revoked_segment() -> None:
    async with a_world(2) as world:
        world.scaled.deliver(1, 0, single(b"in hand"))
        await world.take(1)
        waiting: list[tuple[Link, int]] = []

        def sought(link: Link, command: pb.BaseCommand) -> bool:
            waiting.append((link, command.seekSubscription.request_id))
            world.scaled.assign(0, generation=2)
            return True

        def left(link: Link, command: pb.BaseCommand) -> bool:
            for home, id in waiting:
                home.write(commands.success(id))
            return False

        def last(link: Link, command: pb.BaseCommand) -> bool:
            link.write(commands.error(command.getLastMessageId.request_id, pb.ConsumerNotFound, "not asked about"))
            return True

        handlers = world.broker.handlers
        closed = handlers[K.CLOSE_CONSUMER]
        handlers[K.SEEK_SUBSCRIPTION], handlers[K.GET_LAST_MESSAGE_ID] = sought, last
        handlers[K.CLOSE_CONSUMER] = lambda link, command: left(link, command) or closed(link, command)
        await world.consumer.seek(EARLIEST)
        await turns(lambda: world.consumer.segments == [0])


async def test_checkpoint_at_what_is_no_place_is_not_asked_about() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        speaks(broker)
        answers(broker)
        with pytest.raises(Misuse, match="position must be"):
            await moved(lookup, Checkpoint(places={SegmentId(1): SegmentPosition(-7, 3)}))
        assert broker.kinds(K.SEEK_SUBSCRIPTION) == []
