"""The public producer: room for what is sent, partitions chosen and found when they grow, nothing sent by a sender
that was cancelled before it had room, nothing sent twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from magnetar.base.errors import Busy, Closed, Misuse, NotBuilt, TimedOut, Unreachable
from magnetar.client.client import Client
from magnetar.client.producer.batch import Batching
from magnetar.client.schema import STRING
from magnetar.wire import commands, message
from magnetar.wire.ids import MessageId
from magnetar.wire.proto import pb
from tests.unit.client.world import Broker, Link, a_broker

pytestmark = pytest.mark.real_clock

K = pb.BaseCommand


@asynccontextmanager
async def a_client(**options: Any) -> AsyncIterator[tuple[Broker, Client]]:
    async with a_broker() as broker:
        client = Client(broker.url, **options)
        try:
            yield broker, client
        finally:
            await client.close()


def topics(broker: Broker) -> list[str]:
    return [command.producer.topic.rsplit("/", 1)[1] for command in broker.kinds(K.PRODUCER)]


async def test_everything_said_of_message_reaches_entry() -> None:
    async with a_client() as (broker, client):
        producer = await client.create_producer("t", schema=STRING)
        await producer.send(
            "text",
            key=b"\x00\xff",
            ordering_key=b"o",
            properties={"a": "1"},
            event_time_ms=5,
            sequence_id=9,
            deliver_at_ms=1_900_000_000_000,
            replicate_to=["west"],
        )
        await producer.send(None, key="gone")
        await producer.send("here", replicate_to=[])
        first, tombstone, local = (message.open_entry(one.entry) for one in broker.sent)
        head = first.metadata
        assert (first.payload, head.partition_key, head.partition_key_b64_encoded) == (b"text", "AP8=", True)
        assert (head.ordering_key, head.event_time, head.sequence_id) == (b"o", 5, 9)
        assert (head.deliver_at_time, list(head.replicate_to)) == (1_900_000_000_000, ["west"])
        assert {item.key: item.value for item in head.properties} == {"a": "1"}
        assert (tombstone.metadata.null_value, tombstone.metadata.sequence_id) == (True, 10)
        assert list(local.metadata.replicate_to) == ["__local__"]
        assert broker.kinds(K.PRODUCER)[0].producer.schema.type == pb.Schema.String


async def test_delay_counts_from_now() -> None:
    async with a_client() as (broker, client):
        producer = await client.create_producer("t")
        before = client.runtime.wall()
        await producer.send(b"x", deliver_after_s=60)
        found = message.open_entry(broker.sent[0].entry).metadata.deliver_at_time
        assert before + 60_000 <= found <= client.runtime.wall() + 60_000
        with pytest.raises(Misuse):
            await producer.send(b"x", deliver_after_s=1, deliver_at_ms=2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"properties": {"a": 1}},
        {"sequence_id": -1},
        {"event_time_ms": 2**64},
        {"event_time_ms": 1.5},
        {"deliver_at_ms": -5},
        {"deliver_after_s": "1"},
        {"partition_key": "5"},
    ],
)
async def test_what_cannot_be_said_is_misuse_before_anything_is_sent(wrong) -> None:
    async with a_client() as (broker, client):
        producer = await client.create_producer("t")
        with pytest.raises(Misuse):
            await producer.send(b"x", **wrong)
        with pytest.raises(Misuse):
            await producer.send("text")  # type: ignore[arg-type]
        assert client.budget.messages == 0
        assert broker.sent == []
        await producer.send(b"right")
        assert len(broker.sent) == 1


@pytest.mark.parametrize(
    ("name", "meant"), [("partition_key", "key"), ("keys", "key"), ("event_timestamp", "event_time_ms")]
)
async def test_unknown_option_of_message_names_right_one(name: str, meant: str) -> None:
    async with a_client() as (_, client):
        producer = await client.create_producer("t")
        with pytest.raises(Misuse, match=f"a message has no option {name}: did you mean {meant}?"):
            await producer.send(b"x", **{name: "1"})


async def test_class_instead_of_schema_is_refused_naming_schema() -> None:
    async with a_client() as (_, client):
        with pytest.raises(Misuse, match=r"schema must be a schema, for example magnetar.Json\(dict\)"):
            await client.create_producer("t", schema=dict)  # type: ignore[arg-type]
        with pytest.raises(Misuse, match=r"magnetar.Json\(str\)"):
            await client.subscribe("t", "s", schema="json")  # type: ignore[arg-type]


async def test_senders_wait_for_room_and_are_let_in_by_receipts() -> None:
    async with a_client(pending_messages_max=2) as (broker, client):
        broker.receipts = False
        producer = await client.create_producer("t", batching=None)
        producer.send_nowait(b"a")
        future = producer.submit(b"b")
        with pytest.raises(Busy):
            producer.send_nowait(b"c")
        waiting = asyncio.create_task(producer.send(b"c"))
        await broker.until(lambda: len(broker.sent) == 2)
        broker.receipts = True
        broker.sent[0].receipt(0)
        broker.sent[1].receipt(1)
        assert (await future, await waiting) == (MessageId(1, 1), MessageId(1, 0))
        assert client.budget.messages == 0


async def test_budget_is_whole_clients() -> None:
    async with a_client(pending_bytes_max=10) as (broker, client):
        broker.receipts = False
        one = await client.create_producer("one", batching=None)
        other = await client.create_producer("other", batching=None)
        one.send_nowait(b"12345678")
        with pytest.raises(Busy):
            other.send_nowait(b"12345678")
        await one.close(flush=False)
        other.send_nowait(b"12345678")
        await other.close(flush=False)


async def test_sender_cancelled_while_it_waits_for_room_sends_nothing() -> None:
    async with a_client(pending_messages_max=1) as (broker, client):
        broker.receipts = False
        producer = await client.create_producer("t", batching=None)
        producer.send_nowait(b"a")
        waiting = asyncio.create_task(producer.send(b"never"))
        await broker.until(lambda: len(broker.sent) == 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        broker.receipts = True
        broker.sent[0].receipt(0)
        await producer.send(b"b")
        assert [message.open_entry(one.entry).payload for one in broker.sent] == [b"a", b"b"]


@pytest.mark.parametrize("turns", range(8))
@pytest.mark.parametrize("batching", [None, Batching(), Batching(delay_s=0.001, linger=True)])
async def test_send_cancelled_at_any_turn_is_sent_at_most_once(turns, batching) -> None:
    async with a_client() as (broker, client):
        producer = await client.create_producer("t", batching=batching)
        task = asyncio.create_task(producer.send(b"maybe"))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        cancelled = (await asyncio.gather(task, return_exceptions=True))[0]
        await producer.send(b"after")
        found = []
        for one in broker.sent:
            entry = message.open_entry(one.entry)
            if entry.is_batch:
                found += [data for _, data in message.split_batch(entry.payload, one.messages)]
            else:
                found.append(entry.payload)
        assert found.count(b"maybe") <= 1
        assert found[-1] == b"after"
        if not isinstance(cancelled, asyncio.CancelledError):
            assert b"maybe" in found
        assert client.budget.messages == 0


async def test_keys_stay_in_their_partition_and_rest_goes_round() -> None:
    async with a_client() as (broker, client):
        broker.partitions = 3
        producer = await client.create_producer("t", batching=None, hashing="murmur3")
        assert sorted(topics(broker)) == ["t-partition-0", "t-partition-1", "t-partition-2"]
        assert producer.partitions == 3
        keyed = {await producer.send(b"x", key="abc") for _ in range(3)}
        assert len({found.partition for found in keyed}) == 1
        rounds = [(await producer.send(b"x")).partition for _ in range(6)]
        assert sorted(rounds[:3]) == [0, 1, 2]
        assert rounds[:3] == rounds[3:]


async def test_batch_stays_in_one_partition() -> None:
    async with a_client() as (broker, client):
        broker.partitions = 4
        producer = await client.create_producer("t", batching=Batching(messages_max=5, delay_s=60, linger=True))
        found = await asyncio.gather(*(producer.send(b"x") for _ in range(20)))
        used = [one.partition for one in found]
        assert sorted(used[::5]) == [0, 1, 2, 3]
        assert all(len(set(used[at : at + 5])) == 1 for at in range(0, 20, 5))


async def test_partitions_that_were_added_are_found() -> None:
    async with a_client() as (broker, client):
        broker.partitions = 1
        producer = await client.create_producer("t", routing=lambda key, count: count - 1)
        assert (await producer.send(b"x")).partition == 0
        broker.partitions = 3
        await producer._grow()
        assert producer.partitions == 3
        assert (await producer.send(b"x")).partition == 2


async def test_one_partition_that_refuses_ends_others() -> None:
    async with a_client() as (broker, client):
        broker.partitions = 3

        def refuse(link: Link, command: pb.BaseCommand) -> bool:
            if not command.producer.topic.endswith("-1"):
                return False
            link.write(commands.error(command.producer.request_id, pb.AuthorizationError, "not that one"))
            return True

        broker.handlers[K.PRODUCER] = refuse
        with pytest.raises(Exception, match="not that one"):
            await client.create_producer("t")
        await broker.until(lambda: len(broker.kinds(K.CLOSE_PRODUCER)) == 2)


async def test_exit_with_error_does_not_wait_for_pending_messages() -> None:
    async with a_broker() as broker:
        broker.receipts = False
        client = Client(broker.url)
        producer = await client.create_producer("t")
        producer.send_nowait(b"x")
        await client.__aexit__(ZeroDivisionError, None, None)
        with pytest.raises(Closed):
            await producer.send(b"x")
        with pytest.raises(Closed):
            await client.create_producer("t")


async def test_closing_client_raises_what_nobody_heard_and_closes_all_same() -> None:
    async with a_broker() as broker:
        broker.receipts = False
        client = Client(broker.url)
        producer = await client.create_producer("t", send_timeout_s=0.05)
        producer.send_nowait(b"x")
        with pytest.raises(TimedOut):
            await client.close()
        await client.close()
        assert client.closed


async def test_broker_that_refuses_is_unreachable_with_reason() -> None:
    client = Client("pulsar://127.0.0.1:1", operation_timeout_s=0.2)
    with pytest.raises(Unreachable, match=r"no broker listens at pulsar://127.0.0.1:1: .*cannot connect") as caught:
        await client.create_producer("t")
    assert caught.value.__suppress_context__
    await client.close()


async def test_chunks_are_for_topics_that_keep_them() -> None:
    async with a_client() as (_, client):
        with pytest.raises(Misuse):
            await client.create_producer("non-persistent://public/default/t", chunking=True)
        with pytest.raises(NotBuilt):
            Client("pulsar+ssl://localhost:6651")
