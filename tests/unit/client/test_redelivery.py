"""Negative acknowledgements, the acknowledgement timeout, dead letters: asked for again, or buried for good."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from magnetar.base.errors import Misuse, TimedOut
from magnetar.client.message import MessageId
from magnetar.client.nacks import NackBackoff
from magnetar.client.subscribing import DeadLetters, SubscriptionType
from magnetar.wire.proto import pb
from tests.unit.client.scripted import K, World, batch, single
from tests.unit.client.test_consumer import run, values

SHARED = SubscriptionType.SHARED
AT_ONCE = NackBackoff(0, 0)
REDELIVER = K.REDELIVER_UNACKNOWLEDGED_MESSAGES


def positions(asked: pb.CommandRedeliverUnacknowledgedMessages) -> list[tuple[int, int]]:
    return [(item.ledgerId, item.entryId) for item in asked.message_ids]


def test_exactly_the_refused_entries_are_asked_for_again():
    async def body(world: World):
        consumer = await world.consumer(type=SHARED, nack=AT_ONCE)
        for entry in range(3):
            world.broker.push(entry, single(b"x"))
        received = [await consumer.receive(60) for _ in range(3)]
        await consumer.negative_acknowledge(received[0])
        await consumer.negative_acknowledge(received[2].id)
        asked = await world.broker.until_said(REDELIVER)
        assert positions(asked) == [(1, 0), (1, 2)]
        assert not asked.HasField("consumer_epoch")

    run(body)


def test_the_rest_of_a_refused_batch_leaves_the_queue_with_it():
    async def body(world: World):
        consumer = await world.consumer(type=SHARED, nack=AT_ONCE, queue_messages=6)
        world.broker.push(0, batch(b"a", b"b", b"c"))
        world.broker.push(1, single(b"d"))
        await consumer.negative_acknowledge(await consumer.receive(60))
        assert positions(await world.broker.until_said(REDELIVER)) == [(1, 0)]
        assert await values(consumer, 1) == [b"d"]
        assert consumer.queued == 0

    run(body)


def test_where_one_gets_everything_everything_is_asked_for():
    async def body(world: World):
        consumer = await world.consumer(nack=AT_ONCE)
        for entry in range(3):
            world.broker.push(entry, single(b"x"))
        await consumer.negative_acknowledge(await consumer.receive(60))
        asked = await world.broker.until_said(REDELIVER)
        assert (positions(asked), asked.consumer_epoch, consumer.queued) == ([], 1, 0)

    run(body)


@pytest.mark.parametrize("by_id", [False, True])
def test_an_acknowledgement_of_another_message_of_the_batch_does_not_stop_it(by_id):
    async def body(world: World):
        consumer = await world.consumer(type=SHARED, nack=NackBackoff(0.05, 0.05))
        world.broker.push(0, batch(b"a", b"b"))
        first, second = await consumer.receive(60), await consumer.receive(60)
        await consumer.negative_acknowledge(first)
        await consumer.acknowledge(second.id if by_id else second)
        assert positions(await world.broker.until_said(REDELIVER)) == [(1, 0)]

    run(body)


def test_an_acknowledgement_of_another_message_of_the_batch_does_not_stop_the_timeout():
    async def body(world: World):
        consumer = await world.consumer(type=SHARED, ack_timeout_s=1)
        world.broker.push(0, batch(b"a", b"b"))
        await consumer.receive(60)
        await consumer.acknowledge(await consumer.receive(60))
        assert positions(await world.broker.until_said(REDELIVER)) == [(1, 0)]

    run(body)


def test_an_acknowledgement_after_all_stops_it():
    async def body(world: World):
        consumer = await world.consumer(type=SHARED, nack=NackBackoff(0.05, 0.05))
        world.broker.push(0, single(b"x"))
        world.broker.push(1, single(b"y"))
        first, second = await consumer.receive(60), await consumer.receive(60)
        await consumer.negative_acknowledge(first)
        await consumer.negative_acknowledge(second)
        await consumer.acknowledge(first)
        assert positions(await world.broker.until_said(REDELIVER)) == [(1, 1)]

    run(body)


def test_what_is_not_acknowledged_in_time_is_asked_for_again():
    async def body(world: World):
        consumer = await world.consumer(type=SHARED, ack_timeout_s=0.05)
        world.broker.push(0, single(b"x"))
        world.broker.push(1, single(b"y"))
        received = await consumer.receive_batch(2, timeout_s=5)
        await consumer.acknowledge(received[0])
        assert positions(await world.broker.until_said(REDELIVER)) == [(1, 1)]
        assert consumer.counters.timeouts == 1

    run(body)


class Outbox:
    """Stands where a producer stands: keeps what it is given, or fails as told."""

    def __init__(self, topic: str, initial_subscription: str, errors: list[Exception]) -> None:
        self.topic = topic
        self.initial_subscription = initial_subscription
        self.sent: list[tuple[bytes, str | bytes | None, Mapping[str, str], int | None]] = []
        self.closed = False
        self._errors = errors

    async def send(
        self, value, *, key=None, ordering_key=None, properties=None, event_time_ms=None, deliver_at_ms=None
    ):
        await asyncio.sleep(0)
        if self._errors:
            raise self._errors.pop(0)
        self.sent.append((value, key, properties, deliver_at_ms))
        return MessageId(9, 9)

    async def close(self) -> None:
        self.closed = True


class Outboxes:
    def __init__(self, *errors: Exception) -> None:
        self.made: list[Outbox] = []
        self._errors = list(errors)

    async def __call__(self, topic: str, initial_subscription: str) -> Outbox:
        self.made.append(Outbox(topic, initial_subscription, self._errors))
        return self.made[-1]


def test_a_message_delivered_too_often_is_buried_and_then_acknowledged():
    async def body(world: World):
        outboxes = Outboxes()
        letters = DeadLetters(redeliveries_max=2, initial_subscription="keep")
        consumer = await world.consumer(type=SHARED, dead_letters=letters, make_outbox=outboxes, ack_group_s=0)
        world.broker.push(0, single(b"bad", partition_key="k"), redelivery_count=2)
        assert await values(consumer, 1) == [b"bad"]
        world.broker.push(0, single(b"bad", partition_key="k"), redelivery_count=3)
        await world.broker.until(lambda: world.broker.acked() == [(1, 0, [])])
        [outbox] = outboxes.made
        assert (outbox.topic, outbox.initial_subscription) == ("persistent://public/default/t-s-DLQ", "keep")
        [(value, key, properties, _)] = outbox.sent
        assert (value, key, properties["ORIGIN_MESSAGE_ID"]) == (b"bad", "k", "1:0:-1")
        assert (consumer.queued, consumer.counters.dead_letters) == (0, 1)
        await consumer.close()
        assert outbox.closed

    run(body)


def test_a_dead_letter_that_may_not_have_arrived_is_not_acknowledged_but_comes_again():
    async def body(world: World):
        outboxes = Outboxes(TimedOut("who knows"))
        consumer = await world.consumer(
            type=SHARED, dead_letters=DeadLetters(0), make_outbox=outboxes, nack=AT_ONCE, ack_group_s=0
        )
        world.broker.push(0, single(b"bad"), redelivery_count=1)
        assert positions(await world.broker.until_said(REDELIVER)) == [(1, 0)]
        assert world.broker.acked() == []
        world.broker.push(0, single(b"bad"), redelivery_count=2)
        await world.broker.until(lambda: world.broker.acked() == [(1, 0, [])])
        assert consumer.counters.dead_letters == 1

    run(body)


def test_putting_off_goes_through_the_retry_topic_and_ends_among_the_dead_letters():
    async def body(world: World):
        outboxes = Outboxes()
        consumer = await world.consumer(
            type=SHARED, retry=True, dead_letters=DeadLetters(1), make_outbox=outboxes, ack_group_s=0
        )
        assert consumer.topics == ["persistent://public/default/t", "persistent://public/default/t-s-RETRY"]
        by_topic = {topic: consumer_id for consumer_id, topic in world.broker.topic_of.items()}
        world.broker.push(0, single(b"later"), consumer_id=by_topic[consumer.topics[0]])
        await consumer.reconsume_later(await consumer.receive(60), 30, properties={"why": "busy"})
        await world.broker.until(lambda: len(world.broker.acked()) == 1)
        [(value, _, properties, deliver_at)] = outboxes.made[0].sent
        assert outboxes.made[0].topic.endswith("-RETRY")
        assert (value, properties["RECONSUMETIMES"], properties["DELAY_TIME"], properties["why"]) == (
            b"later",
            "1",
            "30000",
            "busy",
        )
        assert deliver_at is not None
        fields = [pb.KeyValue(key=key, value=text) for key, text in properties.items()]
        world.broker.push(0, single(b"later", properties=fields), consumer_id=by_topic[consumer.topics[1]], ledger=2)
        await consumer.reconsume_later(await consumer.receive(60), 0)
        assert outboxes.made[1].topic == "persistent://public/default/t-s-DLQ"
        assert consumer.counters.dead_letters == 1

    run(body)


def test_putting_off_without_a_retry_topic_is_refused():
    async def body(world: World):
        consumer = await world.consumer(type=SHARED)
        world.broker.push(0, single(b"x"))
        received = await consumer.receive(60)
        with pytest.raises(Misuse):
            await consumer.reconsume_later(received, 1)

    run(body)
