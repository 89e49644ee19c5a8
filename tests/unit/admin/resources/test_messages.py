"""Single messages for people: the payload as it was sent, and what is known of it in headers that are always legal."""

from __future__ import annotations

import base64
import re

import pytest

from magnetar.admin.answer_memory import held
from magnetar.admin.request import Request, whole
from magnetar.admin.router import handle, table
from magnetar.base.limits import HTTP_MESSAGE_BYTES_MAX, HTTP_MESSAGES_BYTES_MAX, HTTP_METADATA_BYTES_MAX
from magnetar.wire.codec import ZSTD
from magnetar.wire.message import split_batch
from tests.unit.admin.world import Answer, World, a_world

pytestmark = pytest.mark.real_clock

NAME = "persistent://public/default/t"
ONE = "/admin/v2/persistent/public/default/t"


async def peek(world: World, number: int) -> Answer:
    return await world.ask("GET", f"{ONE}/subscription/s/position/{number}")


async def test_message_comes_with_all_that_its_producer_said() -> None:
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


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
async def test_batch_comes_whole_and_decompressed(compression: int) -> None:
    async with a_world() as world:
        await world.publish_batch(NAME, b"a" * 50, b"b" * 50, compression=compression)
        answer = await world.ask("GET", f"{ONE}/examinemessage")
        assert [payload for _, payload in split_batch(answer.body, 2)] == [b"a" * 50, b"b" * 50]
        assert answer.headers["X-Pulsar-num-batch-message"] == "2"
        assert ("X-Pulsar-compression" in answer.headers) == bool(compression)


async def test_key_that_no_header_may_hold_is_escaped() -> None:
    async with a_world() as world:
        await world.publish(NAME, b"x", partition_key="a\r\nX-Evil: 1")
        await world.publish(NAME, b"y", partition_key="ключ")
        for number in (1, 2):
            answer = await world.ask("GET", f"{ONE}/examinemessage?initialPosition=earliest&messagePosition={number}")
            assert answer.status == 200
            assert all(value.isascii() and value.isprintable() for value in answer.headers.values())


async def test_malformed_entry_causes_no_server_error() -> None:
    async with a_world() as world:
        await world.publish(NAME, b"not lz4 at all", compression=1, uncompressed_size=10)
        await world.store(NAME, b"nonsense")
        last = (await world.topic(NAME)).managed.last
        raw = await world.ask("GET", f"{ONE}/ledger/{last.ledger}/entry/0")
        assert (raw.status, raw.body) == (200, b"not lz4 at all")
        broken = await world.ask("GET", f"{ONE}/ledger/{last.ledger}/entry/1")
        assert broken.status == 422


async def test_positions_count_unacknowledged_messages_up_to_last() -> None:
    async with a_world() as world:
        await world.publish(NAME, b"0", b"1", b"2")
        await world.do("PUT", f"{ONE}/subscription/s", "earliest")
        await world.do("POST", f"{ONE}/subscription/s/skip/1")
        assert [(await peek(world, number)).body for number in (1, 2)] == [b"1", b"2"]
        assert (await peek(world, 3)).status == 404
        assert (await peek(world, 0)).status == 412


async def test_id_at_time_is_first_message_from_then_on() -> None:
    async with a_world() as world:
        await world.publish(NAME, b"0")
        world.runtime.later_s += 100
        now = world.runtime.wall()
        await world.publish(NAME, b"1")
        assert (await world.get(f"{ONE}/messageid/{now}"))["entryId"] == 1
        assert (await world.get(f"{ONE}/messageid/1"))["entryId"] == 0
        assert (await world.get(f"{ONE}/messageid/{now + 10_000}"))["entryId"] == 2


BAD = b"\xff\xfe"  # no UTF-8


def a_field(number: int, value: int | bytes) -> bytes:
    """As protobuf writes it, whatever the field may hold."""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


def varint(value: int) -> bytes:
    found = b""
    while value >= 128:
        found += bytes([value & 127 | 128])
        value >>= 7
    return found + bytes([value])


def an_odd_entry(publish_time: int, *more: tuple[int, int | bytes]) -> bytes:
    metadata = a_field(1, b"p") + a_field(2, 1) + a_field(3, publish_time) + b"".join(a_field(*one) for one in more)
    return len(metadata).to_bytes(4, "big") + metadata + b"payload"


