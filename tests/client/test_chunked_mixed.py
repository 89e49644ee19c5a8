"""More messages in chunks mixed with each other than a consumer may hold at once: all of them are received (H-R2)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from magnetar import InitialPosition, MessageId, SubscriptionType, aio
from magnetar.base.errors import LimitExceeded
from tests.servers.standalone import Standalone
from tests.support.chunk_producer import Pieces
from tests.support.reshaped_topic import Reshaped, opened_topic, quiet

pytestmark = pytest.mark.real_clock

WAIT_S = 60  # for what must come
EARLIEST = InitialPosition.EARLIEST
MESSAGES, PENDING_MAX = 30, 7
KEPT = {"defaultRetentionTimeInMinutes": -1, "defaultRetentionSizeInMB": -1}
BODIES = [f"message {number:03}".encode() for number in range(MESSAGES)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("mixed"), KEPT) as running:
        yield running


async def mix(server: Standalone, topic: str) -> None:
    """All first halves before all second halves; one message that is not in chunks between and behind them."""
    async with Pieces(server.port, topic, "cut") as cut:
        halves = [cut.cut(body, 2) for body in BODIES]
        await cut.write(*(first for first, _ in halves))
        await cut.write(*cut.cut(b"between", 1))
        await cut.write(*(second for _, second in halves))
        await cut.write(*cut.cut(b"behind", 1))


def segment_of(topic: str) -> str:
    return topic.replace("topic://", "segment://") + "/0000-ffff-0"


async def read_all(reader: aio.CheckpointConsumer[bytes] | aio.Reader[bytes]) -> None:
    while True:
        await reader.receive(WAIT_S)


EXPECTED = sorted([*BODIES, b"between", b"behind"])


@pytest.mark.parametrize("every", [1, 5, MESSAGES + 2])
async def test_stream_consumer_receives_all_and_leaves_no_backlog(server, every):
    async with opened_topic(server, f"mixed-stream-{every}", Reshaped, 1) as cluster:
        await mix(server, segment_of(cluster.topic))
        options = {"initial_position": EARLIEST, "chunked_pending_max": PENDING_MAX}
        async with await cluster.client.stream_consumer(cluster.topic, "s", **options) as consumer:
            taken = []
            for count in range(1, MESSAGES + 3):
                message = await consumer.receive(WAIT_S)
                taken.append(message.data)
                if count % every == 0:
                    await consumer.acknowledge_cumulative(message, confirm=True)
            assert sorted(taken) == EXPECTED
            await consumer.acknowledge_cumulative(message, confirm=True)
        async with await cluster.client.stream_consumer(cluster.topic, "s", **options) as again:
            await quiet(again)


async def test_stream_consumer_that_leaves_early_leaves_rest(server):
    async with opened_topic(server, "mixed-leaves", Reshaped, 1) as cluster:
        await mix(server, segment_of(cluster.topic))
        options = {"initial_position": EARLIEST, "chunked_pending_max": PENDING_MAX}
        taken = []
        while len(taken) < MESSAGES + 2:
            async with await cluster.client.stream_consumer(cluster.topic, "s", **options) as consumer:
                for _ in range(3):
                    if len(taken) < MESSAGES + 2:
                        message = await consumer.receive(WAIT_S)
                        taken.append(message.data)
                await consumer.acknowledge_cumulative(message, confirm=True)
        assert sorted(taken) == EXPECTED


async def test_queue_consumer_receives_all(server):
    async with opened_topic(server, "mixed-queue", Reshaped, 1) as cluster:
        await mix(server, segment_of(cluster.topic))
        options = {"initial_position": EARLIEST, "chunked_pending_max": PENDING_MAX}
        async with await cluster.client.queue_consumer(cluster.topic, "s", **options) as consumer:
            taken = []
            for _ in range(MESSAGES + 2):
                message = await consumer.receive(WAIT_S)
                taken.append(message.data)
                await consumer.acknowledge(message, confirm=True)
            assert sorted(taken) == EXPECTED
            await quiet(consumer)


@pytest.mark.parametrize("kind", ["EXCLUSIVE", "FAILOVER", "SHARED", "KEY_SHARED"])
async def test_plain_consumer_receives_all(server, kind):
    async with opened_topic(server, f"mixed-{kind}-unused", Reshaped, 1) as cluster:
        topic = f"persistent://public/default/mixed-{kind}"
        made = await cluster.client.subscribe(
            topic,
            "s",
            type=SubscriptionType[kind],
            initial_position=EARLIEST,
            chunked_pending_max=PENDING_MAX,
        )
        async with made as consumer:
            await mix(server, topic)
            taken = []
            for _ in range(MESSAGES + 2):
                message = await consumer.receive(WAIT_S)
                taken.append(message.data)
                if kind in ("EXCLUSIVE", "FAILOVER"):
                    await consumer.acknowledge_cumulative(message, confirm=True)
                else:
                    await consumer.acknowledge(message, confirm=True)
            assert sorted(taken) == EXPECTED


async def test_checkpoint_consumer_beyond_its_bound_ends_with_error_naming_it(server):
    async with opened_topic(server, "mixed-checkpoint", Reshaped, 1) as cluster:
        await mix(server, segment_of(cluster.topic))
        client, topic = cluster.client, cluster.topic
        async with await client.checkpoint_consumer(topic, EARLIEST, chunked_pending_max=PENDING_MAX) as reader:
            with pytest.raises(LimitExceeded, match="chunked_pending_max"):
                await read_all(reader)
            kept = await reader.checkpoint()
        async with await client.checkpoint_consumer(topic, kept) as again:
            taken = [(await again.receive(WAIT_S)).data for _ in range(MESSAGES + 2)]
        assert sorted(taken) == EXPECTED


async def test_reader_beyond_its_bound_ends_with_error_naming_it(server):
    async with opened_topic(server, "mixed-reader-unused", Reshaped, 1) as cluster:
        topic = "persistent://public/default/mixed-reader"
        await mix(server, topic)
        reader = await cluster.client.create_reader(topic, MessageId.EARLIEST, chunked_pending_max=PENDING_MAX)
        async with reader:
            with pytest.raises(LimitExceeded, match="chunked_pending_max"):
                await read_all(reader)
