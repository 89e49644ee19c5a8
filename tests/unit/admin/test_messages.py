"""Single messages for people: the payload as it was sent, and what is known of it in headers that are always legal."""

from __future__ import annotations

import base64

import pytest

from magnetar.wire.message import split_batch
from tests.unit.admin.world import Answer, World, a_world, run

NAME = "persistent://public/default/t"
ONE = "/admin/v2/persistent/public/default/t"


async def peek(world: World, number: int) -> Answer:
    return await world.ask("GET", f"{ONE}/subscription/s/position/{number}")


def test_a_message_comes_with_all_that_its_producer_said() -> None:
    async def body() -> None:
        async with a_world() as world:
            said = {
                "partition_key": "k1",
                "event_time": 1_000,
                "schema_version": b"\0" * 8,
                "properties": [{"key": "n", "value": "ä"}],
            }
            await world.publish(NAME, b"payload", **said)
            await world.do("PUT", f"{ONE}/subscription/s", "earliest")
            answer = await peek(world, 1)
            assert (answer.status, answer.body) == (200, b"payload")
            head = answer.headers
            assert head["X-Pulsar-producer-name"] == "p1"
            assert head["X-Pulsar-partition-key"] == "k1"
            assert head["X-Pulsar-event-time"] == "1970-01-01T00:00:01.000Z"
            assert head["X-Pulsar-PROPERTY"] == '{"n":"\\u00e4"}'
            assert base64.b64decode(head["X-Pulsar-Base64-schema-version"]) == b"\0" * 8
            assert (await world.get(f"{ONE}/stats"))["subscriptions"]["s"]["msgBacklog"] == 1  # still there

    run(body())


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
def test_a_batch_comes_whole_and_decompressed(compression: int) -> None:
    async def body() -> None:
        async with a_world() as world:
            await world.publish_batch(NAME, b"a" * 50, b"b" * 50, compression=compression)
            answer = await world.ask("GET", f"{ONE}/examinemessage")
            assert [payload for _, payload in split_batch(answer.body, 2)] == [b"a" * 50, b"b" * 50]
            assert answer.headers["X-Pulsar-num-batch-message"] == "2"
            assert ("X-Pulsar-compression" in answer.headers) == bool(compression)

    run(body())


def test_a_key_that_no_header_may_hold_is_escaped() -> None:
    async def body() -> None:
        async with a_world() as world:
            await world.publish(NAME, b"x", partition_key="a\r\nX-Evil: 1")
            await world.publish(NAME, b"y", partition_key="ключ")
            for number in (1, 2):
                answer = await world.ask(
                    "GET", f"{ONE}/examinemessage?initialPosition=earliest&messagePosition={number}"
                )
                assert answer.status == 200
                assert all(value.isascii() and value.isprintable() for value in answer.headers.values())

    run(body())


def test_an_entry_that_is_not_what_it_says_is_no_error_of_ours() -> None:
    async def body() -> None:
        async with a_world() as world:
            await world.publish(NAME, b"not lz4 at all", compression=1, uncompressed_size=10)
            await world.store(NAME, b"nonsense")
            last = (await world.topic(NAME)).managed.last
            raw = await world.ask("GET", f"{ONE}/ledger/{last.ledger}/entry/0")
            assert (raw.status, raw.body) == (200, b"not lz4 at all")
            broken = await world.ask("GET", f"{ONE}/ledger/{last.ledger}/entry/1")
            assert broken.status == 422

    run(body())


def test_positions_count_what_is_not_acknowledged_and_end_where_that_ends() -> None:
    async def body() -> None:
        async with a_world() as world:
            await world.publish(NAME, b"0", b"1", b"2")
            await world.do("PUT", f"{ONE}/subscription/s", "earliest")
            await world.do("POST", f"{ONE}/subscription/s/skip/1")
            assert [(await peek(world, number)).body for number in (1, 2)] == [b"1", b"2"]
            assert (await peek(world, 3)).status == 404
            assert (await peek(world, 0)).status == 412

    run(body())


def test_the_id_at_a_time_is_that_of_the_first_message_from_then_on() -> None:
    async def body() -> None:
        async with a_world() as world:
            await world.publish(NAME, b"0")
            world.runtime.later_s += 100
            now = world.runtime.wall()
            await world.publish(NAME, b"1")
            assert (await world.get(f"{ONE}/messageid/{now}"))["entryId"] == 1
            assert (await world.get(f"{ONE}/messageid/1"))["entryId"] == 0
            assert (await world.get(f"{ONE}/messageid/{now + 10_000}"))["entryId"] == 2

    run(body())