ODD = {
    "a far year": an_odd_entry(10**17),
    "the last number": an_odd_entry(2**64 - 1),
    "an event in a far year": an_odd_entry(1, (12, 2**64 - 1)),
    "delivered long ago": an_odd_entry(1, (19, 2**64 - 10**17)),
    "a property": an_odd_entry(1, (4, a_field(1, BAD) + a_field(2, BAD))),
    "a producer": an_odd_entry(1, (1, BAD)),
    "a key": an_odd_entry(1, (6, BAD)),
    "a count": an_odd_entry(1, (11, 2**31 - 1)),
    "a negative count": an_odd_entry(1, (11, 2**64 - 5)),
    "nothing": b"",
    "nonsense": b"\x00\x00\x00\x05nonsense",
}


@pytest.mark.parametrize("entry", ODD.values(), ids=ODD)
async def test_stored_value_that_is_odd_makes_no_route_fail(entry: bytes) -> None:
    """D23: what a producer wrote is no error of the broker when people look at it."""

    async with a_world() as world:
        await world.store(NAME, entry)
        await world.do("PUT", f"{ONE}/subscription/s", "earliest")
        last = (await world.topic(NAME)).managed.last
        parts = {
            "tenant": "public",
            "namespace": "default",
            "topic": "t",
            "subscription": "s",
            "position": "1",
            "ledger": str(last.ledger),
            "entry": str(last.entry),
            "timestamp": "1",
        }
        asked = 0
        for route in table().routes:
            named = set(re.findall(r"{(\w+)}", route.path))
            if route.method != "GET" or "/admin/v2/persistent/" not in route.path or not named <= parts.keys():
                continue
            answer = await world.ask("GET", route.path.format(**parts))
            asked += 1
            assert answer.status < 500 or answer.status == 501, (route.path, answer)
            assert all(value.isascii() and value.isprintable() for value in answer.headers.values())
        assert asked > 40
        assert (await world.ask("GET", "/metrics")).status == 200


async def test_message_too_large_to_decompress_is_refused_naming_limit() -> None:
    """D6"""

    async with a_world() as world:
        size = HTTP_MESSAGE_BYTES_MAX + 1
        await world.publish_batch(NAME, bytes(size - 9), compression=ZSTD)
        answer = await world.ask("GET", f"{ONE}/examinemessage")
        assert answer.status == 413
        assert str(HTTP_MESSAGE_BYTES_MAX) in answer.reason


async def test_answers_that_are_not_read_hold_bounded_sum() -> None:
    """D6: 24 requests for a message of 2 KB took 1.5 GB."""

    async with a_world() as world:
        size = HTTP_MESSAGE_BYTES_MAX
        await world.publish_batch(NAME, bytes(size - 9), compression=ZSTD)
        asked = Request("GET", f"{ONE}/examinemessage", {}, {}, b"")
        unread = [await handle(world.node, asked) for _ in range(24)]
        fitting = HTTP_MESSAGES_BYTES_MAX // (size + 1)  # headers count too
        assert [one.status for one in unread] == [200] * fitting + [503] * (24 - fitting)
        assert str(HTTP_MESSAGES_BYTES_MAX).encode() in await whole(unread[-1])
        assert split_batch(await whole(unread[0]), 1)[0][1] == bytes(size - 9)
        assert (await handle(world.node, asked)).status == 200
        unread.clear()  # their readers leave
        assert held(world.node).bytes == 0


@pytest.mark.parametrize("field", ["partition_key", "properties"])
async def test_message_with_large_metadata_is_refused_before_headers(field: str) -> None:
    """One key of 4.8 MB, and ten readers that stalled, took 441 MiB."""

    async with a_world() as world:
        for size in (HTTP_METADATA_BYTES_MAX // 2, HTTP_METADATA_BYTES_MAX):
            value = "x" * size
            await world.publish(
                NAME, b"y", **{field: [{"key": "p", "value": value}] if field == "properties" else value}
            )
        path = f"{ONE}/examinemessage?initialPosition=earliest&messagePosition="
        assert (await world.ask("GET", f"{path}1")).status == 200
        answer = await world.ask("GET", f"{path}2")
        assert answer.status == 413
        assert "read it with a consumer" in answer.reason
        assert "X-Pulsar-partition-key" not in answer.headers


async def test_headers_of_message_are_charged_with_its_body() -> None:
    async with a_world() as world:
        size = HTTP_METADATA_BYTES_MAX // 2
        await world.publish(NAME, bytes(HTTP_METADATA_BYTES_MAX), partition_key="k" * size)
        response = await handle(world.node, Request("GET", f"{ONE}/examinemessage"))
        assert held(world.node).bytes > HTTP_METADATA_BYTES_MAX + size
        assert len(await whole(response)) == HTTP_METADATA_BYTES_MAX
        assert held(world.node).bytes == 0
