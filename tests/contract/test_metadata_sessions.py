"""Sessions, ephemerals and crashes in the contract of a metadata store, on every engine."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import Misuse
from magnetar.metadata.store import ABSENT, Change, Event, Node, Session
from tests.contract.stores import Engine, Expiring, On, listen, told


def test_ephemerals_have_no_children_and_say_whose_they_are(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        stat = await store.put("/e", b"", ephemeral=True)
        assert (stat.ephemeral, stat.mine) == (True, True)
        with pytest.raises(Misuse):
            await store.put("/e/child", b"")
        await store.put("/p/child", b"")
        with pytest.raises(Misuse):
            await store.put("/p", b"", ephemeral=True)

    on(body)


def test_expired_session_takes_its_ephemerals_and_gets_another_id(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        await store.put("/e/1", b"", ephemeral=True)
        await store.put("/stays", b"")
        before = store.session_id
        heard = listen(store, "/e")
        said: list[Session] = []
        store.on_session(said.append)
        await store.expire_session(server_side=True)
        assert said == [Session.CONNECTION_LOST, Session.LOST, Session.RECONNECTED, Session.REESTABLISHED]
        assert store.session_id != before
        assert await store.get("/e/1") is None
        assert await store.exists("/stays")
        await told()
        assert Event(Change.DELETED, "/e/1") in heard or Change.RESYNC in {event.change for event in heard}

    on(body)


def test_ephemeral_stays_one_when_another_session_writes_it(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        await store.put("/e", b"v", ephemeral=True)
        await store.put("/p", b"v")
        await store.expire_session(server_side=False)
        for ephemeral in (False, True):
            stat = await store.put("/e", b"w", ephemeral=ephemeral)
            assert (stat.ephemeral, stat.mine) == (True, False)
            stat = await store.put("/p", b"w", ephemeral=ephemeral)
            assert (stat.ephemeral, stat.mine) == (False, False)
        store = await engine.crash(store)
        assert not await store.exists("/e")
        assert await store.exists("/p")
        await store.close()

    on(body)


def test_ephemeral_of_my_previous_session_is_not_mine(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        await store.put("/e", b"v", ephemeral=True)
        await store.expire_session(server_side=False)
        node = await store.get("/e")
        assert node is not None
        assert (node.stat.ephemeral, node.stat.mine) == (True, False)
        await store.delete("/e", expected=node.stat.version)
        assert (await store.put("/e", b"v", ephemeral=True, expected=ABSENT)).mine

    on(body)


def test_after_crash_everything_answered_is_there_and_no_ephemeral(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        stats = await asyncio.gather(*(store.put(f"/d/{n:03d}", b"%d" % n) for n in range(300)))
        sequence = await store.put("/s/n-", b"", sequential=True)
        await store.put("/e/1", b"", ephemeral=True)
        await store.delete("/d/007")
        before = store.session_id
        store = await engine.crash(store)
        assert store.session_id != before
        kept = {name: node async for name, node in store.scan("/d")}
        assert list(kept) == [f"{n:03d}" for n in range(300) if n != 7]
        assert kept["100"] == Node(b"100", stats[100])
        assert await store.get("/e/1") is None
        assert set(await store.children("/")) - {"e"} == {"d", "s"}  # the parent of the ephemeral may stay
        changed = await store.put("/d/100", b"x", expected=stats[100].version)
        assert changed.version not in {stat.version for stat in stats}
        assert (await store.put("/s/n-", b"", sequential=True)).path > sequence.path
        await store.close()

    on(body)
