"""HTTP between the brokers of a world: an answer arrives, and what may befall a request is told as the real client
tells it: nobody there, no answer in time, a connection that broke.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest

from simulation.environment.loop import pass_time
from simulation.environment.peer_http import HttpServer, HttpTransport
from simulation.environment.runtime import SimulatedRuntime
from tests.sim.small_worlds import Pair, forever

PORT = 8080


def listens(pair: Pair) -> None:
    async def main(runtime: SimulatedRuntime) -> None:
        nobody: Any = None  # a path that is not there is answered before anybody is asked
        await HttpServer(nobody).start("b", PORT)
        await forever()

    pair.b.run(main)


async def asked(pair: Pair, *, port: int = PORT, timeout_s: float = 5.0) -> Any:
    """What a's request to b ends with: an answer, or an error."""
    ended: asyncio.Future[Any] = pair.loop.create_future()

    async def body() -> None:
        client = httpx2.AsyncClient(transport=HttpTransport(10), timeout=timeout_s)
        try:
            ended.set_result(await client.post(f"http://b:{port}/nowhere?x=1", content=b"{}" * 5000))
        except httpx2.HTTPError as error:
            ended.set_result(error)
        await forever()

    pair.on_a(body)
    return await ended


def play(body: Callable[[Pair], Awaitable[None]], seed: int) -> None:
    Pair(seed).play(body)


@pytest.mark.parametrize("seed", range(5))
def test_answer_arrives_whole_however_network_cuts_it(seed: int) -> None:
    async def body(pair: Pair) -> None:
        listens(pair)
        await pass_time(1)
        found = await asked(pair)
        assert found.status_code == 404
        assert found.json() == {"reason": "path not found: /nowhere"}

    play(body, seed)


def test_where_nobody_listens_nothing_was_sent() -> None:
    async def body(pair: Pair) -> None:
        listens(pair)
        await pass_time(1)
        assert isinstance(await asked(pair, port=PORT + 1), httpx2.ConnectError)

    play(body, 0)


@pytest.mark.parametrize("way", [("a", "b"), ("b", "a")])
def test_cut_in_either_direction_means_no_answer_in_time(way: tuple[str, str]) -> None:
    async def body(pair: Pair) -> None:
        listens(pair)
        await pass_time(1)
        answer = pair.loop.create_task(asked(pair))
        while not pair.network.ends:
            await pass_time(0.0001)
        pair.network.cut(*way)
        assert isinstance(await answer, httpx2.ReadTimeout)

    play(body, 0)


@pytest.mark.parametrize("seed", range(5))
def test_broker_that_dies_under_request_breaks_its_connection(seed: int) -> None:
    async def body(pair: Pair) -> None:
        listens(pair)
        await pass_time(1)
        answer = pair.loop.create_task(asked(pair))
        while not pair.network.ends:
            await pass_time(0.0001)
        pair.b.kill()
        assert isinstance(await answer, httpx2.ReadError | httpx2.WriteError)

    play(body, seed)
