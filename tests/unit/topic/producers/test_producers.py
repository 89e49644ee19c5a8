"""Who may publish, as clients live it: modes, waiting, fencing, rivals that are dead, epochs that outlive a crash."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import Closed, Fenced, ProducerBusy, Refused, Sealed
from magnetar.base.ids import Term
from magnetar.topic.producers.producers import EPOCH_PROPERTY
from tests.unit.topic.world import Out, World, an_entry, gathered, send_frame, settle

SHARED, EXCLUSIVE, WAIT, FENCING = 0, 1, 2, 3


async def test_shared_producers_of_different_names_live_together(world: World) -> None:
    topic = await world.topic()
    first = await world.producer(topic, Out(1), "a")
    await world.producer(topic, Out(2), "b")
    assert len(topic.producers) == 2
    assert first.topic_epoch is None
    topic.producers.leave(first)
    topic.producers.leave(first)
    assert [item.name for item in topic.producers] == ["b"]


async def test_name_in_use_is_busy_until_its_holder_proves_dead(world: World) -> None:
    topic = await world.topic()
    old = Out(1)
    held = await world.producer(topic, old, "a")
    with pytest.raises(ProducerBusy):
        await world.producer(topic, Out(2), "a")
    assert (old.asked, held.closed) == (1, False)
    old.answers = False
    newcomer = await world.producer(topic, Out(3), "a")
    assert held.closed
    assert list(topic.producers) == [newcomer]


async def test_rival_leaving_during_check_does_not_block(world: World) -> None:
    topic = await world.topic()
    held = await world.producer(topic, Out(1), "a")
    joining = world.spawn(world.producer(topic, Out(2), "a"))
    await asyncio.sleep(0)
    topic.producers.leave(held)
    assert (await joining).closed is False


async def test_all_dead_rivals_of_exclusive_newcomer_are_evicted(world: World) -> None:
    topic = await world.topic()
    outs = [Out(1), Out(2), Out(3)]
    for number, out in enumerate(outs):
        await world.producer(topic, out, f"shared-{number}")
        out.answers = False
    newcomer = await world.producer(topic, Out(4), "x", mode=EXCLUSIVE)
    assert list(topic.producers) == [newcomer]
    assert newcomer.topic_epoch == 0


async def test_exclusive_producer_is_fenced_by_others_and_excludes_them(world: World) -> None:
    topic = await world.topic()
    shared = await world.producer(topic, Out(1), "a")
    with pytest.raises(Fenced):
        await world.producer(topic, Out(2), "x", mode=EXCLUSIVE)
    topic.producers.leave(shared)
    await world.producer(topic, Out(2), "x", mode=EXCLUSIVE)
    with pytest.raises(ProducerBusy):
        await world.producer(topic, Out(3), "b")


async def test_epoch_is_durable_before_producer_has_its_answer(world: World) -> None:
    topic = await world.topic()
    world.metadata.hold()
    joining = world.spawn(world.producer(topic, Out(1), "x", mode=EXCLUSIVE))
    await settle()
    assert not joining.done()
    assert len(topic.producers) == 0
    world.metadata.release()
    made = await joining
    assert made.topic_epoch == 0
    after = await world.crash().topic()
    assert after.managed.properties[EPOCH_PROPERTY] == "0"
    assert after.producers.access.epoch == 0


async def test_next_life_fences_exclusive_producer_that_another_one_followed(world: World) -> None:
    topic = await world.topic()
    first = await world.producer(topic, Out(1), "x", mode=EXCLUSIVE)
    topic.producers.leave(first)
    second = await world.producer(topic, Out(2), "y", mode=EXCLUSIVE)
    assert (first.topic_epoch, second.topic_epoch) == (0, 1)
    topic = await world.crash().topic()
    with pytest.raises(Fenced):
        await world.producer(topic, Out(3), "x", mode=EXCLUSIVE, epoch=1, topic_epoch=0)
    back = await world.producer(topic, Out(4), "y", mode=EXCLUSIVE, epoch=1, topic_epoch=1)
    assert back.topic_epoch == 1


async def test_waiting_producer_is_told_so_and_granted_when_holder_leaves(world: World) -> None:
    topic = await world.topic()
    holder = await world.producer(topic, Out(1), "x", mode=EXCLUSIVE)
    told: list[str] = []
    waiting = world.spawn(world.producer(topic, Out(2), "y", mode=WAIT, queued=lambda: told.append("queued")))
    await settle()
    assert (told, waiting.done()) == (["queued"], False)
    topic.producers.leave(holder)
    made = await waiting
    assert made.topic_epoch == 1
    assert list(topic.producers) == [made]


async def test_waiter_whose_connection_is_gone_gives_its_place_to_next(world: World) -> None:
    topic = await world.topic()
    holder = await world.producer(topic, Out(1), "x", mode=EXCLUSIVE)
    gone = world.spawn(world.producer(topic, Out(2), "y", mode=WAIT))
    next_one = world.spawn(world.producer(topic, Out(3), "z", mode=WAIT))
    await settle()
    gone.cancel()
    await settle()
    assert [item.name for item in topic.producers.access.waiters] == ["z"]
    topic.producers.leave(holder)
    assert (await next_one).name == "z"


async def test_granted_waiter_that_left_passes_topic_on(world: World) -> None:
    topic = await world.topic()
    holder = await world.producer(topic, Out(1), "x", mode=EXCLUSIVE)
    gone = world.spawn(world.producer(topic, Out(2), "y", mode=WAIT))
    next_one = world.spawn(world.producer(topic, Out(3), "z", mode=WAIT))
    await settle()
    topic.producers.leave(holder)
    gone.cancel()
    assert (await next_one).topic_epoch == 2
    assert gone.cancelled()


async def test_fencing_closes_everybody_and_fails_everybody_who_waits(world: World) -> None:
    topic = await world.topic()
    old = Out(1)
    holder = await world.producer(topic, old, "x", mode=EXCLUSIVE)
    waiting = world.spawn(world.producer(topic, Out(2), "y", mode=WAIT))
    await settle()
    made = await world.producer(topic, Out(3), "z", mode=FENCING)
    with pytest.raises(Fenced):
        await waiting
    assert holder.closed
    assert old.kinds == ["CLOSE_PRODUCER"]
    assert list(topic.producers) == [made]
    assert made.topic_epoch == 1


async def test_nobody_is_closed_before_fencing_epoch_is_durable(world: World) -> None:
    topic = await world.topic()
    old = Out(1)
    holder = await world.producer(topic, old, "x", mode=EXCLUSIVE)
    world.metadata.hold()
    fencing = world.spawn(world.producer(topic, Out(2), "z", mode=FENCING))
    await settle()
    assert old.kinds == []
    assert not holder.closed
    world.metadata.release()
    await fencing
    assert old.kinds == ["CLOSE_PRODUCER"]


async def test_grant_fenced_while_epoch_is_written_is_refused(world: World) -> None:
    topic = await world.topic()
    world.metadata.hold()
    first = world.spawn(world.producer(topic, Out(1), "x", mode=EXCLUSIVE))
    await settle()
    second = world.spawn(world.producer(topic, Out(2), "z", mode=FENCING))
    await settle()
    world.metadata.release()
    with pytest.raises(Fenced):
        await first
    made = await second
    assert list(topic.producers) == [made]
    assert topic.managed.properties[EPOCH_PROPERTY] == "1"


async def test_connection_lost_while_epoch_is_written_leaves_topic_free(world: World) -> None:
    topic = await world.topic()
    world.metadata.hold()
    joining = world.spawn(world.producer(topic, Out(1), "x", mode=EXCLUSIVE))
    await settle()
    joining.cancel()
    await settle()
    world.metadata.release()
    made = await world.producer(topic, Out(2), "y", mode=EXCLUSIVE)
    assert made.topic_epoch == 1  # the number before it may be stored: it stays used up
    assert list(topic.producers) == [made]


@pytest.mark.parametrize("waiters", [1, 2])
async def test_unload_sends_waiters_to_lookup_without_fencing(world: World, waiters: int) -> None:
    topic = await world.topic()
    await world.producer(topic, Out(1), "x", mode=EXCLUSIVE)
    waiting = [world.spawn(world.producer(topic, Out(2 + n), f"y{n}", mode=WAIT)) for n in range(waiters)]
    await settle()
    await topic.close()
    for task in waiting:
        with pytest.raises(Closed):
            await task


async def test_waiter_granted_during_unload_is_not_fenced(world: World) -> None:
    topic = await world.topic()
    holder = await world.producer(topic, Out(1), "x", mode=EXCLUSIVE)
    waiting = world.spawn(world.producer(topic, Out(2), "y", mode=WAIT))
    await settle()
    topic.producers.leave(holder)
    closing = world.spawn(topic.close())
    with pytest.raises(Closed):
        await waiting
    await closing


async def test_producer_that_comes_while_topic_ends_is_told_why(world: World) -> None:
    topic = await world.topic()
    await topic.seal("op", Term(1))
    with pytest.raises(Sealed) as refused:
        await world.producer(topic, Out(1), "a")
    assert refused.value.wire_code == 15
    again = await world.crash().topic()
    with pytest.raises(Sealed):
        await world.producer(again, Out(2), "a")


async def test_producer_with_epoch_written_during_close_is_not_attached(world: World) -> None:
    topic = await world.topic()
    world.metadata.hold()
    joining = world.spawn(world.producer(topic, Out(1), "x", mode=EXCLUSIVE))
    await settle()
    closing = world.spawn(topic.close())
    await settle()
    world.metadata.release()
    with pytest.raises(Refused) as refused:
        await joining
    assert refused.value.wire_code == 6
    await closing
    assert len(topic.producers) == 0


async def test_same_producer_asking_again_replaces_its_older_self_without_close(world: World) -> None:
    topic = await world.topic()
    out = Out(1)
    old = await world.producer(topic, out, "a", producer_id=4)
    new = await world.producer(topic, out, "a", producer_id=4, epoch=1)
    assert old.closed
    assert list(topic.producers) == [new]
    assert out.kinds == []
    topic.producers.leave(old)  # late news
    assert list(topic.producers) == [new]


async def test_producer_limit_admits_returning_producer(world: World) -> None:
    topic = await world.topic(producers_max=2)
    out = Out(1)
    await world.producer(topic, out, "a", producer_id=1)
    await world.producer(topic, Out(2), "b")
    with pytest.raises(ProducerBusy):
        await world.producer(topic, Out(3), "c")
    assert await world.producer(topic, out, "a", producer_id=1, epoch=1)


async def test_closing_by_client_waits_for_answers_in_flight(world: World) -> None:
    topic = await world.topic()
    out = Out(1)
    producer = await world.producer(topic, out, "a", producer_id=1)
    world.ledgers.hold()
    topic.publish(producer, gathered(send_frame(1, 0, an_entry("m"))))
    idle: list[int] = []
    producer.when_idle(lambda: idle.append(len(out.receipts)))
    await settle()
    assert idle == []
    world.ledgers.release()
    await settle()
    assert idle == [1]
