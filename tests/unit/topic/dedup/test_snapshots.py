"""What deduplication remembers over restarts: the newest snapshot, and every entry stored behind it."""

from __future__ import annotations

from magnetar.topic.settings import TopicSettings
from magnetar.topic.topic import Topic
from tests.unit.topic.world import Out, World, an_entry, gathered, pass_s, send_frame, settle, the_chunks


async def publish(world: World, topic: Topic, name: str, *sequences: int) -> list[tuple[int, int | None]]:
    """What a producer of this name is answered."""
    out = Out(len(topic.producers) + 50)
    producer = await world.producer(topic, out, name, producer_id=1)
    for sequence in sequences:
        topic.publish(producer, gathered(send_frame(1, sequence, an_entry("m", sequence, producer=name))))
    await settle()
    topic.producers.leave(producer)
    return [(receipt.sequence, receipt.position.ledger) for receipt in out.receipts]


async def test_crash_without_snapshot_loses_no_sequence_id(world: World) -> None:
    topic = await world.topic(deduplication=True)
    await publish(world, topic, "a", 0, 1, 2)
    await publish(world, topic, "b", 7)
    again = await world.crash().topic(deduplication=True)
    assert (again.highest_sequence("a"), again.highest_sequence("b")) == (2, 7)


async def test_crash_after_snapshot_reads_only_what_is_behind_it(world: World) -> None:
    topic = await world.topic(deduplication=True, dedup_snapshot_entries=2)
    await publish(world, topic, "a", 0, 1)
    await topic.maintain()
    await publish(world, topic, "a", 2)
    world = world.crash()
    before = world.ledgers.reads
    again = await world.topic(deduplication=True, dedup_snapshot_entries=2)
    assert again.highest_sequence("a") == 2
    assert world.ledgers.reads - before <= 2  # the snapshot, and one block of entries


async def test_sequence_ids_are_known_although_their_entries_are_gone(world: World) -> None:
    topic = await world.topic(deduplication=True)
    await publish(world, topic, "a", 0, 1, 2)
    await topic.close()
    topic = await world.topic(deduplication=True)
    await topic.trim()
    assert topic.managed.entries == 0
    assert await publish(world, topic, "a", 2) == [(2, -1)]


async def test_snapshot_is_taken_after_while_even_if_little_happens(world: World) -> None:
    topic = await world.topic(deduplication=True, dedup_snapshot_s=120)
    await publish(world, topic, "a", 0)
    await topic.maintain()
    assert topic.recall is not None
    assert topic.recall.position < topic.managed.last
    await pass_s(121)
    await topic.maintain()
    assert topic.recall.position == topic.managed.last


async def test_half_chunked_message_is_not_remembered_as_stored(world: World) -> None:
    topic = await world.topic(deduplication=True)
    first, second = the_chunks("abcd", 2, 5)
    await world.store(topic, first)
    again = await world.crash().topic(deduplication=True)
    assert again.highest_sequence("p") == -1
    await world.store(again, second)
    assert (await world.crash().topic(deduplication=True)).managed.entries == 2


async def test_producer_gone_for_long_is_forgotten(world: World) -> None:
    topic = await world.topic(deduplication=True, dedup_inactivity_ms=60_000)
    await publish(world, topic, "a", 3)
    await pass_s(30)
    await topic.maintain()
    assert topic.highest_sequence("a") == 3
    await pass_s(31)
    await topic.maintain()
    assert topic.highest_sequence("a") == -1


async def test_switching_off_and_on_again_starts_from_entries(world: World) -> None:
    topic = await world.topic(deduplication=True)
    await publish(world, topic, "a", 0, 1)
    await topic.close()
    topic = await world.topic()
    await world.store(topic, an_entry("m", 9, producer="a"))
    await topic.close()
    topic = await world.topic(deduplication=True)
    assert topic.highest_sequence("a") == 9


async def test_sink_rows_are_known_after_crash_without_deduplication(world: World) -> None:
    topic = await world.topic()
    await topic.remember_sinks()
    await publish(world, topic, "__sink-a", 0, 1)
    again = await world.crash().topic()
    assert (again.highest_sequence("__sink-a"), again.highest_sequence("someone")) == (1, -1)
    answers = await publish(world, again, "__sink-a", 1, 2)
    assert [ledger == -1 for _, ledger in answers] == [True, False]


async def test_beside_sink_others_may_repeat_themselves_as_before(world: World) -> None:
    topic = await world.topic()
    await topic.remember_sinks()
    await publish(world, topic, "a", 0, 1)
    assert [ledger == -1 for _, ledger in await publish(world, topic, "a", 0, 1)] == [False, False]
    assert topic.highest_sequence("a") == -1


async def test_switching_deduplication_off_leaves_what_sink_needs(world: World) -> None:
    topic = await world.topic(deduplication=True)
    await topic.remember_sinks()
    await publish(world, topic, "__sink-a", 0)
    await topic.configure(TopicSettings())
    assert await publish(world, topic, "__sink-a", 0) == [(0, -1)]


async def test_name_that_no_producer_may_have_is_not_learned(world: World) -> None:
    topic = await world.topic(deduplication=True)
    await world.store(topic, an_entry("m", 1, producer="p" * 1_000_000), an_entry("m", 1, producer="q"))
    again = await world.crash().topic(deduplication=True)
    assert again.dedup is not None
    assert again.dedup.producers == 1
