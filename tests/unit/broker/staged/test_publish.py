"""A stage on its way into a plain or partitioned topic, beside a broker that does as it is told: every entry that a
stage may hold, tries that end anywhere, and stages that cannot be what they are said to be."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from magnetar.base.errors import BadChecksum, Corrupt, MagnetarError, NotBuilt
from magnetar.base.ids import SegmentId
from magnetar.base.limits import STAGE_SAVED_MESSAGES
from magnetar.base.names import topic_name
from magnetar.broker.staged.publish import pour
from magnetar.client.client import Client
from magnetar.layout.layout import initial
from magnetar.staged import codec as staged_codec
from magnetar.staged.machine import CommittedStage, Sink
from magnetar.wire import broker_frames, codec, commands, message
from magnetar.wire.proto import pb
from tests.support.scalable_broker_script import Scaled
from tests.support.stage_owners import FIRST, Row, Stored, batch_of, expected, stored
from tests.unit.client.world import Broker, Link, Sent, a_broker

pytestmark = pytest.mark.real_clock

K = pb.BaseCommand
TOPIC = "persistent://public/default/rows"
STAGE = topic_name("persistent://public/default/__stage-x")
SINK = Sink(topic=TOPIC, name="query", life="0" * 8)
SCALED = Sink(topic="topic://public/default/t", name="query", life="0" * 8)
ROWS = [Row(f"key-{n % 7}" if n % 5 else None, b"%d" % n, {"n": str(n)} if n % 3 == 0 else None) for n in range(120)]


def metadata(**said: object) -> pb.MessageMetadata:
    return pb.MessageMetadata(producer_name="task", sequence_id=0, publish_time=1, **said)  # type: ignore[arg-type]


def batch(first: int, count: int, compression: int = codec.NONE) -> bytes:
    payload = batch_of(ROWS[first : first + count], first)
    head = metadata(num_messages_in_batch=count)
    if compression:
        head.compression, head.uncompressed_size = compression, len(payload)  # type: ignore[assignment]
    return message.close_entry(head, codec.compress(compression, payload))


def foreign(first: int, count: int) -> bytes:
    """As somebody else writes it: without numbers."""
    singles = []
    for row in ROWS[first : first + count]:
        head = pb.SingleMessageMetadata(partition_key=row.key if isinstance(row.key, str) else None)
        head.properties.extend(pb.KeyValue(key=name, value=text) for name, text in (row.properties or {}).items())
        singles.append((head, row.value or b""))
    return message.batch(metadata(), singles)


def single(place: int) -> bytes:
    row = ROWS[place]
    head = metadata(partition_key=row.key if isinstance(row.key, str) else None)
    head.properties.extend(pb.KeyValue(key=name, value=text) for name, text in (row.properties or {}).items())
    return message.single(head, row.value or b"")


@dataclass
class World:
    broker: Broker
    entries: Sequence[bytes]
    last: int = -1  # what the topic has of this producer
    sink: Sink = SINK
    saved: list[int] = field(default_factory=list)
    _served: dict[int, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.broker.handlers |= {K.SUBSCRIBE: self._subscribed, K.FLOW: self._flow}
        self.broker.handlers.setdefault(K.PRODUCER, self._produces)

    def _subscribed(self, link: Link, command: pb.BaseCommand) -> bool:
        link.write(commands.success(command.subscribe.request_id))
        return True

    def _flow(self, link: Link, command: pb.BaseCommand) -> bool:
        consumer = command.flow.consumer_id
        if not self._served.setdefault(consumer, False):
            self._served[consumer] = True
            for place, entry in enumerate(self.entries):
                link.write(broker_frames.message(consumer, 1, place, entry))
        return True

    def _produces(self, link: Link, command: pb.BaseCommand) -> bool:
        said = command.producer
        link.write(commands.producer_success(said.request_id, said.producer_name, last_sequence_id=self.last))
        return True

    async def pour(self, *, messages: int, published: int = 0, partitions: int = 0) -> None:
        async def saved(count: int) -> None:
            self.saved.append(count)

        chosen = CommittedStage(0, 0, 2, FIRST, messages, partitions, published)
        async with Client(self.broker.url) as client:
            await pour(client, self.sink, chosen, STAGE, saved)

    @property
    def told(self) -> list[list[Stored]]:
        """What was sent, entry by entry."""
        return [told(sent) for sent in self.broker.sent]


def told(sent: Sent) -> list[Stored]:
    frame = (len(sent.entry) + 4).to_bytes(4, "big") + bytes(4) + sent.entry  # with some command in front
    return stored(frame)[1]


def wanted(first: int, last: int) -> list[Stored]:
    return [expected(ROWS[place], FIRST + place) for place in range(first, last)]


def flat(told: list[list[Stored]]) -> list[Stored]:
    return [one for entry in told for one in entry]


MIXED = [batch(0, 30), single(30), batch(31, 20, codec.LZ4), foreign(51, 19), batch(70, 49), single(119)]


async def test_each_staged_message_goes_once_under_its_number() -> None:
    async with a_broker() as broker:
        world = World(broker, MIXED)
        await world.pour(messages=120)
        assert flat(world.told) == wanted(0, 120)
        assert world.saved == [120]
        names = {command.producer.producer_name for command in broker.kinds(K.PRODUCER)}
        assert names == {staged_codec.producer(SINK, 2)}


async def test_batches_go_as_whole_entries_and_together() -> None:
    async with a_broker() as broker:
        world = World(broker, [batch(0, 30), batch(30, 30), batch(60, 60, codec.ZSTD)])
        await world.pour(messages=120)
        assert [len(entry) for entry in world.told] == [120]
        assert [(sent.sequence, sent.highest) for sent in broker.sent] == [(FIRST, FIRST + 119)]


@pytest.mark.parametrize("published", [0, 1, 29, 30, 31, 60, 110, 119])
async def test_what_is_published_is_not_sent_again(published: int) -> None:
    async with a_broker() as broker:
        world = World(broker, MIXED, last=FIRST + published - 1)
        await world.pour(messages=120, published=published)
        assert flat(world.told) == wanted(published, 120)


@pytest.mark.parametrize("known", [1, 30, 45, 119, 120])
async def test_uncertain_messages_go_one_by_one_and_others_in_batches(known: int) -> None:
    """A second try: the record says nothing, the topic has so many."""

    async with a_broker() as broker:
        world = World(broker, [batch(0, 60), batch(60, 60)], last=FIRST + known - 1)
        await world.pour(messages=120)
        assert flat(world.told) == wanted(0, 120)
        assert [len(entry) for entry in world.told[:known]] == [1] * known
        assert len(world.told) <= known + 1
        assert world.saved == sorted({known, 120})


async def test_partitions_are_those_of_when_stage_was_chosen() -> None:
    async with a_broker() as broker:
        broker.partitions = 5
        world = World(broker, MIXED)
        await world.pour(messages=120, partitions=3)
        topics = {command.producer.producer_id: command.producer.topic for command in broker.kinds(K.PRODUCER)}
        found: dict[str, list[Stored]] = {}
        for sent, entry in zip(broker.sent, world.told, strict=True):
            found.setdefault(topics[sent.producer].rsplit("-", 1)[1], []).extend(entry)
        assert sorted(found) == ["0", "1", "2"]
        for place, told in found.items():
            assert [one.number for one in told] == sorted(one.number for one in told)
            loose = [one.number - FIRST for one in told if one.key is None]
            assert {number % 3 for number in loose} == {int(place)}
        keys = [key for told in found.values() for key in {one.key for one in told if one.key}]
        assert len(keys) == len(set(keys))
        assert sorted(flat(list(found.values()))) == sorted(wanted(0, 120))


async def test_nothing_behind_end_of_stage_is_sent() -> None:
    """Numbers behind it are those of the next stage: rows of that would be taken for known."""

    async with a_broker() as broker:
        world = World(broker, [batch(0, 60), batch(60, 60)])
        await world.pour(messages=100)
        assert flat(world.told) == wanted(0, 100)


async def test_how_far_it_is_is_noted_now_and_then() -> None:
    async with a_broker() as broker:
        count = STAGE_SAVED_MESSAGES // 100 + 5
        world = World(broker, [batch(0, 100)] * count)
        await world.pour(messages=100 * count)
        assert len(world.saved) == 2
        assert STAGE_SAVED_MESSAGES <= world.saved[0] < world.saved[1] == 100 * count
        assert [one.number for one in flat(world.told)] == list(range(FIRST, FIRST + 100 * count))


def odd(**said: object) -> bytes:
    """Its keys are not the base64 that they are said to be."""
    head = pb.SingleMessageMetadata(partition_key="a", partition_key_b64_encoded=True, **said)  # type: ignore[arg-type]
    return message.batch(metadata(), [(head, b"v")] * 3)


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        (batch(0, 3)[:-1], BadChecksum),
        (message.close_entry(metadata(num_messages_in_batch=4), batch_of(ROWS[:3], 0)), Corrupt),
        (message.close_entry(metadata(num_messages_in_batch=0), b""), Corrupt),
        (
            message.single(metadata(encryption_keys=[pb.EncryptionKeys(key="k", value=b"v")]), b"secret"),
            NotBuilt,
        ),
        (message.single(metadata(num_chunks_from_msg=2, chunk_id=0, uuid="u"), b"half"), NotBuilt),
    ],
    ids=["torn", "fewer than it says", "none", "encrypted", "chunk"],
)
async def test_what_cannot_be_opened_ends_try_with_reason(entry: bytes, error: type[MagnetarError]) -> None:
    async with a_broker() as broker:
        world = World(broker, [entry])
        with pytest.raises(error):
            await world.pour(messages=3)
        assert world.saved == []


@pytest.mark.parametrize("said", [{}, {"sequence_id": 0}], ids=["message by message", "whole"])
async def test_invalid_base64_key_belongs_to_no_segment(
    said: dict[str, int],
) -> None:
    async with a_broker() as broker:
        world = World(broker, [odd(**said)])
        await world.pour(messages=3)
        assert [one.key for one in flat(world.told)] == ["a"] * 3
    async with a_broker() as broker:
        Scaled(broker, initial(2, now_ms=0))
        world = World(broker, [odd(**said)], sink=SCALED)
        with pytest.raises(Corrupt, match="base64"):
            await world.pour(messages=3)
        assert not broker.sent


async def test_segments_get_whole_entries_whose_numbers_have_holes() -> None:
    async with a_broker() as broker:
        scaled = Scaled(broker, initial(2, now_ms=0))
        world = World(broker, [batch(0, 60), batch(60, 60)], sink=SCALED)
        await world.pour(messages=120)
        assert [len(scaled.sent(segment)) for segment in (0, 1)] == [1, 1]
        for sent, told in zip(broker.sent, world.told, strict=True):
            numbers = [one.number for one in told]
            assert (sent.sequence, sent.highest, sent.messages) == (numbers[0], numbers[-1], len(numbers))
            assert numbers == sorted(numbers)
        assert sorted(flat(world.told)) == sorted(wanted(0, 120))


async def test_split_under_whole_entries_routes_messages_to_children() -> None:
    """What the sealed segment refused is not stored; children get it, in order, under the same numbers."""

    async with a_broker() as broker:
        scaled = Scaled(broker, initial(1, now_ms=0))
        world = World(broker, [batch(0, 60), batch(60, 60)], sink=SCALED)  # one entry, so nothing more comes
        broker.receipts = False
        pouring = asyncio.ensure_future(world.pour(messages=120))
        await broker.until(lambda: bool(scaled.sent(0)))
        scaled.seal(0)
        broker.receipts = True
        scaled.show(scaled.layout.split(SegmentId(0), now_ms=1))
        await pouring
        low, high = ([one for sent in scaled.sent(id) for one in told(sent)] for id in (1, 2))
        for kept in (low, high):
            assert [one.number for one in kept] == sorted(one.number for one in kept)
        assert sorted(low + high) == sorted(wanted(0, 120))
        assert min(len(low), len(high)) > 0
