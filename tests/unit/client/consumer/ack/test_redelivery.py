"""Negative acknowledgements, the acknowledgement timeout, dead letters: asked for again, or buried for good."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from magnetar.base.errors import Misuse, TimedOut, Undecodable
from magnetar.client.consumer.ack.nacks import NackBackoff
from magnetar.client.consumer.config import DeadLetters, SubscriptionType
from magnetar.client.message import MessageId
from magnetar.client.schema import Json
from magnetar.wire.proto import pb
from tests.support.broker_script import K, World, batch, single
from tests.unit.client.consumer.test_consumer import values

pytestmark = pytest.mark.real_clock

SHARED = SubscriptionType.SHARED
AT_ONCE = NackBackoff(0, 0)
REDELIVER = K.REDELIVER_UNACKNOWLEDGED_MESSAGES


def positions(asked: pb.CommandRedeliverUnacknowledgedMessages) -> list[tuple[int, int]]:
    return [(item.ledgerId, item.entryId) for item in asked.message_ids]


async def test_exactly_refused_entries_are_asked_for_again(world: World):
    consumer = await world.consumer(type=SHARED, nack=AT_ONCE)
    for entry in range(3):
        world.broker.push(entry, single(b"x"))
    received = [await consumer.receive(60) for _ in range(3)]
    await consumer.negative_acknowledge(received[0])
    await consumer.negative_acknowledge(received[2].id)
    asked = await world.broker.until_said(REDELIVER)
    assert positions(asked) == [(1, 0), (1, 2)]
    assert not asked.HasField("consumer_epoch")


async def test_where_one_gets_everything_everything_is_asked_for(world: World):
    consumer = await world.consumer(nack=AT_ONCE)
    for entry in range(3):
        world.broker.push(entry, single(b"x"))
    await consumer.negative_acknowledge(await consumer.receive(60))
    asked = await world.broker.until_said(REDELIVER)
    assert (positions(asked), asked.consumer_epoch, consumer.queued) == ([], 1, 0)


@pytest.mark.parametrize("by_id", [False, True])
async def test_acknowledgement_of_another_message_of_batch_does_not_stop_it(world: World, by_id):
    consumer = await world.consumer(type=SHARED, nack=NackBackoff(0.05, 0.05))
    world.broker.push(0, batch(b"a", b"b"))
    first, second = await consumer.receive(60), await consumer.receive(60)
    await consumer.negative_acknowledge(first)
    await consumer.acknowledge(second.id if by_id else second)
    assert positions(await world.broker.until_said(REDELIVER)) == [(1, 0)]


async def test_acknowledgement_of_another_message_of_batch_does_not_stop_timeout(world: World):
    consumer = await world.consumer(type=SHARED, ack_timeout_s=1)
    world.broker.push(0, batch(b"a", b"b"))
    await consumer.receive(60)
    await consumer.acknowledge(await consumer.receive(60))
    assert positions(await world.broker.until_said(REDELIVER)) == [(1, 0)]


async def test_acknowledgement_after_all_stops_it(world: World):
    consumer = await world.consumer(type=SHARED, nack=NackBackoff(0.05, 0.05))
    world.broker.push(0, single(b"x"))
    world.broker.push(1, single(b"y"))
    first, second = await consumer.receive(60), await consumer.receive(60)
    await consumer.negative_acknowledge(first)
    await consumer.negative_acknowledge(second)
    await consumer.acknowledge(first)
    assert positions(await world.broker.until_said(REDELIVER)) == [(1, 1)]


async def test_what_is_not_acknowledged_in_time_is_asked_for_again(world: World):
    consumer = await world.consumer(type=SHARED, ack_timeout_s=0.05)
    world.broker.push(0, single(b"x"))
    world.broker.push(1, single(b"y"))
    received = await consumer.receive_batch(2, timeout_s=5)
    await consumer.acknowledge(received[0])
    assert positions(await world.broker.until_said(REDELIVER)) == [(1, 1)]
    assert consumer.counters.timeouts == 1


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


async def test_message_refused_too_often_is_buried_and_then_acknowledged(world: World):
    outboxes = Outboxes()
    letters = DeadLetters(redeliveries_max=2, initial_subscription="keep")
    consumer = await world.consumer(type=SHARED, dead_letters=letters, make_outbox=outboxes, ack_group_s=0)
    world.broker.push(0, single(b"bad", partition_key="k"), redelivery_count=2)
    await consumer.negative_acknowledge(await consumer.receive(60))
    await world.broker.until(lambda: world.broker.acked() == [(1, 0, [])])
    [outbox] = outboxes.made
    assert (outbox.topic, outbox.initial_subscription) == ("persistent://public/default/t-s-DLQ", "keep")
    [(value, key, properties, _)] = outbox.sent
    assert (value, key, properties["ORIGIN_MESSAGE_ID"]) == (b"bad", "k", "1:0:-1")
    assert (consumer.queued, consumer.counters.dead_letters) == (0, 1)
    await consumer.close()
    assert outbox.closed


async def test_message_is_redelivered_if_dead_letter_outcome_is_unknown(world: World):
    outboxes = Outboxes(TimedOut("who knows"))
    consumer = await world.consumer(
        type=SHARED, dead_letters=DeadLetters(0), make_outbox=outboxes, nack=AT_ONCE, ack_group_s=0
    )
    world.broker.push(0, single(b"bad"), redelivery_count=1)
    await consumer.negative_acknowledge(await consumer.receive(60))
    assert positions(await world.broker.until_said(REDELIVER)) == [(1, 0)]
    assert world.broker.acked() == []
    world.broker.push(0, single(b"bad"), redelivery_count=2)  # not shown again: its fate is decided
    await world.broker.until(lambda: world.broker.acked() == [(1, 0, [])])
    assert consumer.counters.dead_letters == 1


@pytest.mark.parametrize("by_id", [False, True])
async def test_refused_message_of_batch_is_buried_alone(world: World, by_id: bool):
    outboxes = Outboxes()
    letters = DeadLetters(redeliveries_max=1)
    consumer = await world.consumer(type=SHARED, dead_letters=letters, make_outbox=outboxes, ack_group_s=0)
    world.broker.push(0, batch(b"a", b"bad", b"c"), redelivery_count=5)
    received = [await consumer.receive(60) for _ in range(2)]
    await consumer.negative_acknowledge(received[1].id if by_id else received[1])
    assert await values(consumer, 1) == [b"c"]
    for _ in range(20):
        await asyncio.sleep(0)
    [outbox] = outboxes.made
    assert [sent[0] for sent in outbox.sent] == [b"bad"]


async def test_message_not_acknowledged_in_time_is_buried_alone(world: World):
    outboxes = Outboxes()
    consumer = await world.consumer(
        type=SHARED, dead_letters=DeadLetters(1), make_outbox=outboxes, ack_timeout_s=1, ack_group_s=0
    )
    world.broker.push(0, single(b"late"), redelivery_count=1)
    world.broker.push(1, batch(b"a", b"b"), redelivery_count=1)
    await consumer.receive(60)
    await world.broker.until(lambda: world.broker.acked() == [(1, 0, [])])
    assert [sent[0] for sent in outboxes.made[0].sent] == [b"late"]
    assert await values(consumer, 2) == [b"a", b"b"]


async def test_message_that_application_never_saw_is_shown_whatever_its_count(world: World):
    outboxes = Outboxes()
    consumer = await world.consumer(type=SHARED, dead_letters=DeadLetters(2), make_outbox=outboxes)
    world.broker.push(0, batch(b"a", b"b"), redelivery_count=9)
    assert await values(consumer, 2) == [b"a", b"b"]
    assert outboxes.made == []


async def test_refused_batch_waits_until_rest_is_handed_out(world: World):
    consumer = await world.consumer(type=SHARED, nack=AT_ONCE, queue_messages=6)
    world.broker.push(0, batch(b"a", b"b", b"c"))
    await consumer.negative_acknowledge(await consumer.receive(60))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not world.broker.said(REDELIVER)
    assert await values(consumer, 2) == [b"b", b"c"]
    assert positions(await world.broker.until_said(REDELIVER)) == [(1, 0)]


async def test_delayed_retry_uses_retry_topic_then_dead_letters(world: World):
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


async def test_putting_off_without_retry_topic_is_refused(world: World):
    consumer = await world.consumer(type=SHARED)
    world.broker.push(0, single(b"x"))
    received = await consumer.receive(60)
    with pytest.raises(Misuse):
        await consumer.reconsume_later(received, 1)


NUMBERS = Json(dict[str, int])


async def test_undecodable_value_raises_with_topic_and_position(world: World):
    consumer = await world.consumer(schema=NUMBERS)
    world.broker.push(7, batch(b'{"a": 1}', b"poison"))
    good, bad = await consumer.receive(60), await consumer.receive(60)
    assert good.value == {"a": 1}
    with pytest.raises(Undecodable, match="does not fit the schema dict: JSON is malformed") as caught:
        _ = bad.value
    assert caught.value.facts == {
        "topic": "persistent://public/default/t",
        "position": "1:7:1",
        "schema_version": None,
    }
    assert bad.data == b"poison"


async def test_undecodable_message_of_batch_goes_to_dead_letters(world: World):
    outboxes = Outboxes()
    consumer = await world.consumer(
        type=SHARED, schema=NUMBERS, on_undecodable="dead_letter", make_outbox=outboxes, ack_group_s=0
    )
    world.broker.push(0, batch(b'{"a": 1}', b"poison", b'{"a": "x"}'))
    world.broker.push(1, single(b"poison too"))
    world.broker.push(2, single(b'{"a": 2}'))
    first, second = await consumer.receive(60), await consumer.receive(60)
    assert (first.value, second.value) == ({"a": 1}, {"a": 2})
    await consumer.acknowledge(first)
    await world.broker.until(lambda: sorted(world.broker.acked()) == [(1, 0, []), (1, 1, [])])
    [outbox] = outboxes.made
    assert outbox.topic == "persistent://public/default/t-s-DLQ"
    assert [value for value, *_ in outbox.sent] == [b"poison", b'{"a": "x"}', b"poison too"]
    assert all("does not fit" in properties["UNDECODABLE"] for _, _, properties, _ in outbox.sent)
    assert (consumer.counters.dead_letters, consumer.counters.undecodable, consumer.queued) == (3, 3, 0)


async def test_undecodable_message_comes_again_if_its_letter_fails(world: World):
    outboxes = Outboxes(TimedOut("no answer"))
    await world.consumer(type=SHARED, schema=NUMBERS, on_undecodable="dead_letter", make_outbox=outboxes, nack=AT_ONCE)
    world.broker.push(0, single(b"poison"))
    assert positions(await world.broker.until_said(REDELIVER)) == [(1, 0)]
    assert world.broker.acked() == []


async def test_undecodable_messages_of_ordered_consumers_are_not_buried(world: World):
    with pytest.raises(Misuse, match=r"catch Undecodable at message.value"):
        await world.consumer(on_undecodable="dead_letter")
    with pytest.raises(Misuse, match="must be 'raise' or 'dead_letter'"):
        await world.consumer(on_undecodable="drop")
