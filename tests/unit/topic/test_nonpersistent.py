"""A topic that keeps nothing: delivered now or never, the same words on the wire all the same."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from magnetar.base.errors import Closed, Conflict, ConsumerBusy, Refused
from magnetar.base.ids import Position, Term
from magnetar.base.limits import NON_PERSISTENT_RUN_BYTES, NON_PERSISTENT_WAITING_BYTES_MAX
from magnetar.base.names import topic_name
from magnetar.topic.nonpersistent import NonPersistentTopic
from magnetar.topic.producers.producer import Producer
from magnetar.topic.settings import TopicSettings
from magnetar.topic.subscriptions.consumer import Consumer, KeyShared
from magnetar.topic.subscriptions.subscribe import Subscribe
from magnetar.topic.subscriptions.subscription import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED
from simulation.environment.inline_runtime import InlineRuntime
from tests.unit.topic.world import NoFiles, Out, a_batch, an_entry, gathered, send_frame

NOWHERE = Position(0, 0)


class Scene:
    def __init__(self, name: str = "non-persistent://public/default/n", **settings: Any) -> None:
        files: Any = NoFiles()
        self.topic = NonPersistentTopic(
            topic_name(name), runtime=InlineRuntime(files), settings=TopicSettings(**settings)
        )
        self._ids = 0

    async def consumer(
        self, out: Out, name: str = "c", *, kind: int = SHARED, permits: int = 100, **asked: Any
    ) -> Consumer:
        self._ids += 1
        asked.setdefault("subscription", "s")
        made = await self.topic.subscribe(Subscribe(kind=kind, consumer_id=self._ids, consumer_name=name, **asked), out)
        self.topic.activate(made)
        made.flow(permits)
        return made

    async def publish(self, *entries: bytes, counts: list[int] | None = None) -> Out:
        out = Out(-1)
        producer = Producer(1, "p", out, self.topic)
        sent = [
            send_frame(1, place, body, num_messages=1 if counts is None else counts[place])
            for place, body in enumerate(entries)
        ]
        self.topic.publish(producer, gathered(*sent))
        return out


def texts(*words: str) -> list[bytes]:
    return [an_entry(word) for word in words]


async def test_each_message_has_id_of_its_own() -> None:
    """The Go client drops a message whose id it has just acknowledged."""

    scene = Scene()
    out = Out()
    await scene.consumer(out, kind=EXCLUSIVE)
    said = await scene.publish(*texts("a", "b"))
    more = await scene.publish(*texts("c"))
    first, second, third = (Position(0, number) for number in range(3))
    assert [(one.sequence, one.position) for one in said.receipts] == [(0, first), (1, second)]
    assert [one.position for one in more.receipts] == [third]
    assert [(one.payload, one.position) for one in out.delivered] == [(b"a", first), (b"b", second), (b"c", third)]
    assert said.freed > 0


async def test_non_persistent_messages_without_permits_are_dropped() -> None:
    scene = Scene()
    out = Out()
    consumer = await scene.consumer(out, kind=EXCLUSIVE, permits=2)
    await scene.publish(*texts("a", "b", "c"))
    assert out.texts == ["a", "b"]
    assert scene.topic.dropped == 1
    consumer.flow(10)
    assert out.texts == ["a", "b"]
    out.congested = True
    await scene.publish(*texts("d"))
    assert scene.topic.dropped == 2


async def test_batch_goes_out_whole_and_counts_its_messages() -> None:
    scene = Scene()
    out = Out()
    consumer = await scene.consumer(out, permits=1)
    await scene.publish(a_batch(["a", "b"]), a_batch(["c", "d"]), counts=[2, 2])
    assert len(out.delivered) == 1
    assert (consumer.permits, scene.topic.dropped) == (-1, 2)


async def test_every_subscription_gets_copy_and_shared_rotate() -> None:
    scene = Scene()
    alone, first, second = Out(1), Out(2), Out(3)
    await scene.consumer(alone, subscription="alone", kind=EXCLUSIVE)
    await scene.consumer(first, "c1")
    await scene.consumer(second, "c2")
    for number in range(10):
        await scene.publish(*texts(str(number)))
    assert len(alone.texts) == 10
    assert (len(first.texts), len(second.texts)) == (5, 5)


async def test_keys_stay_with_their_consumer() -> None:
    scene = Scene()
    outs = [Out(1), Out(2), Out(3)]
    for number, out in enumerate(outs):
        await scene.consumer(out, f"c{number}", kind=KEY_SHARED)
    for number in range(40):
        await scene.publish(an_entry(f"k{number % 10}", partition_key=f"k{number % 10}"))
    seen = [set(out.texts) for out in outs]
    assert sum(map(len, seen)) == len(set().union(*seen)) == 10
    assert sum(len(out.texts) for out in outs) == 40


async def test_sticky_slots_of_nobody_are_dropped() -> None:
    scene = Scene()
    out = Out()
    none = KeyShared(sticky=True, ranges=[(0, 0)], out_of_order=False)
    await scene.consumer(out, kind=KEY_SHARED, key_shared=none)
    await scene.publish(an_entry("a", partition_key="a"))
    assert (out.texts, scene.topic.dropped) == ([], 1)
    with pytest.raises(Conflict):
        await scene.consumer(Out(2), kind=KEY_SHARED, key_shared=none)


async def test_failover_without_partitions_picks_first_and_notifies_changes() -> None:
    scene = Scene()
    outs = {name: Out(number) for number, name in enumerate("bac")}
    consumers = {name: await scene.consumer(out, name, kind=FAILOVER) for name, out in outs.items()}
    assert [active for _, active in outs["b"].active] == [True, False]
    assert [active for _, active in outs["a"].active] == [True]
    assert [active for _, active in outs["c"].active] == [False]
    await scene.publish(*texts("x"))
    assert outs["a"].texts == ["x"]
    scene.topic.remove_consumer(consumers["c"])
    assert len(outs["a"].active) == 1
    scene.topic.remove_consumer(consumers["a"])
    assert outs["b"].active[-1][1]


async def test_failover_of_partition_goes_by_its_index() -> None:
    scene = Scene("non-persistent://public/default/n-partition-1")
    outs = [Out(1), Out(2)]
    for number, out in enumerate(outs):
        await scene.consumer(out, f"c{number}", kind=FAILOVER)
    await scene.publish(*texts("x"))
    assert [out.texts for out in outs] == [[], ["x"]]


async def test_types_do_not_mix_and_subscription_ends_with_its_consumers() -> None:
    scene = Scene()
    consumer = await scene.consumer(Out(1), kind=EXCLUSIVE)
    for kind in (EXCLUSIVE, SHARED):
        with pytest.raises(ConsumerBusy):
            await scene.consumer(Out(2), kind=kind)
    await scene.topic.leave(consumer)
    assert scene.topic.subscriptions == {}
    assert scene.topic.idle
    assert await scene.consumer(Out(2), kind=SHARED)


async def test_unsubscribing_needs_to_be_alone_or_to_insist() -> None:
    scene = Scene()
    mine, other = Out(1), Out(2)
    consumer = await scene.consumer(mine)
    await scene.consumer(other)
    with pytest.raises(Conflict):
        await scene.topic.unsubscribe(consumer, force=False)
    await scene.topic.unsubscribe(consumer, force=True)
    assert other.kinds == ["CLOSE_CONSUMER"]
    assert scene.topic.subscriptions == {}


async def test_what_needs_memory_is_refused_and_acknowledging_is_nothing() -> None:
    scene = Scene()
    consumer = await scene.consumer(Out())
    subscription = scene.topic.subscriptions["s"]
    with pytest.raises(Refused):
        await subscription.seek(NOWHERE)
    with pytest.raises(Refused):
        await subscription.seek_time(1)
    with pytest.raises(Refused):
        await scene.topic.seal("op", Term(1))
    subscription.ack(consumer, [(NOWHERE, None)])
    subscription.ack_to(consumer, NOWHERE, None)
    subscription.redeliver(consumer, None)
    assert await scene.topic.last_message() == (Position(-1, -1), -1)
    assert scene.topic.highest_sequence("p") == -1


async def test_closing_sends_everybody_away_and_lets_nobody_in() -> None:
    scene = Scene()
    consuming, producing = Out(1), Out(2)
    await scene.consumer(consuming)
    producer = Producer(1, "p", producing, scene.topic)
    await scene.topic.producers.join(producer, None, lambda: None)
    waiting = asyncio.get_running_loop().create_task(
        scene.topic.producers.join(Producer(2, "w", Out(3), scene.topic, access_mode=2), None, lambda: None)
    )
    await asyncio.sleep(0)
    await scene.topic.close()
    assert (consuming.kinds[-1], producing.kinds[-1]) == ("CLOSE_CONSUMER", "CLOSE_PRODUCER")
    for task in (waiting, asyncio.get_running_loop().create_task(scene.consumer(Out(4)))):
        with pytest.raises(Closed):
            await task
    before = len(producing.heard)
    scene.topic.publish(producer, gathered(send_frame(1, 0, an_entry("late"))))
    assert len(producing.heard) == before


async def test_tiny_messages_that_wait_for_delivery_are_bounded_by_number() -> None:
    scene = Scene()
    out = Out()
    for number in range(3):
        await scene.consumer(out, subscription=f"s{number}", permits=100_000)
    scene.topic.runtime.turns.left = 0
    for _ in range(NON_PERSISTENT_WAITING_BYTES_MAX // NON_PERSISTENT_RUN_BYTES + 100):
        await scene.publish(*texts("a"))
    assert len(scene.topic._undelivered) * NON_PERSISTENT_RUN_BYTES <= NON_PERSISTENT_WAITING_BYTES_MAX
    assert scene.topic.dropped >= 3 * 100


async def test_message_larger_than_bound_is_delivered_when_none_waits() -> None:
    scene = Scene()
    out = Out()
    await scene.consumer(out)
    await scene.publish(an_entry("a" * (NON_PERSISTENT_WAITING_BYTES_MAX + 1)))
    assert len(out.delivered) == 1
    assert scene.topic.dropped == 0
