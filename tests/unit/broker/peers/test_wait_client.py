"""The waits of one broker at another over a call that a test loses: few calls, no lost result, errors as before."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from magnetar.base.errors import Busy, ConnectionLost, MagnetarError, NotReady
from magnetar.base.limits import PEER_CALLERS_MAX, PEER_WAIT_AWAY_S, PEER_WAIT_CALL_S, PEER_WAIT_GRACE_S, PEER_WAITS_MAX
from magnetar.base.names import topic_name
from magnetar.broker.peers.wait_client import WaitClient
from magnetar.broker.peers.wait_server import WaitServer
from magnetar.cluster.calls.topic_calls import AwaitAssignment
from magnetar.cluster.calls.wait_calls import AwaitAny, Happened, Wait
from magnetar.runtime.runtime import Owner
from simulation.environment.inline_runtime import InlineRuntime
from tests.support.broker_cluster import spawn
from tests.support.virtual_clock import pass_s, settle
from tests.unit.topic.world import NoFiles

NAME = topic_name("topic://public/default/x")


class Pair:
    """A caller, and the receiver of its calls. A test ends waits by their connection and breaks calls."""

    def __init__(self) -> None:
        files: Any = NoFiles()
        self.runtime = InlineRuntime(files, seed=1)
        self.owner = Owner("caller")
        self.receiver = Owner("receiver")
        self.server = WaitServer(self.runtime, self.receiver)
        self.client = WaitClient(self.runtime, self.owner, "process", self.call)
        self.events: dict[str, asyncio.Event] = {}
        self.started: list[str] = []
        self.calls = 0
        self.at_once = 0
        self.breaks: list[MagnetarError] = []
        self.broken = asyncio.Event()
        self.loses_answers = 0

    async def call(self, content: AwaitAny) -> Happened:
        self.calls += 1
        self.at_once = max(self.at_once, self.client.calls)
        if self.breaks:
            raise self.breaks.pop(0)
        answer = spawn(self.server.answer(content, self.run))
        broken = spawn(self.broken.wait())
        await asyncio.wait([answer, broken], return_when=asyncio.FIRST_COMPLETED)
        broken.cancel()
        if not answer.done():
            raise ConnectionLost("the connection broke")
        if self.loses_answers:
            self.loses_answers -= 1
            raise ConnectionLost("the answer was lost")
        return answer.result()

    async def run(self, wait: Wait) -> msgspec.Raw:
        assert isinstance(wait.request, AwaitAssignment)
        self.started.append(wait.request.connection)
        await self.events.setdefault(wait.request.connection, asyncio.Event()).wait()
        return msgspec.Raw(msgspec.json.encode(wait.request.connection))

    def ask(self, connection: str, wait_s: float = 30.0) -> asyncio.Task[str | None]:
        return spawn(self._ask(AwaitAssignment(op="op", connection=connection, seen=0, wait_s=wait_s)))

    async def _ask(self, request: AwaitAssignment) -> str | None:
        reply = await self.client.ask(NAME, request)
        return None if reply is None else str(msgspec.json.decode(reply))

    def end(self, connection: str) -> None:
        self.events.setdefault(connection, asyncio.Event()).set()

    async def break_call(self) -> None:
        self.broken.set()
        await settle()
        self.broken.clear()

    async def close(self) -> None:
        await self.owner.close()
        await self.receiver.close()


async def test_any_number_of_waits_needs_two_calls_in_flight() -> None:
    pair = Pair()
    waits = [pair.ask(str(number)) for number in range(1_000)]
    await settle()
    assert (len(pair.server), pair.calls) == (1_000, 1)
    more = [pair.ask(str(number)) for number in range(1_000, 1_500)]
    await pass_s(1)
    assert len(pair.server) == 1_500
    for number in range(1_500):
        pair.end(str(number))
    assert [await wait for wait in [*waits, *more]] == [str(number) for number in range(1_500)]
    assert pair.calls < 10
    assert pair.at_once <= 2
    await pass_s(1)
    assert (len(pair.server), pair.client.calls) == (0, 0)
    await pair.close()


async def test_lost_call_loses_no_wait() -> None:
    pair = Pair()
    wait = pair.ask("a")
    await settle()
    await pair.break_call()
    assert not wait.done()
    pair.end("a")
    assert await wait == "a"
    assert pair.started == ["a"]  # once, although it was asked twice
    await pair.close()


async def test_result_of_lost_answer_arrives_with_next() -> None:
    pair = Pair()
    pair.end("a")
    pair.loses_answers = 1
    assert await pair.ask("a") == "a"
    assert (pair.calls, pair.started) == (2, ["a"])
    await pair.close()


@pytest.mark.parametrize(
    "errors", [[ConnectionLost("first"), ConnectionLost("second")], [NotReady("nobody listens")]], ids=["lost", "down"]
)
async def test_unreachable_broker_fails_all_waits(errors: list[MagnetarError]) -> None:
    pair = Pair()
    kind = type(errors[-1])
    pair.breaks = list(errors)
    waits = [pair.ask(str(number)) for number in range(3)]
    for wait in waits:
        with pytest.raises(kind):
            await wait
    await pass_s(1)
    assert pair.calls == len(errors)
    assert len(pair.client) == 0
    wait = pair.ask("later")
    pair.end("later")
    assert await wait == "later"
    await pair.close()


async def test_wait_ends_without_answer_after_its_time() -> None:
    pair = Pair()
    began = asyncio.get_running_loop().time()
    assert await pair.ask("a", wait_s=3.0) is None
    assert asyncio.get_running_loop().time() - began == pytest.approx(3.0 + PEER_WAIT_GRACE_S)
    await settle()
    assert len(pair.server) == 0
    await pair.close()


async def test_cancelled_wait_ends_at_receiver() -> None:
    pair = Pair()
    first, second = pair.ask("a"), pair.ask("b")
    await settle()
    first.cancel()
    await pass_s(0.1)
    assert len(pair.server) == 1
    pair.end("b")
    assert await second == "b"
    await pair.close()


async def test_call_without_event_is_repeated() -> None:
    pair = Pair()
    wait = pair.ask("a", wait_s=100.0)
    await pass_s(3 * PEER_WAIT_CALL_S + 1)
    assert (pair.calls, pair.started) == (4, ["a"])
    pair.end("a")
    assert await wait == "a"
    await pair.close()


async def test_restarted_receiver_gets_all_waits() -> None:
    pair = Pair()
    waits = [pair.ask(str(number), wait_s=100.0) for number in range(5)]
    await settle()
    pair.ask("later").cancel()
    await pass_s(1)
    await pair.receiver.close()
    pair.receiver = Owner("receiver")
    pair.server = WaitServer(pair.runtime, pair.receiver)
    await pair.break_call()
    await pass_s(1)
    assert len(pair.server) == 5
    for number, wait in enumerate(waits):
        pair.end(str(number))
        assert await wait == str(number)
    await pair.close()


async def test_receiver_forgets_caller_that_stays_away() -> None:
    pair = Pair()
    wait = pair.ask("a", wait_s=1_000.0)
    await settle()
    await pair.owner.close()
    with pytest.raises(NotReady, match="stops"):
        await wait
    await pair.break_call()
    await pass_s(PEER_WAIT_CALL_S + PEER_WAIT_AWAY_S + 1)
    assert len(pair.server) == 0
    assert not pair.server._callers
    await pair.close()


async def test_tables_are_bounded() -> None:
    pair = Pair()
    for number in range(PEER_CALLERS_MAX):
        await pair.server.answer(AwaitAny(process=str(number), number=1, base=0), pair.run)
    with pytest.raises(Busy, match="brokers wait"):
        await pair.server.answer(AwaitAny(process="one more", number=1, base=0), pair.run)
    request = AwaitAssignment(op="op", connection="c", seen=0, wait_s=1)
    waits = tuple(Wait(id, str(NAME), request) for id in range(2 * PEER_WAITS_MAX + 1))
    with pytest.raises(Busy, match="waits of one broker"):
        await pair.server.answer(AwaitAny(process="1", number=2, base=0, added=waits), pair.run)
    for _ in range(PEER_WAITS_MAX):
        pair.client._waits.add(NAME, request)
    with pytest.raises(Busy, match="not sent"):
        await pair.client.ask(NAME, request)
    await pair.close()
