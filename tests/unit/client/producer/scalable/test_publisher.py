"""Publishing to a scalable topic beside a scripted broker: where messages go and what they are told as it is split."""

from __future__ import annotations

import pytest

from magnetar.base.errors import (
    Closed,
    ConnectionLost,
    Fenced,
    LimitExceeded,
    NotAuthorized,
    NotReady,
    TimedOut,
    TopicNotFound,
)
from magnetar.client.producer.batch import Batching
from magnetar.wire import commands
from magnetar.wire.proto import pb
from tests.support.scalable_broker_script import TOPIC
from tests.support.scalable_publisher import HIGH, LOW, a_world
from tests.unit.client.world import run, turns

pytestmark = pytest.mark.real_clock

K = pb.BaseCommand


async def test_producer_of_each_segment_is_opened_as_recorded() -> None:
    """In the order of a real client: the topic is looked up and watched, then each segment is looked up and opened."""

    async with a_world(2) as world:
        world.add(b"1", LOW)
        world.add(b"2", HIGH)
        assert await world.came(0, 1) == [b"1"]
        assert await world.came(1, 1) == [b"2"]
        asked = [command.producer for command in world.broker.kinds(K.PRODUCER)]
        assert [(one.topic, one.producer_name) for one in asked] == [
            ("segment://public/default/t/0000-7fff-0", "p-seg-0"),
            ("segment://public/default/t/8000-ffff-1", "p-seg-1"),
        ]
        assert all(one.user_provided_producer_name for one in asked)
        looked_up = [command.lookupTopic.topic for command in world.broker.kinds(K.LOOKUP)]
        assert looked_up == [str(TOPIC), *(one.topic for one in asked)]
        assert not world.broker.kinds(K.PARTITIONED_METADATA)


async def test_ids_of_stored_messages_name_their_segment() -> None:
    async with a_world(2) as world:
        world.add(b"1", HIGH)
        await world.until_told(1)
        assert world.told[0][1] is not None
        assert (world.told[0][1].segment, world.told[0][1].ledger) == (1, 1)


async def test_numbers_go_on_behind_highest_that_any_owner_knows() -> None:
    async with a_world(2, started=False) as world:
        world.scaled.last_sequence[world.scaled.name(1)] = 41
        await world.publisher.start()
        assert world.publisher.last_sequence == 41
        world.add(b"1", LOW)
        await world.came(0, 1)
        assert world.scaled.sent(0)[0].sequence == 42


async def test_seal_moves_what_parent_refused_to_children_in_order() -> None:
    async with a_world(receipts=False) as world:
        for number in range(6):
            world.add(b"%d" % number, LOW if number % 2 else HIGH)
        await world.came(0, 6)
        layout = world.split(0)
        world.scaled.seal(0, receipts=2)
        world.broker.receipts = True
        world.scaled.show(layout)
        assert await world.came(1, 2) == [b"3", b"5"]
        assert await world.came(2, 2) == [b"2", b"4"]
        await world.until_told(6)
        assert sorted(world.stored()) == [b"0", b"1", b"2", b"3", b"4", b"5"]
        assert world.errors() == []


async def test_messages_sent_during_seal_wait_behind_their_keys() -> None:
    async with a_world(receipts=False) as world:
        world.add(b"1", LOW)
        await world.came(0, 1)
        layout = world.split(0)
        world.scaled.seal(0, close=False)
        await world.broker.until(lambda: bool(world.broker.kinds(K.CLOSE_PRODUCER)))  # frozen, and settling
        world.add(b"2", LOW)
        world.add(b"3", HIGH)
        world.broker.receipts = True
        world.scaled.show(layout)
        assert await world.came(1, 2) == [b"1", b"2"]
        assert await world.came(2, 1) == [b"3"]


