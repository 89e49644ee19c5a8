"""Words of entries that are acknowledged in part: as many as the entry has messages, and few of them in one turn.

A client acknowledged 1,000 small entries with 16,384 words each. To send them again took one turn of four seconds.
"""

from __future__ import annotations

import pytest

from magnetar.base.limits import ACK_SET_TURN_WORDS_MAX, ACK_SET_WORDS_MAX
from magnetar.topic.subscriptions.subscription import EXCLUSIVE, KEY_SHARED, SHARED
from tests.unit.topic.world import Out, World, an_entry, settle, subscription_of

KINDS = pytest.mark.parametrize("kind", [EXCLUSIVE, SHARED, KEY_SHARED])
MESSAGES = 64_000
WORDS = MESSAGES // 64


class Pieces(Out):
    """Remembers how many messages each write had."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[int] = []

    def write(self, data: bytes) -> None:
        before = len(self.delivered)
        super().write(data)
        self.pieces.append(len(self.delivered) - before)


@KINDS
async def test_words_beyond_messages_of_entry_are_not_sent(world: World, kind: int) -> None:
    topic = await world.topic()
    await world.store(topic, an_entry("one"), an_entry("many"), counts=[1, 100])
    out = Out()
    consumer = await world.consumer(topic, out, kind=kind, permits=1_000)
    await settle()
    words = [-2] + [-1] * (ACK_SET_WORDS_MAX - 1)
    subscription = subscription_of(topic)
    subscription.ack(consumer, [(one.position, words) for one in out.delivered])
    out.clear()
    subscription.dispatcher.redeliver(consumer, None)
    await settle()
    assert [one.ack_set for one in out.delivered] == [[0], [-2, 2**36 - 1]]


@KINDS
@pytest.mark.parametrize("again", [False, True])
async def test_entries_with_many_words_take_many_turns(world: World, kind: int, again: bool) -> None:
    topic = await world.topic(unacked_per_consumer_max=0, unacked_per_subscription_max=0, batch_index_acks=True)
    count = 50
    positions = await world.store(topic, *[an_entry(str(n)) for n in range(count)], counts=[MESSAGES] * count)
    out = Pieces()
    if again:
        consumer = await world.consumer(topic, out, kind=kind, permits=2 * count * MESSAGES)
        await settle()
    else:
        consumer = await world.consumer(topic, out, kind=kind)
    out.clear()
    out.pieces.clear()
    subscription = subscription_of(topic)
    subscription.ack(consumer, [(position, [-2] + [-1] * (WORDS - 1)) for position in positions])
    if again:
        subscription.dispatcher.redeliver(consumer, None)
    else:
        consumer.flow(2 * count * MESSAGES)
    await settle()
    assert {len(one.ack_set) for one in out.delivered} == {WORDS}
    assert len(out.delivered) == count
    assert max(out.pieces) <= ACK_SET_TURN_WORDS_MAX // WORDS + 1
