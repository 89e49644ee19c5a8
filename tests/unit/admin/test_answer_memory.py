"""Answers that their readers do not take hold a bounded sum, whatever they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx2 as httpx
import pytest

from magnetar.admin.answer_memory import Answers, ByteBudget, Stream, Streams, answers
from magnetar.admin.request import Response
from magnetar.admin.server import WebServer
from magnetar.base.errors import Busy, Refused
from magnetar.base.limits import (
    HTTP_ANSWER_BYTES_MAX,
    HTTP_ANSWER_COUNTED_BYTES_MIN,
    HTTP_ANSWERS_BYTES_MAX,
    HTTP_STREAMS_MAX,
)
from tests.unit.admin.world import a_world

pytestmark = pytest.mark.real_clock


async def pages(count: int) -> AsyncIterator[bytes]:
    for number in range(count):
        yield b"%d," % number


async def taken(body: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in body])


async def test_large_answers_are_counted_until_they_are_sent() -> None:
    account = Answers()
    small = b"x" * (HTTP_ANSWER_COUNTED_BYTES_MIN - 1)
    assert account.charge(small) is small
    large = small + b"x"
    charged = account.charge(large)
    assert account.others.bytes == len(large)
    assert not isinstance(charged, bytes)
    assert await taken(charged) == large
    assert account.others.bytes == 0


def test_answer_beyond_sum_is_refused_and_fits_later() -> None:
    account = Answers()
    third = bytes(HTTP_ANSWERS_BYTES_MAX // 3)
    held = [account.charge(third) for _ in range(3)]
    with pytest.raises(Busy, match=str(HTTP_ANSWERS_BYTES_MAX)):
        account.charge(third)
    held.clear()  # their readers leave
    account.charge(third)


def test_one_answer_beyond_its_bound_is_refused_at_once() -> None:
    account = Answers()
    with pytest.raises(Refused, match=str(HTTP_ANSWER_BYTES_MAX)) as refused:
        account.charge(bytes(HTTP_ANSWER_BYTES_MAX + 1))
    assert refused.value.http_status == 413
    assert account.others.bytes == 0


def test_headers_count_with_answer_that_they_precede() -> None:
    account = Answers()
    small = b"x" * (HTTP_ANSWER_COUNTED_BYTES_MIN - 1)
    held = account.charge(small, 1)
    assert account.others.bytes == HTTP_ANSWER_COUNTED_BYTES_MIN
    del held
    assert account.others.bytes == 0


async def test_streams_beyond_their_number_are_refused() -> None:
    account = Answers()
    held = [account.charge(pages(2)) for _ in range(HTTP_STREAMS_MAX)]
    with pytest.raises(Busy, match=str(HTTP_STREAMS_MAX)):
        account.charge(pages(2))
    first = held.pop()
    assert isinstance(first, Stream)
    assert await taken(first) == b"0,1,"
    assert account.streams.count == HTTP_STREAMS_MAX - 1
    held.clear()
    del first
    assert account.streams.count == 0


def test_message_that_is_charged_already_is_not_charged_again() -> None:
    account = Answers()
    body = account.messages.body(bytes(HTTP_ANSWER_COUNTED_BYTES_MIN))
    assert account.charge(body) is body
    assert account.others.bytes == 0


async def test_full_account_answers_503_and_rest_is_served() -> None:
    async with a_world() as world:
        server = WebServer(world.node)
        port = await server.start("127.0.0.1", 0)
        account = answers(world.node)
        account.streams = Streams(0)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            path = "/admin/v2/namespaces/public/default/topics"
            refused = await client.get(path)
            assert refused.status_code == 503
            assert "try again later" in refused.json()["reason"]
            account.streams = Streams(1)
            assert (await client.get(path)).json() == []
            assert account.streams.count == 0
            whole = await client.get("/openapi.json", headers={"accept-encoding": "identity"})
            assert int(whole.headers["content-length"]) == len(whole.content) > HTTP_ANSWER_COUNTED_BYTES_MIN
            packed = await client.get("/openapi.json")
            assert packed.json() == whole.json()
            account.others = ByteBudget(HTTP_ANSWER_COUNTED_BYTES_MIN, "answers")
            waiting = account.others.body(bytes(HTTP_ANSWER_COUNTED_BYTES_MIN))
            assert (await client.get("/openapi.json")).status_code == 503
            assert (await client.get("/livez")).status_code == 200
            waiting.close()
            assert (await client.get("/openapi.json")).status_code == 200
        assert account.others.bytes == 0
        await asyncio.sleep(0)
        await server.stop()


def test_response_without_body_is_not_counted() -> None:
    account = Answers()
    assert account.charge(Response().body) == b""


async def test_bodies_beyond_their_sum_are_refused_and_given_back() -> None:
    async with a_world() as world:
        server = WebServer(world.node)
        port = await server.start("127.0.0.1", 0)
        account = answers(world.node)
        account.bodies = ByteBudget(10_000, "request bodies")
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            path = "/admin/v2/persistent/public/default/t"
            with account.bodies.charging() as charge:
                charge(9_000)
                refused = await client.put(path, json={"owner": "x" * 2_000})
                assert refused.status_code == 503
                assert "request bodies" in refused.json()["reason"]
            assert (await client.put(path, json={"owner": "x" * 2_000})).status_code == 204
        assert account.bodies.bytes == 0
        await server.stop()