async def test_child_takes_nothing_before_it_is_known_what_parent_kept() -> None:
    async with a_world(receipts=False) as world:
        world.add(b"1", LOW)
        await world.came(0, 1)
        world.scaled.broker.handlers[K.CLOSE_PRODUCER] = lambda link, command: True  # no answer yet
        parent = world.scaled.sent(0)[0]
        world.scaled.show(world.split(0))
        closing = world.broker
        await closing.until(lambda: bool(closing.kinds(K.CLOSE_PRODUCER)))
        world.add(b"2", LOW)
        await closing.until(lambda: len(closing.kinds(K.PRODUCER)) == 3)
        assert world.scaled.sent(1) == []
        parent.receipt()  # it was stored, just before the seal
        asked = closing.kinds(K.CLOSE_PRODUCER)[0].close_producer
        parent.link.write(commands.success(asked.request_id))
        del world.scaled.broker.handlers[K.CLOSE_PRODUCER]
        world.broker.receipts = True
        assert await world.came(1, 1) == [b"2"]
        await world.until_told(2)
        assert world.stored() == [b"1", b"2"]


async def test_merge_releases_child_when_both_parents_are_done() -> None:
    async with a_world(2, receipts=False) as world:
        for number in range(4):
            world.add(b"%d" % number, LOW if number % 2 else HIGH)
        await world.came(0, 2)
        await world.came(1, 2)
        layout = world.merge(0, 1)
        world.scaled.seal(0)
        world.scaled.seal(1)
        world.broker.receipts = True
        world.scaled.show(layout)
        assert await world.came(2, 4) == [b"0", b"1", b"2", b"3"]


async def test_segment_sealed_at_open_waits_for_next_layout() -> None:
    async with a_world(started=False) as world:
        await world.publisher.start()
        world.broker.receipts = False
        world.add(b"1", LOW)
        await world.came(0, 1)
        layout = world.split(0)
        world.scaled.refusals[world.scaled.name(0)] = [pb.TopicTerminatedError]
        world.broker.cut()
        await world.broker.until(lambda: len(world.broker.kinds(K.PRODUCER)) == 2)
        world.broker.receipts = True
        await world.broker.until(lambda: bool(world.scaled.watching))
        world.scaled.show(layout)
        assert await world.came(1, 1) == [b"1"]


async def test_lost_connection_writes_everything_unanswered_again_in_order() -> None:
    async with a_world(receipts=False) as world:
        world.add(b"1", LOW)
        world.add(b"2", LOW)
        await world.came(0, 2)
        world.broker.receipts = True
        world.broker.cut()
        assert await world.came(0, 4) == [b"1", b"2", b"1", b"2"]
        await world.until_told(2)
        assert world.publisher.counters.reattached == 1


def test_close_by_our_broker_is_definite_and_by_others_unknown():
    async def body(ours: bool) -> None:
        async with a_world(ours=ours, receipts=False) as world:
            world.add(b"1", LOW)
            await world.came(0, 1)
            world.scaled.refusals[world.scaled.name(0)] = [pb.ServiceNotReady] * 100
            id, (_, link) = next(iter(world.scaled.producers.items()))
            link.write(commands.close_producer(id))
            await world.broker.until(lambda: len(world.broker.kinds(pb.BaseCommand.PRODUCER)) > 1)
            world.expire()
            assert world.errors() == [(b"1", NotReady if ours else TimedOut)]

    run(lambda: body(True))
    run(lambda: body(False))


async def test_unanswered_message_may_be_stored_and_unwritten_one_is_not() -> None:
    async with a_world(receipts=False, send_timeout_s=1.0) as world:
        world.add(b"1", LOW)
        await world.came(0, 1)
        world.scaled.seal(0)
        world.add(b"2", LOW)  # the layout never comes
        await world.until_told(2)
        assert world.errors() == [(b"1", NotReady), (b"2", NotReady)]
        assert world.publisher.counters.timeouts == 2


async def test_batches_are_cut_inside_queue_and_say_their_numbers() -> None:
    async with a_world(2, batching=Batching()) as world:
        for number in range(6):
            world.add(b"%d" % number, LOW if number % 2 else HIGH)
        await world.until_told(6)
        low, high = world.scaled.sent(0), world.scaled.sent(1)
        assert [(one.sequence, one.highest, one.messages) for one in (*low, *high)] == [(1, 5, 3), (0, 4, 3)]
        ids = {payload: found for payload, found, _ in world.told}
        assert [(ids[b"%d" % n].segment, ids[b"%d" % n].batch_index) for n in (1, 3, 5)] == [(0, 0), (0, 1), (0, 2)]


