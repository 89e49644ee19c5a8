"""The store against a server that says what the test wants: order of requests, lost answers, refusals, damaged frames.

Everything that a real server can show is in the contract suite; this server also lies, hangs and answers late.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvloop

from magnetar.base.errors import (
    BadVersion,
    Busy,
    Closed,
    ConnectionLost,
    MagnetarError,
    Misuse,
    NotReady,
    Refused,
    Unavailable,
    Unknown,
)
from magnetar.base.limits import ZOOKEEPER_PENDING_BYTES_MAX
from magnetar.metadata.store import Session
from magnetar.metadata.zookeeper import jute, messages
from magnetar.metadata.zookeeper.address import Server
from magnetar.metadata.zookeeper.client import ZooKeeperConfig
from magnetar.metadata.zookeeper.messages import ErrorCode, Operation
from magnetar.metadata.zookeeper.store import ZooKeeperStore
from magnetar.runtime.system_runtime import RealRuntime
from tests.support.async_tests import provides

pytestmark = pytest.mark.real_clock

SESSION, CREATED = 7, 5


def stat_of(version: int, *, created: int = CREATED, children: int = 0) -> bytes:
    return (
        jute.long(created) * 2
        + jute.long(0) * 2
        + jute.integer(version) * 3
        + jute.long(0)
        + jute.integer(0)
        + jute.integer(children)
        + jute.long(created)
    )


class ScriptedServer:
    """Answers each operation as the script says; an operation without a line in it gets no answer."""

    def __init__(self) -> None:
        self.script: dict[Operation, list[tuple[int, bytes]]] = {}
        self.asked: list[tuple[Operation, int]] = []  # with the connection's number
        self.sessions: list[int] = []  # of the greetings
        self.granted = SESSION
        self.port = 0
        self._writers: list[asyncio.StreamWriter] = []
        self._changed = asyncio.Event()

    def says(self, operation: Operation, error: int = 0, body: bytes = b"") -> None:
        self.script.setdefault(operation, []).append((error, body))

    def send(self, data: bytes) -> None:
        self._writers[-1].write(data)

    def cut(self) -> None:
        self._writers[-1].transport.abort()

    async def until_asked(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.asked) < count:
                self._changed.clear()
                await self._changed.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        number = len(self._writers)
        try:
            greeting = jute.Reader(await self._frame(reader))
            greeting.integer(), greeting.long(), greeting.integer()
            self.sessions.append(greeting.long())
            accepted = jute.integer(0) + jute.integer(4000) + jute.long(self.granted)
            writer.write(messages.frame(accepted + jute.buffer(bytes(16)) + b"\0"))
            while True:
                request = jute.Reader(await self._frame(reader))
                xid, operation = request.integer(), Operation(request.integer())
                self.asked.append((operation, number))
                self._changed.set()
                lines = self.script.get(operation)
                if lines:
                    error, body = lines.pop(0)
                    writer.write(messages.frame(jute.integer(xid) + jute.long(9) + jute.integer(error) + body))
                elif operation is Operation.CLOSE:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _frame(self, reader: asyncio.StreamReader) -> bytes:
        return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


class Talk:
    def __init__(self, server: ScriptedServer, store: ZooKeeperStore) -> None:
        self.server = server
        self.store = store
        self.said: list[Session] = []
        self._told = asyncio.Event()
        store.on_session(self._hear)

    def _hear(self, session: Session) -> None:
        self.said.append(session)
        self._told.set()

    async def until_said(self, session: Session) -> None:
        async with asyncio.timeout(10):
            while session not in self.said:
                self._told.clear()
                await self._told.wait()


@asynccontextmanager
async def talking() -> AsyncIterator[Talk]:
    server, runtime = ScriptedServer(), RealRuntime()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    config = ZooKeeperConfig((Server("127.0.0.1", server.port),), session_s=4.0)
    store = await ZooKeeperStore.open(config, runtime)
    yield Talk(server, store)
    await store.close()
    listening.close()
    await listening.wait_closed()
    runtime.close()


@provides(Talk)
async def talk() -> AsyncIterator[Talk]:
    async with talking() as found:
        yield found


def test_store_works_on_loop_of_command() -> None:
    """uvloop, whose transports have base classes of their own."""

    async def body() -> None:
        async with asyncio.timeout(10), talking() as talk:
            talk.server.says(Operation.SYNC)
            talk.server.says(Operation.GET, ErrorCode.NO_NODE)
            assert await talk.store.fresh("/a") is None

    uvloop.run(body())


async def test_conditional_write_reads_fresh_and_then_writes(talk: Talk) -> None:
    talk.server.says(Operation.SYNC, body=jute.text("/a"))
    talk.server.says(Operation.GET, body=jute.buffer(b"old") + stat_of(3))
    talk.server.says(Operation.SET, body=stat_of(4))
    stat = await talk.store.put("/a", b"new", expected=CREATED << 32 | 3)
    assert stat.version == CREATED << 32 | 4
    assert [operation for operation, _ in talk.server.asked] == [Operation.SYNC, Operation.GET, Operation.SET]


@pytest.mark.parametrize("created", [CREATED - 1, CREATED + 1])
async def test_equal_version_of_another_incarnation_is_refused_h_c6(talk: Talk, created: int) -> None:
    for _ in range(2):
        talk.server.says(Operation.SYNC, body=jute.text("/a"))
        talk.server.says(Operation.GET, body=jute.buffer(b"other") + stat_of(3))
    with pytest.raises(BadVersion):
        await talk.store.put("/a", b"new", expected=created << 32 | 3)
    with pytest.raises(BadVersion):
        await talk.store.delete("/a", expected=created << 32 | 3)
    assert {operation for operation, _ in talk.server.asked} == {Operation.SYNC, Operation.GET}


async def test_comparison_that_loses_its_session_writes_nothing_h_c6(talk: Talk) -> None:
    """What was read in an ended session must not decide about a write in the next one."""
    writing = asyncio.get_running_loop().create_task(talk.store.put("/a", b"new", expected=CREATED << 32))
    await talk.server.until_asked(2)
    talk.server.granted = SESSION + 1
    talk.store.client.give_up()
    with pytest.raises(ConnectionLost):
        await writing
    await talk.until_said(Session.REESTABLISHED)
    assert talk.server.sessions == [0, 0]
    assert talk.store.session_id == "0x8"
    assert Operation.SET not in {operation for operation, _ in talk.server.asked}


async def test_request_in_flight_is_unknown_and_unsent_did_not_happen(talk: Talk) -> None:
    writing = asyncio.get_running_loop().create_task(talk.store.put("/a", b""))
    await talk.server.until_asked(1)
    talk.server.cut()
    with pytest.raises(ConnectionLost) as lost:
        await writing
    assert isinstance(lost.value, Unknown)
    if not talk.store.client.is_connected:
        with pytest.raises(NotReady) as refused:
            await talk.store.put("/a", b"")
        assert isinstance(refused.value, Unavailable)
    await talk.until_said(Session.RECONNECTED)
    assert talk.server.sessions == [0, SESSION]


@pytest.mark.parametrize("error", [ErrorCode.SESSION_EXPIRED, ErrorCode.SESSION_MOVED, ErrorCode.THROTTLED])
async def test_watch_refused_with_its_connection_is_added_on_next(talk: Talk, error: ErrorCode) -> None:
    talk.server.says(Operation.ADD_WATCH, error)
    talk.server.says(Operation.ADD_WATCH)
    talk.store.subscribe("/admin", lambda event: None)
    await talk.until_said(Session.RECONNECTED)
    await talk.server.until_asked(2)
    assert talk.server.asked == [(Operation.ADD_WATCH, 1), (Operation.ADD_WATCH, 2)]
    talk.server.says(Operation.SYNC, body=jute.text("/a"))
    talk.server.says(Operation.GET, body=jute.buffer(b"1") + stat_of(0))
    assert await talk.store.fresh("/a") is not None


async def test_damaged_frame_ends_connection_and_not_session(talk: Talk) -> None:
    talk.server.send(b"\xff\xff\xff\xff")
    await talk.until_said(Session.RECONNECTED)
    assert talk.said == [Session.CONNECTION_LOST, Session.RECONNECTED]
    assert talk.server.sessions == [0, SESSION]


async def test_answer_to_request_that_was_not_sent_ends_connection(talk: Talk) -> None:
    talk.server.send(messages.frame(jute.integer(99) + jute.long(1) + jute.integer(0)))
    await talk.until_said(Session.RECONNECTED)
    assert talk.server.sessions == [0, SESSION]


async def test_server_without_recursive_watches_is_named(talk: Talk) -> None:
    talk.server.says(Operation.ADD_WATCH, error=ErrorCode.UNIMPLEMENTED)
    talk.store.subscribe("/admin/policies", lambda event: None)
    await talk.until_said(Session.LOST)
    with pytest.raises(Misuse, match=r"3\.6"):
        await talk.store.get("/a")


async def test_listeners_of_one_top_folder_share_watch(talk: Talk) -> None:
    for prefix in ("/admin/policies", "/admin/clusters", "/admin", "/loadbalance/brokers"):
        talk.server.says(Operation.ADD_WATCH, body=jute.integer(0))
        talk.store.subscribe(prefix, lambda event: None)
    await talk.server.until_asked(2)
    talk.server.cut()
    await talk.until_said(Session.RECONNECTED)
    await talk.server.until_asked(4)
    assert talk.server.asked == [(Operation.ADD_WATCH, number) for number in (1, 1, 2, 2)]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.CONNECTION_LOSS, ConnectionLost),
        (ErrorCode.OPERATION_TIMEOUT, Unknown),
        (ErrorCode.SESSION_EXPIRED, NotReady),
        (ErrorCode.SESSION_MOVED, NotReady),
        (ErrorCode.THROTTLED, Unavailable),
        (-999, Refused),
    ],
)
async def test_error_of_server_says_what_may_have_happened(talk: Talk, code: int, error: type[MagnetarError]) -> None:
    talk.server.says(Operation.SET, error=code)
    with pytest.raises(error):
        await talk.store.put("/a", b"")


async def test_requests_without_answers_are_bounded(talk: Talk) -> None:
    value = b"x" * 900_000
    loop = asyncio.get_running_loop()
    writes = [loop.create_task(talk.store.put("/a", value)) for _ in range(ZOOKEEPER_PENDING_BYTES_MAX // 900_000 + 2)]
    done, _ = await asyncio.wait(writes, return_when=asyncio.FIRST_COMPLETED)
    assert [type(one.exception()) for one in done] == [Busy]
    talk.server.cut()
    lost = await asyncio.gather(*writes, return_exceptions=True)
    assert {type(one) for one in lost} == {Busy, ConnectionLost}


async def test_closed_store_answers_callers_that_wait(talk: Talk) -> None:
    reading = asyncio.get_running_loop().create_task(talk.store.get("/a"))
    await talk.server.until_asked(1)
    await talk.store.close()
    with pytest.raises((Closed, ConnectionLost)):
        await reading
    with pytest.raises(Closed):
        await talk.store.get("/a")
