"""What a topic can give to a reader that stands somewhere: where it begins, what is gone, where batches may end."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from magnetar.base.errors import Fenced, Misuse
from magnetar.base.ids import AFTER_ALL, Position, Term
from magnetar.base.limits import PLAN_STAMPS_MAX
from magnetar.layout.readable_range import DONE, START, ReadableRange, ReadPosition
from magnetar.ledger.retention import Retention, Rule
from magnetar.topic.measure import FROM_EARLIEST, FROM_LATEST, FROM_START, RangeRequest
from magnetar.topic.topic import Topic
from tests.unit.topic.world import Out, World, a_batch, an_entry, gathered, send_frame, settle


async def a_topic(world: World, messages: int = 10, *, per_ledger: int = 3) -> Topic:
    """Message n is published at n * 10."""
    world.config = replace(world.config, entries_max=per_ledger)
    topic = await world.topic()
    producer = await world.producer(topic, Out())
    for number in range(messages):
        body = an_entry(f"m{number}", number, publish_time=number * 10)
        topic.publish(producer, gathered(send_frame(producer.id, number, body)))
        await settle()
    return topic


async def measured(topic: Topic, asked: RangeRequest) -> ReadableRange:
    return (await topic.meter.measure(asked)).stretch


async def test_topic_without_messages_is_at_start_for_any_question(world: World) -> None:
    topic = await world.topic()
    for start in (START, FROM_START, FROM_EARLIEST, FROM_LATEST, 5):
        found = await measured(topic, RangeRequest(start))
        assert (found.start, found.end, found.marks, found.messages) == (START, START, (), 0)
        assert not found.sealed
        assert not found.lost
    await topic.seal("op", Term(1))
    assert (await measured(topic, RangeRequest(START))).sealed


async def test_range_is_measured_from_position_to_excluded_end(world: World) -> None:
    topic = await a_topic(world)
    first, last = topic.managed.first, topic.managed.last
    whole = await measured(topic, RangeRequest(FROM_START))
    assert (whole.start, whole.messages, whole.marks[-1].place) == (ReadPosition(*first), 10, whole.end)
    assert whole.end == ReadPosition(last.ledger, last.entry + 1)
    third = ReadPosition(*topic.managed.chain.nth(3))
    rest = await measured(topic, RangeRequest(third))
    assert (rest.start, rest.messages, rest.end) == (third, 7, whole.end)
    beyond = await measured(topic, RangeRequest(whole.end))
    assert (beyond.start, beyond.marks, beyond.messages, beyond.sealed) == (whole.end, (), 0, False)


async def test_only_sealed_topic_measured_to_its_end_is_sealed(world: World) -> None:
    topic = await a_topic(world)
    await topic.seal("op", Term(1))
    assert (await measured(topic, RangeRequest(START))).sealed
    assert not (await measured(topic, RangeRequest(START, messages_max=2))).sealed
    target = ReadPosition(*topic.managed.chain.nth(5))
    clipped = await measured(topic, RangeRequest(START, target=target))
    assert (clipped.sealed, clipped.messages, clipped.end) == (False, 5, target)
    assert (await measured(topic, RangeRequest(START, target=DONE))).sealed
    assert (await measured(topic, RangeRequest(FROM_LATEST))).sealed


async def test_only_messages_trimmed_before_reading_are_lost(world: World) -> None:
    topic = await a_topic(world)
    gone = ReadPosition(*topic.managed.chain.nth(1))
    kept = ReadPosition(*topic.managed.chain.nth(6))
    edge = ReadPosition(topic.managed.chain.nth(5).ledger, topic.managed.chain.nth(5).entry + 1)
    await topic.managed.trim(Position(*topic.managed.chain.nth(5)), Rule(Retention(), world.runtime.wall()))
    assert topic.managed.first == kept[:2]
    for start, lost in ((START, True), (FROM_START, True), (gone, True), (edge, False), (kept, False)):
        found = await measured(topic, RangeRequest(start))
        assert (found.start, found.lost, found.messages) == (kept, lost, 4)
    earliest = await measured(topic, RangeRequest(FROM_EARLIEST))
    assert (earliest.start, earliest.lost) == (kept, False)
    await topic.seal("op", Term(1))
    await topic.managed.trim(AFTER_ALL, Rule(Retention(), world.runtime.wall()))
    empty = await measured(topic, RangeRequest(START))
    assert (empty.lost, empty.sealed, empty.marks, empty.start) == (True, True, (), earliest.end)


async def test_reader_inside_batch_does_not_count_what_it_has(world: World) -> None:
    topic = await world.topic()
    producer = await world.producer(topic, Out())
    batch = a_batch(["a", "b", "c", "d"])
    topic.publish(producer, gathered(send_frame(producer.id, 3, batch, num_messages=4)))
    await settle()
    first = topic.managed.first
    found = await measured(topic, RangeRequest(ReadPosition(first.ledger, first.entry, 3)))
    assert (found.messages, [mark.messages for mark in found.marks]) == (1, [1])


async def test_time_is_found_and_publish_times_of_marks_are_told(world: World) -> None:
    topic = await a_topic(world)
    found = await measured(topic, RangeRequest(45))
    assert (found.start, found.messages) == (ReadPosition(*topic.managed.chain.nth(5)), 5)
    assert (await measured(topic, RangeRequest(1000))).messages == 0
    first_only = await measured(topic, RangeRequest(FROM_START))
    assert first_only.marks[0].publish_ms == 10 * first_only.marks[0].messages - 10
    assert all(mark.publish_ms == 0 for mark in first_only.marks[1:])
    all_of_them = await measured(topic, RangeRequest(FROM_START, times=True))
    assert [mark.publish_ms for mark in all_of_them.marks] == [10 * mark.messages - 10 for mark in all_of_them.marks]


async def test_publish_times_are_read_once_and_few_are_remembered(world: World) -> None:
    topic = await a_topic(world.without_cache(), 5, per_ledger=1000)
    await measured(topic, RangeRequest(FROM_START, times=True))
    before = world.ledgers.reads
    await measured(topic, RangeRequest(FROM_START, times=True))
    assert world.ledgers.reads == before
    for entry in range(PLAN_STAMPS_MAX + 20):
        topic.meter._stamps[Position(99, entry)] = 1
    topic.meter._stamps.pop(topic.managed.chain.nth(3))
    await measured(topic, RangeRequest(ReadPosition(*topic.managed.chain.nth(3))))
    assert len(topic.meter._stamps) == PLAN_STAMPS_MAX


async def test_trim_that_has_begun_is_over_before_settled_answer(world: World) -> None:
    topic = await a_topic(world)
    await topic.trimming.acquire()
    asked = world.spawn(measured(topic, RangeRequest(START, settled=True)))
    await settle()
    assert not asked.done()
    await topic.managed.trim(Position(*topic.managed.chain.nth(5)), Rule(Retention(), world.runtime.wall()))
    topic.trimming.release()
    assert (await asked).lost


async def test_messages_without_cursor_are_kept_for_hold(world: World) -> None:
    topic = await a_topic(world)
    wanted = topic.managed.chain.nth(6)

    async def kept() -> Position:
        return topic.managed.before(wanted)

    topic.kept = kept
    await topic.trim()
    assert topic.managed.first == wanted
    assert topic.managed.messages == 4


@pytest.mark.parametrize(("messages", "per_ledger"), [(10, 1000), (10, 3), (0, 1000)])
async def test_what_is_told_from_memory_is_what_is_measured(world: World, messages: int, per_ledger: int) -> None:
    topic = await a_topic(world, messages, per_ledger=per_ledger)
    ledgers = [link.ledger for link in topic.managed.chain.links]
    places = [ReadPosition(ledger, entry, row) for ledger in ledgers for entry in range(12) for row in (0, 1)]
    told = 0
    for sealed in (False, True):
        if sealed:
            await topic.seal("op", Term(1))
        for start in (START, FROM_START, FROM_EARLIEST, FROM_LATEST, 30, ReadPosition(-1, 5), DONE, *places):
            for limits in ((0, 0), (4, 0), (0, 1), (1000, 1 << 40)):
                asked = RangeRequest(start, None, *limits)
                topic.meter._asked = None
                wanted = await topic.meter.measure(asked)
                topic.meter._asked = None
                found = topic.meter.at_once(asked)
                assert found is None or (found.stretch, found.body) == (wanted.stretch, wanted.body)
                told += found is not None
    assert bool(told) == (messages > 0 and per_ledger == 1000)


@pytest.mark.parametrize("seed", range(4))
async def test_immediate_answer_equals_measured_one_anywhere(world: World, seed: int) -> None:
    chance = random.Random(seed)
    topic = await world.topic()
    producer = await world.producer(topic, Out())
    for number in range(40):
        body = a_batch(["x" * chance.choice([0, 1, 9000]) for _ in range(chance.choice([1, 2, 150]))])
        count = chance.choice([1, 100, 20_000])  # as its producer says
        topic.publish(producer, gathered(send_frame(producer.id, number, body, num_messages=count)))
        await settle()
    ledger, last = topic.managed.last
    told = 0
    for _ in range(100):
        start = chance.choice([START, *[ReadPosition(ledger, chance.randrange(last + 2)) for _ in range(9)]])
        asked = RangeRequest(start, marks_max=chance.choice([2, 4, 8, 128]))
        topic.meter._asked = None
        wanted = await topic.meter.measure(asked)
        topic.meter._asked = None
        found = topic.meter.at_once(asked)
        if found is not None:
            told += 1
            assert (found.body, found.stretch) == (wanted.body, wanted.stretch)
            assert (found.messages, found.bytes) == (wanted.messages, wanted.bytes)
    assert told > 50


async def test_immediate_answer_reflects_present_topic(world: World) -> None:
    topic = await a_topic(world, per_ledger=1000)
    asked = RangeRequest(FROM_START)
    before = await measured(topic, asked)
    again = topic.meter.at_once(asked)
    assert again is not None
    assert (again.stretch, again.sealed) == (before, False)
    await topic.seal("op", Term(1))
    sealed = topic.meter.at_once(asked)
    assert sealed is not None
    assert (sealed.sealed, sealed.stretch) == (True, before._replace(sealed=True))
    await topic.managed.trim(AFTER_ALL, Rule(Retention(), world.runtime.wall()))
    assert topic.meter.at_once(asked) is None
    gone = await measured(topic, asked)
    assert (gone.lost, gone.marks) == (True, ())


async def test_earlier_ledgers_than_remaining_one_are_reported_lost(world: World) -> None:
    topic = await a_topic(world, 12)
    await topic.managed.trim(topic.managed.chain.nth(8), Rule(Retention(), world.runtime.wall()))
    assert len(topic.managed.chain.links) == 1
    asked = RangeRequest(FROM_START)
    assert (await measured(topic, asked)).lost
    topic.meter._asked = None
    found = topic.meter.at_once(asked) or await topic.meter.measure(asked)
    assert found.stretch.lost


async def test_cached_answer_is_not_used_after_growth_or_limit(world: World) -> None:
    topic = await a_topic(world, 5, per_ledger=1000)
    asked = RangeRequest(FROM_START)
    first = await measured(topic, asked)
    told = topic.meter.at_once(asked)
    assert told is not None
    assert told.stretch == first
    producer = await world.producer(topic, Out(), "another")
    topic.publish(producer, gathered(send_frame(producer.id, 9, an_entry("more", 9, publish_time=90))))
    await settle()
    grown = topic.meter.at_once(asked) or await topic.meter.measure(asked)
    assert grown.messages == first.messages + 1
    assert topic.meter.at_once(RangeRequest(FROM_START, messages_max=2)) is None


@pytest.mark.parametrize("per_ledger", [1000, 3])
async def test_answer_serves_limits_that_it_does_not_reach(world: World, per_ledger: int) -> None:
    topic = await a_topic(world, per_ledger=per_ledger)
    meter = topic.meter
    size = (await meter.measure(RangeRequest(FROM_START))).bytes
    third, ninth = ReadPosition(*topic.managed.chain.nth(3)), ReadPosition(*topic.managed.chain.nth(9))
    limits = [(0, 0), (4, 0), (10, 0), (11, 0), (0, 1), (0, size), (0, size + 1), (10, size + 1), (11, size + 1)]
    questions = [RangeRequest(start, None, *some) for start in (FROM_START, third) for some in limits]
    questions += [
        RangeRequest(FROM_START, ninth),
        RangeRequest(FROM_START, marks_max=2),
        RangeRequest(FROM_START, times=True),
    ]
    wanted, again = [], 0
    for asked in questions:
        meter._asked = None
        wanted.append(await meter.measure(asked))
    for first in questions:
        for asked, right in zip(questions, wanted, strict=True):
            meter._asked = None
            before = await meter.measure(first)
            after = meter.at_once(asked) or await meter.measure(asked)
            assert after.stretch == right.stretch
            again += after is before and asked != first
    assert again


async def test_current_reader_is_answered_immediately_at_every_position(world: World) -> None:
    topic = await a_topic(world, per_ledger=1000)
    await measured(topic, RangeRequest(FROM_START))  # somebody has read here: the ledger is open
    for number in range(10):
        place = ReadPosition(*topic.managed.chain.nth(number))
        found = topic.meter.at_once(RangeRequest(place))
        assert found is not None
        rest = found.stretch
        assert (rest.start, rest.messages, rest.marks[0].publish_ms) == (place, 10 - number, number * 10)


async def test_settled_answer_is_never_told_from_memory(world: World) -> None:
    topic = await a_topic(world, per_ledger=1000)
    asked = RangeRequest(START, settled=True)
    assert (await measured(topic, asked)).messages == 10
    assert topic.meter.at_once(asked) is None


async def test_valid_position_is_returned_and_invalid_gets_nearest(world: World) -> None:
    topic = await a_topic(world)  # ledgers of three, the last has one
    chain, end = topic.managed.chain, topic.managed.chain.end
    first, second = chain.links[0].ledger, chain.links[1].ledger
    there = [
        ReadPosition(*chain.nth(4)),
        ReadPosition(*chain.nth(4), 7),
        ReadPosition(first, 3),
        ReadPosition(*end),
    ]
    for place in there:
        assert (await measured(topic, RangeRequest(place, exact=True))).start == place
    nowhere = {
        ReadPosition(first, 4): ReadPosition(second, 0),
        ReadPosition(first, 3, 1): ReadPosition(second, 0),
        ReadPosition(end.ledger, end.entry + 1): ReadPosition(*end),
        ReadPosition(*end, 1): ReadPosition(*end),
        ReadPosition(end.ledger + 9, 0): ReadPosition(*end),
    }
    for place, nearest in nowhere.items():
        assert (await measured(topic, RangeRequest(place, exact=True))).start == nearest
    await topic.managed.trim(chain.nth(5), Rule(Retention(), world.runtime.wall()))
    for place in (*there[:3], ReadPosition(first, 1, 5)):  # gone, and once there
        assert (await measured(topic, RangeRequest(place, exact=True))).start == place
    with pytest.raises(Misuse):
        await measured(topic, RangeRequest(FROM_LATEST, exact=True))


async def test_replaced_owner_does_not_declare_position_invalid(world: World) -> None:
    topic = await a_topic(world)
    there, end = ReadPosition(*topic.managed.first), topic.managed.chain.end
    node = await world.metadata.get(topic.managed.path)
    assert node is not None
    await world.metadata.put(topic.managed.path, node.value, expected=node.stat.version)  # as a new owner does
    assert (await measured(topic, RangeRequest(there, exact=True))).start == there
    with pytest.raises(Fenced):
        await measured(topic, RangeRequest(ReadPosition(end.ledger, end.entry + 1), exact=True))
