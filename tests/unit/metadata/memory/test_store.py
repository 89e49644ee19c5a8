"""The metadata store in memory: handles of several threads, sessions that time out, and an outage of the server."""

from __future__ import annotations

import asyncio
import threading

import pytest

from magnetar.base.errors import NotReady
from magnetar.metadata.memory.records import SharedMetadata
from magnetar.metadata.memory.store import MemoryMetadataStore
from magnetar.metadata.store import Change, Event, Session
from magnetar.runtime.system_runtime import RealRuntime

SESSION_S = 0.2
LONG_S = 60.0


def test_events_cross_threads_in_order_of_writes() -> None:
    shared, runtime = SharedMetadata(LONG_S, threading.Lock()), RealRuntime()
    ready, values = threading.Event(), []

    async def listen() -> None:
        store = MemoryMetadataStore(shared, runtime)
        done = asyncio.Event()
        heard: list[Event] = []

        def hear(event: Event) -> None:
            heard.append(event)
            if event.path == "/a/last":
                done.set()

        store.subscribe("/a", hear)
        ready.set()
        await done.wait()
        values.extend(event.change for event in heard if event.path == "/a/x")
        await store.close()

    async def write() -> None:
        store = MemoryMetadataStore(shared, runtime)
        for _ in range(50):
            await store.put("/a/x", b"")
            await store.delete("/a/x")
        await store.put("/a/last", b"")
        await store.close()

    listener = threading.Thread(target=lambda: asyncio.run(listen()))
    listener.start()
    ready.wait()
    asyncio.run(write())
    listener.join()
    assert values == [Change.CREATED, Change.DELETED] * 50


@pytest.mark.real_clock
async def test_blocked_handle_loses_its_session_and_gets_another() -> None:
    shared, runtime = SharedMetadata(SESSION_S, threading.Lock()), RealRuntime()
    store = MemoryMetadataStore(shared, runtime)
    sessions: list[Session] = []
    store.on_session(sessions.append)
    before = store.session_id
    await store.put("/e", b"", ephemeral=True)
    threading.Event().wait(SESSION_S * 2)  # the loop stands still
    other = MemoryMetadataStore(shared, runtime)
    assert await other.get("/e") is None
    assert await store.get("/e") is None
    assert sessions == [Session.CONNECTION_LOST, Session.LOST, Session.RECONNECTED, Session.REESTABLISHED]
    assert store.session_id != before
    await store.close()
    await other.close()


@pytest.mark.real_clock
async def test_abandoned_handle_keeps_its_records_until_timeout() -> None:
    shared, runtime = SharedMetadata(SESSION_S, threading.Lock()), RealRuntime()
    killed, other = MemoryMetadataStore(shared, runtime), MemoryMetadataStore(shared, runtime)
    await killed.put("/e", b"", ephemeral=True)
    gone = asyncio.Event()
    other.subscribe("/e", lambda event: gone.set() if event.change is Change.DELETED else None)
    killed.abandon()
    assert await other.exists("/e")
    await gone.wait()
    await other.close()


@pytest.mark.real_clock
async def test_short_outage_keeps_session_and_long_one_ends_it() -> None:
    shared, runtime = SharedMetadata(SESSION_S, threading.Lock()), RealRuntime()
    store = MemoryMetadataStore(shared, runtime)
    sessions: list[Session] = []
    lost, back = asyncio.Event(), asyncio.Event()

    def hear(session: Session) -> None:
        sessions.append(session)
        if session is Session.LOST:
            lost.set()
        if session is Session.REESTABLISHED:
            back.set()

    store.on_session(hear)
    await store.put("/e", b"", ephemeral=True)
    shared.available = False
    with pytest.raises(NotReady):
        await store.get("/e")
    shared.refresh_sessions()
    shared.available = True
    node = await store.get("/e")
    assert node is not None
    assert node.stat.mine
    assert sessions == [Session.CONNECTION_LOST, Session.RECONNECTED]
    shared.available = False
    await lost.wait()
    shared.refresh_sessions()
    shared.available = True
    await back.wait()
    node = await store.get("/e")  # the server has not ended the old session yet
    assert node is not None
    assert not node.stat.mine
    await store.close()
