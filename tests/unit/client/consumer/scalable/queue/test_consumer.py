"""A queue consumer beside a scripted broker: on every segment, each message acknowledged by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from magnetar.base.errors import Closed, ConsumerBusy, Misuse, NotAuthorized, SubscriptionNotFound, TopicNotFound
from magnetar.base.ids import SegmentId
from magnetar.client.consumer.ack.dead_letter_publisher import MakeOutbox
from magnetar.client.consumer.config import DeadLetters, InitialPosition
from magnetar.client.consumer.scalable.queue.consumer import QueueConsumer
from magnetar.client.options import queueing_of
from magnetar.client.schema import BYTES
from magnetar.layout.plain_layout import migrated
from magnetar.wire import broker_frames, commands
from magnetar.wire.ids import MessageId
from magnetar.wire.proto import pb
from tests.support.broker_script import single
from tests.support.scalable_broker_script import TOPIC, Scaled, a_scaled
from tests.unit.client.world import Link, turns

pytestmark = pytest.mark.real_clock

K = pb.BaseCommand
PLAIN = "persistent://public/default/t"
SHARED = pb.CommandSubscribe.Shared
EARLIEST, LATEST = pb.CommandSubscribe.Earliest, pb.CommandSubscribe.Latest


class World:
    def __init__(self, scaled: Scaled, consumer: QueueConsumer[bytes]) -> None:
        self.scaled = scaled
        self.broker = scaled.broker
        self.consumer = consumer

    async def on(self, *segments: int) -> None:
        """Until exactly these are attached."""
        names = {self.scaled.name(id) for id in segments}
        await turns(
            lambda: (
                self.consumer.segments == list(segments)
                and self.consumer.connected
                and {topic for topic, _ in self.scaled.consumers.values()} == names
            )
        )

    def split(self, segment: int) -> None:
        self.scaled.show(self.scaled.layout.split(SegmentId(segment), now_ms=1))

    def asked(self) -> list[pb.CommandSubscribe]:
        return [command.subscribe for command in self.broker.kinds(K.SUBSCRIBE)]

    def acks(self) -> list[tuple[int, int]]:
        said = [command.ack for command in self.broker.kinds(K.ACK)]
        assert all(one.ack_type == pb.CommandAck.Individual for one in said)
        return [(id.ledgerId, id.entryId) for one in said for id in one.message_id]


class Held:
    """Commands that wait for the test to have them answered."""

    def __init__(self) -> None:
        self.said: list[tuple[Link, pb.BaseCommand]] = []

    def __call__(self, link: Link, command: pb.BaseCommand) -> bool:
        self.said.append((link, command))
        return True


async def no_outbox(topic: str, initial: str) -> Any:
    raise AssertionError("nothing is buried here")


@asynccontextmanager
async def a_world(
    segments: int = 1,
    *,
    started: bool = True,
    topic: str = str(TOPIC),
    make_outbox: MakeOutbox = no_outbox,
    **asked: Any,
) -> AsyncIterator[World]:
    asked = {"name": "c", "ack_group_s": 0.0, **asked}
    async with a_scaled(segments) as (scaled, lookup):
        consumer: QueueConsumer[bytes] = QueueConsumer(
            lookup, topic, queueing_of(topic, "s", asked), schema=BYTES, make_outbox=make_outbox
        )
        world = World(scaled, consumer)
        try:
            if started:
                await consumer._start()
                await world.on(*range(segments))
            yield world
        finally:
            await consumer.close()


async def test_it_attaches_to_every_segment_as_pulsars_client_does() -> None:
    async with a_world(2, priority=3) as world:
        kinds = {command.type for command in world.broker.commands}
        assert K.SCALABLE_TOPIC_SUBSCRIBE not in kinds
        for id, one in enumerate(sorted(world.asked(), key=lambda one: one.topic)):
            assert (one.topic, one.subscription, one.subType, one.durable) == (
                world.scaled.name(id),
                "s",
                SHARED,
                True,
            )
            assert (one.consumer_name, one.priority_level) == (f"c-seg-{id}", 3)
            assert (one.initialPosition, one.force_topic_creation) == (LATEST, True)


async def test_children_are_attached_from_first_message_without_creation_h_d3():
    async with a_world() as world:
        world.split(0)
        await world.on(0, 1, 2)
        children = world.asked()[1:]
        assert [(one.initialPosition, one.force_topic_creation) for one in children] == [(EARLIEST, False)] * 2


async def test_sealed_segment_is_left_when_broker_reports_drain_h_f13() -> None:
    async with a_world() as world:
        world.split(0)
        await world.on(0, 1, 2)
        world.scaled.end(0)
        await world.on(1, 2)
        assert len(world.asked()) == 3


async def test_messages_of_all_segments_are_acknowledged_individually_or_by_id() -> None:
    async with a_world(2) as world:
        for segment in range(2):
            for entry in range(2):
                world.scaled.deliver(segment, entry, single(b"m"))
        await turns(lambda: world.consumer.queued == 4)
        batch = await world.consumer.receive_batch(4)
        for message in batch:
            if message.id.entry == 1:
                await world.consumer.acknowledge(message.id if message.id.segment else message)
        await world.broker.until(lambda: len(world.acks()) == 2)
        assert sorted(world.acks()) == [(100, 1), (101, 1)]


async def test_what_is_refused_is_asked_for_by_itself() -> None:
    async with a_world(2) as world:
        for entry in range(3):
            world.scaled.deliver(1, entry, single(b"m"))
        taken = [await world.consumer.receive(60) for _ in range(3)]
        part = taken[1]._delivery.source
        await world.consumer.negative_acknowledge(taken[1])
        part.redelivery._ask(part.redelivery._nacks.take_due(1e12))  # its time has come
        await world.broker.until(lambda: bool(world.broker.kinds(K.REDELIVER_UNACKNOWLEDGED_MESSAGES)))
        [said] = world.broker.kinds(K.REDELIVER_UNACKNOWLEDGED_MESSAGES)
        asked = said.redeliverUnacknowledgedMessages
        assert asked.consumer_id == world.scaled.consumer(1)
        assert [(id.ledgerId, id.entryId) for id in asked.message_ids] == [(101, 1)]


async def test_acknowledgement_for_segment_that_was_left_is_nothing_to_do() -> None:
    async with a_world() as world:
        world.scaled.deliver(0, 0, single(b"m"))
        message = await world.consumer.receive(60)
        world.split(0)
        await world.on(0, 1, 2)
        world.scaled.end(0)
        await world.on(1, 2)
        await world.consumer.acknowledge(message)
        await world.consumer.negative_acknowledge(message.id)
        assert world.acks() == []


async def test_drained_segment_is_confirmed_despite_equal_number_elsewhere() -> None:
    async with a_world(retry=True, started=False) as world:
        await world.consumer._start()
        consumers = world.scaled.consumers
        assert len(consumers) == 2  # the topic of what is put off has a segment 0 too, and keeps it
        world.scaled.deliver(0, 0, single(b"m"))
        message = await world.consumer.receive(60)
        id = message.id
        world.split(0)
        await turns(lambda: len(consumers) == 6)
        drained = world.scaled.consumer(0)
        world.broker.handlers[K.CLOSE_CONSUMER] = held = Held()
        world.scaled.end(0)
        await world.broker.until(lambda: bool(held.said))
        await world.consumer.acknowledge(message, confirm=True)  # while it is being left
        world.scaled._close_consumer(*held.said.pop())
        assert drained not in consumers
        await turns(lambda: world.consumer.segments == [1, 2])
        await world.consumer.acknowledge(message, confirm=True)
        await world.consumer.acknowledge(id, confirm=True)
        assert world.acks() == []
        world.broker.handlers[K.CLOSE_CONSUMER] = world.scaled._close_consumer


async def test_lost_connection_is_reattached_without_creating_subscription_h_d9() -> None:
    async with a_world() as world:
        world.broker.cut()
        await world.broker.until(lambda: len(world.asked()) == 2)
        assert [one.force_topic_creation for one in world.asked()] == [True, False]
        await turns(lambda: world.consumer.connected)
        world.scaled.deliver(0, 0, single(b"again"))
        assert (await world.consumer.receive(60)).data == b"again"


async def test_subscription_that_was_removed_ends_consumer_h_d9() -> None:
    async with a_world(2) as world:
        world.scaled.refusals[world.scaled.name(0)] = [pb.SubscriptionNotFound]
        id = world.scaled.consumer(0)
        world.scaled.consumers.pop(id)[1].write(commands.close_consumer(id))
        with pytest.raises(SubscriptionNotFound):
            await world.consumer.receive(60)
        await turns(lambda: world.consumer.segments == [])


@pytest.mark.parametrize(("code", "error"), [(pb.AuthorizationError, NotAuthorized), (pb.ConsumerBusy, ConsumerBusy)])
async def test_refusal_at_start_is_callers_and_leaves_nothing_behind(code, error) -> None:
    async with a_world(2, started=False) as world:
        world.scaled.refusals[world.scaled.name(1)] = [code]
        with pytest.raises(error):
            await world.consumer._start()
        await world.broker.until(lambda: not world.scaled.consumers and not world.scaled.watching)


async def test_deleted_topic_is_told_to_whoever_receives() -> None:
    async with a_world() as world:
        world.scaled.gone()
        with pytest.raises(TopicNotFound):
            await world.consumer.receive(60)


async def test_paused_consumer_asks_for_nothing_on_new_segments_either() -> None:
    async with a_world(paused=True) as world:
        world.split(0)
        await world.on(0, 1, 2)
        assert world.broker.kinds(K.FLOW) == []
        world.consumer.resume()
        await world.broker.until(lambda: len(world.broker.kinds(K.FLOW)) == 3)


async def test_close_sends_what_is_acknowledged_and_ends_iteration() -> None:
    async with a_world(ack_group_s=60.0) as world:
        world.scaled.deliver(0, 0, single(b"1"))
        async for message in world.consumer:
            await world.consumer.acknowledge(message)
            await world.consumer.close()
        assert world.acks() == [(100, 0)]
        await world.broker.until(lambda: not world.scaled.consumers and not world.scaled.watching)
        with pytest.raises(Closed):
            await world.consumer.acknowledge(message)


class Buried:
    """Where messages were put, and which."""

    def __init__(self) -> None:
        self.put: list[tuple[str, bytes]] = []

    async def __call__(self, topic: str, initial: str) -> Any:
        put = self.put

        class Outbox:
            async def send(self, value: bytes, **said: Any) -> MessageId:
                put.append((topic, value))
                return MessageId(1, 1)

            async def close(self) -> None:
                pass

        return Outbox()


@pytest.mark.parametrize("topic", [str(TOPIC), PLAIN])
async def test_delayed_retry_follows_topic_name_of_its_consumer(topic: str) -> None:
    made = Buried()
    async with a_world(started=False, topic=topic, make_outbox=made, retry=True) as world:
        world.scaled.layout = migrated((PLAIN,), now_ms=1)
        await world.consumer._start()
        for segment, body in ((0, b"old"), (1, b"new")):
            world.scaled.deliver(segment, 0, single(body))
            await world.consumer.reconsume_later(await world.consumer.receive(60), 1)
        again = {command.scalableTopicLookup.topic for command in world.broker.kinds(K.SCALABLE_TOPIC_LOOKUP)}
        assert again == {topic, f"{topic}-s-RETRY"}
        assert made.put == [(f"{topic}-s-RETRY", b"old"), (f"{topic}-s-RETRY", b"new")]


@pytest.mark.parametrize(("topic", "dead"), [(str(TOPIC), f"{TOPIC}-DLQ"), (PLAIN, f"{PLAIN}-s-DLQ")])
async def test_dead_letters_of_migrated_topic_go_to_one_topic(topic: str, dead: str) -> None:
    made = Buried()
    letters = DeadLetters(redeliveries_max=1)
    async with a_world(started=False, topic=topic, make_outbox=made, dead_letters=letters) as world:
        world.scaled.layout = migrated((PLAIN,), now_ms=1)
        await world.consumer._start()
        for segment, body in ((0, b"old"), (1, b"new")):
            id = world.scaled.consumer(segment)
            often = broker_frames.message(id, 100 + segment, 0, single(body), redelivery_count=2)
            world.scaled.consumers[id][1].write(often)
            await world.consumer.negative_acknowledge(await world.consumer.receive(60))
        await turns(lambda: len(made.put) == 2)
        assert sorted(made.put) == [(dead, b"new"), (dead, b"old")]


@pytest.mark.parametrize(("topic", "names"), [(str(TOPIC), [str(TOPIC)] * 2), (PLAIN, [PLAIN, str(TOPIC)])])
async def test_messages_of_migrated_topic_have_its_name_whatever_segment(topic: str, names: list[str]) -> None:
    async with a_world(started=False, topic=topic) as world:
        world.scaled.layout = migrated((PLAIN,), now_ms=1)
        await world.consumer._start()
        found = []
        for segment in (0, 1):
            world.scaled.deliver(segment, 0, single(b"m"))
            found.append((await world.consumer.receive(60)).topic)
        assert found == names


async def test_plain_id_and_disabled_retry_are_misuse() -> None:
    async with a_world() as world:
        with pytest.raises(Misuse, match="name its segment"):
            await world.consumer.acknowledge(MessageId(1, 2))
        world.scaled.deliver(0, 0, single(b"m"))
        with pytest.raises(Misuse, match="retry=True"):
            await world.consumer.reconsume_later(await world.consumer.receive(60), 1)


@pytest.mark.parametrize(
    ("topic", "options", "said"),
    [
        ("non-persistent://public/default/t", {}, "not a partition"),
        (str(TOPIC), {"queue_messages": 0}, "must be 1 or more"),
        (str(TOPIC), {"typ": 1}, "a queue consumer has no option typ"),
        (
            str(TOPIC),
            {"dead_letters": DeadLetters(retry_topic="non-persistent://public/default/again")},
            "not a partition",
        ),
    ],
)
def test_unsupported_queue_options_are_refused_before_request(topic, options, said):
    with pytest.raises(Misuse, match=said):
        queueing_of(topic, "s", options)


def test_batches_are_acknowledged_by_message_unless_that_is_switched_off():
    assert queueing_of(str(TOPIC), "s", {}).ack_batch_index
    assert not queueing_of(str(TOPIC), "s", {"ack_batch_index": False}).ack_batch_index
    assert queueing_of(str(TOPIC), "s", {}).initial_position is InitialPosition.LATEST
