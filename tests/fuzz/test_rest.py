"""What requests over REST cost, on every route and with odd stored messages: no 5xx, no long turn, bounded memory."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from itertools import count

from magnetar.admin.request import Request, whole
from magnetar.admin.router import handle
from magnetar.base.limits import HTTP_HEADER_BYTES_MAX, HTTP_MESSAGE_BYTES_MAX
from tests.fuzz.rest_sequences import RestSequence
from tests.fuzz.test_cost import CONSTANT_BYTES, MEMORY_PER_BYTE_MAX, TRIES, TURN_S_MAX, no_garbage
from tests.support.virtual_clock import ClockLoop, run_on_clock
from tests.unit.admin.world import World, a_world

NAME = "persistent://public/default/t"
PATH = "/admin/v2/persistent/public/default/t"
ALLOWED = (501, 503)  # what Magnetar does not have; what it cannot do now
HEADERS_BYTES_MAX = HTTP_HEADER_BYTES_MAX  # of one answer: clients and proxies take no more


async def play(world: World, requests: list[Request]) -> tuple[int, float]:
    """Bytes of all answers, and the longest turn of the loop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ClockLoop)
    answered = 0
    await asyncio.sleep(0)
    loop.longest_s = 0.0
    for request in requests:
        async with asyncio.timeout(300):
            response = await handle(world.node, request)
            answered += len(await whole(response))
        assert response.status < 500 or response.status in ALLOWED, (request, response)
        size = sum(len(name) + len(value) for name, value in response.headers.items())
        assert size < HEADERS_BYTES_MAX, f"{size} bytes of headers: {request}"
        await asyncio.sleep(0)
    return answered, loop.longest_s


def run_sequence(entries: list[bytes], requests: list[Request]) -> tuple[int, float]:
    results: list[tuple[int, float]] = []

    async def body() -> None:
        async with a_world() as world:
            await world.topic("persistent://public/default/empty")
            for entry in entries:
                await world.store(NAME, entry)
            await world.do("PUT", f"{PATH}/subscription/s", "earliest")
            results.append(await play(world, requests))

    run_on_clock(body)
    return results[0]


def check(seed: int) -> None:
    """Memory of every fifth sequence, turns of the others."""
    made = RestSequence(seed)
    entries, requests = made.entries(), made.requests()
    sent = sum(map(len, entries)) + sum(len(request.body) for request in requests)
    traced = seed % 5 == 0
    if traced:
        tracemalloc.start()
    try:
        answered, longest = run_sequence(entries, requests)
        if traced:
            peak = tracemalloc.get_traced_memory()[1]
            bound = 8 * CONSTANT_BYTES + HTTP_MESSAGE_BYTES_MAX + MEMORY_PER_BYTE_MAX * (sent + answered)
            assert peak < bound, f"{peak} bytes in memory for {sent} and {answered} bytes"
            return
        for _ in range(TRIES - 1):
            if longest < TURN_S_MAX:
                break
            longest = min(longest, run_sequence(entries, requests)[1])
        assert longest < TURN_S_MAX, f"a turn of the loop took {longest:.3f} s"
    except Exception as error:
        raise AssertionError(f"sequence {seed}") from error
    finally:
        if traced:
            tracemalloc.stop()


def test_requests_of_any_kind_cost_by_their_bytes(fuzz_s: float) -> None:
    until = time.monotonic() + fuzz_s * 2
    with no_garbage():
        for seed in count():
            check(seed)
            if time.monotonic() > until and seed > 5:
                return