async def test_batch_waits_for_receipt_of_batch_in_flight() -> None:
    async with a_world(receipts=False, batching=Batching(delay_s=60.0)) as world:
        world.add(b"1", LOW)
        await world.came(0, 1)
        world.add(b"2", LOW)
        world.add(b"3", LOW)
        assert len(world.scaled.sent(0)) == 1
        world.broker.receipts = True
        world.scaled.sent(0)[0].receipt()
        await world.until_told(3)
        assert [one.messages for one in world.scaled.sent(0)] == [1, 2]


async def test_chunks_are_told_once_with_place_of_first() -> None:
    async with a_world(chunking=True) as world:
        world.add(b"x" * (3 << 19), LOW)
        await world.until_told(1)
        found = world.told[0][1]
        assert found is not None
        assert found.first_chunk is not None
        assert (found.first_chunk.entry, found.entry, found.segment) == (0, 1, 0)


async def test_unacceptable_message_is_refused_and_others_continue() -> None:
    async with a_world() as world:
        world.add(b"x" * (3 << 19), LOW)
        world.add(b"2", LOW)
        await world.until_told(2)
        assert world.errors() == [(b"x" * (3 << 19), LimitExceeded)]
        assert world.stored() == [b"2"]


async def test_fenced_producer_ends_and_says_what_it_does_not_know() -> None:
    async with a_world(2, receipts=False) as world:
        world.add(b"1", LOW)
        world.add(b"2", HIGH)
        await world.came(0, 1)
        await world.came(1, 1)
        sent = world.scaled.sent(0)[0]
        sent.link.write(commands.send_error(sent.producer, sent.sequence, pb.ProducerFenced, "fenced"))
        await world.until_told(2)
        assert world.errors() == [(b"1", ConnectionLost), (b"2", ConnectionLost)]
        with pytest.raises(Fenced):
            world.add(b"3", LOW)


async def test_deleted_topic_ends_producer() -> None:
    async with a_world() as world:
        world.scaled.gone()
        await turns(lambda: world.publisher.error is not None)
        with pytest.raises(TopicNotFound):
            world.add(b"1", LOW)


async def test_segment_refusing_producer_at_start_ends_it_cleanly() -> None:
    async with a_world(2, started=False) as world:
        world.scaled.refusals[world.scaled.name(1)] = [pb.AuthorizationError]
        with pytest.raises(NotAuthorized):
            await world.publisher.start()
        await world.broker.until(lambda: not world.scaled.producers and not world.scaled.watching)


async def test_child_refusing_temporarily_is_retried_until_attached() -> None:
    async with a_world(receipts=False) as world:
        world.add(b"1", LOW)
        await world.came(0, 1)
        layout = world.split(0)
        world.scaled.refusals["segment://public/default/t/0000-7fff-1"] = [pb.ProducerBusy, pb.ServiceNotReady]
        world.scaled.seal(0)
        world.broker.receipts = True
        world.scaled.show(layout)
        assert await world.came(1, 1) == [b"1"]


async def test_close_stores_pending_messages_then_leaves_segments_and_watch() -> None:
    async with a_world(2) as world:
        world.add(b"1", LOW)
        world.add(b"2", HIGH)
        await world.publisher.close()
        assert sorted(world.stored()) == [b"1", b"2"]
        await world.broker.until(lambda: not world.scaled.producers and not world.scaled.watching)
        with pytest.raises(Closed):
            world.add(b"3", LOW)


async def test_messages_without_key_go_round_segments_where_nobody_compares_numbers() -> None:
    async with a_world(2, name="") as world:
        for number in range(4):
            world.add(b"%d" % number)
        await world.until_told(4)
        assert [len(world.scaled.sent(0)), len(world.scaled.sent(1))] == [2, 2]


def test_repeated_keyless_message_of_named_producer_keeps_segment():
    async def body() -> list[int]:
        async with a_world(4) as world:
            for number in range(8):
                world.add(b"%d" % number, sequence=number)
            await world.until_told(8)
            return [found.segment for _, found, _ in sorted(world.told, key=lambda told: told[0]) if found]

    found: list[list[int]] = []

    async def collect() -> None:
        found.append(await body())

    run(collect)
    run(collect)
    assert found[0] == found[1]
    assert len(set(found[0])) > 1
