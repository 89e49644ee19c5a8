"""The way in: answers in the order of the sends, whatever has to wait, fails or is known already."""

from __future__ import annotations

from magnetar.base.errors import Fenced, StorageFailed
from magnetar.base.ids import Position, Term
from magnetar.wire.proto import pb
from tests.unit.topic.world import Out, World, an_entry, gathered, send_frame, settle, the_chunks

KNOWN_ALREADY = Position(-1, -1)


def sent(*sequences: int, producer_id: int = 7) -> bytes:
    return b"".join(send_frame(producer_id, one, an_entry(f"m{one}", one)) for one in sequences)


async def test_read_of_many_sends_gets_one_receipt_each_in_order(world: World) -> None:
    topic = await world.topic()
    out = Out()
    producer = await world.producer(topic, out, producer_id=7)
    sends = gathered(sent(0, 1, 2))
    topic.publish(producer, sends)
    assert out.receipts == []
    await settle()
    assert [one.sequence for one in out.receipts] == [0, 1, 2]
    assert [one.position.entry for one in out.receipts] == [0, 1, 2]
    assert out.freed == len(sends.body)
    assert (topic.messages_in, topic.entries_in, topic.in_flight) == (3, 3, 0)


async def test_duplicate_behind_run_in_flight_is_answered_after_it(world: World) -> None:
    topic = await world.topic(deduplication=True)
    out = Out()
    producer = await world.producer(topic, out, producer_id=7)
    topic.publish(producer, gathered(sent(0, 1)))
    await settle()
    world.ledgers.hold()
    topic.publish(producer, gathered(sent(2)))
    topic.publish(producer, gathered(sent(1)))
    await settle()
    assert [one.sequence for one in out.receipts] == [0, 1]
    world.ledgers.release()
    await settle()
    assert [one.sequence for one in out.receipts] == [0, 1, 2, 1]
    assert out.receipts[-1].position == KNOWN_ALREADY


async def test_new_and_known_sends_are_answered_in_order(world: World) -> None:
    topic = await world.topic(deduplication=True)
    out = Out()
    producer = await world.producer(topic, out, producer_id=7)
    topic.publish(producer, gathered(sent(0, 1)))
    await settle()
    out.clear()
    sends = gathered(sent(0, 1, 2, 3))
    freed = out.freed
    topic.publish(producer, sends)
    await settle()
    assert [one.sequence for one in out.receipts] == [0, 1, 2, 3]
    assert [one.position == KNOWN_ALREADY for one in out.receipts] == [True, True, False, False]
    assert topic.managed.entries == 4
    assert out.freed - freed == len(sends.body)


async def test_repeated_id_in_flight_is_answered_as_unknown(world: World) -> None:
    topic = await world.topic(deduplication=True)
    out = Out()
    producer = await world.producer(topic, out, producer_id=7)
    world.ledgers.hold()
    topic.publish(producer, gathered(sent(5)))
    topic.publish(producer, gathered(sent(5)))
    world.ledgers.release()
    await settle()
    assert out.answered == [(5, None), (5, pb.PersistenceError)]
    assert topic.managed.entries == 1


async def test_only_last_chunk_of_message_counts_as_its_sequence_id(world: World) -> None:
    topic = await world.topic(deduplication=True)
    out = Out()
    producer = await world.producer(topic, out, producer_id=7)
    pieces = [send_frame(7, 3, piece, is_chunk=True) for piece in the_chunks("abcdef", 3, 3)]
    for piece in pieces:
        topic.publish(producer, gathered(piece))
        await settle()
    assert [one.position == KNOWN_ALREADY for one in out.receipts] == [False] * 3
    assert topic.highest_sequence("p") == 3
    topic.publish(producer, gathered(pieces[2]))
    await settle()
    assert out.receipts[-1].position == KNOWN_ALREADY


async def test_no_answer_of_any_kind_follows_close_of_producer(world: World) -> None:
    topic = await world.topic(deduplication=True)
    out = Out()
    producer = await world.producer(topic, out, producer_id=7)
    topic.publish(producer, gathered(sent(0)))
    await settle()
    out.clear()
    world.ledgers.hold()
    topic.publish(producer, gathered(sent(1)))
    topic.publish(producer, gathered(sent(0)))  # its answer waits behind that of 1
    topic.producers.close(producer)
    late = gathered(sent(2))
    freed = out.freed
    topic.publish(producer, late)
    assert out.freed - freed == len(late.body)
    world.ledgers.release()
    await settle()
    assert out.kinds == ["CLOSE_PRODUCER"]
    assert topic.managed.entries == 2  # 1 was stored all the same
    assert topic.highest_sequence("p") == 1


async def test_unloading_answers_what_is_in_flight_before_it_closes_producer(world: World) -> None:
    topic = await world.topic()
    out = Out()
    producer = await world.producer(topic, out, producer_id=7)
    world.ledgers.hold()
    topic.publish(producer, gathered(sent(0)))
    closed = world.spawn(topic.close())
    await settle()
    topic.publish(producer, gathered(sent(1)))  # too late: sent again after the reconnect
    assert out.kinds == []
    world.ledgers.release()
    await closed
    assert out.kinds == ["SEND_RECEIPT", "CLOSE_PRODUCER"]
    assert topic.managed.entries == 1


async def test_sealed_topic_answers_sends_with_terminated(world: World) -> None:
    topic = await world.topic()
    out = Out()
    producer = await world.producer(topic, out, producer_id=7)
    await topic.seal("op", Term(1))
    producer.closed = False  # a client that has not heard of it yet
    topic.publish(producer, gathered(sent(0, 1)))
    assert out.answered == [(0, pb.TopicTerminatedError), (1, pb.TopicTerminatedError)]


async def test_failed_append_is_reported_and_topic_recovers(world: World) -> None:
    topic = await world.topic(deduplication=True)
    out = Out()
    producer = await world.producer(topic, out, producer_id=7)
    topic.publish(producer, gathered(sent(0)))
    await settle()
    world.ledgers.fail_append(Fenced("another owner"))
    topic.publish(producer, gathered(sent(1)))
    topic.publish(producer, gathered(sent(2)))
    await settle()
    # Never ProducerFenced: that would end the stock client's producer for good.
    assert out.answered == [(0, None), (1, pb.PersistenceError), (2, pb.PersistenceError)]
    assert len(world.failed) == 1
    topic.publish(producer, gathered(sent(3)))
    assert out.answered[-1] == (3, pb.ServiceNotReady)
    await topic.close()
    again = await world.topic(deduplication=True)
    assert again.highest_sequence("p") == 0
    back = Out(2)
    producer = await world.producer(again, back, producer_id=8, epoch=1)
    again.publish(producer, gathered(sent(1, 2, 3, producer_id=8)))
    await settle()
    assert back.answered == [(1, None), (2, None), (3, None)]
    assert again.managed.entries == 4


async def test_writer_that_dies_once_costs_nobody_answer(world: World) -> None:
    topic = await world.topic()
    out = Out()
    producer = await world.producer(topic, out, producer_id=7)
    world.ledgers.fail_append(StorageFailed("a disk went"))
    topic.publish(producer, gathered(sent(0)))
    topic.publish(producer, gathered(sent(1)))
    await settle()
    assert out.answered == [(0, None), (1, None)]
    assert world.failed == []
