"""What only the sqlite engine has: its file, its one owner, its full disk, its grouped transactions."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from magnetar.base.errors import BadVersion, Conflict, Corrupt, MagnetarError, StorageFailed, StorageFull
from magnetar.metadata.embedded import EmbeddedStore
from magnetar.metadata.store import ABSENT
from magnetar.metadata.table import FORMAT, MAGIC
from magnetar.runtime.system_runtime import RealRuntime

pytestmark = pytest.mark.real_clock


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "metadata.db")


@asynccontextmanager
async def real_runtime() -> AsyncIterator[RealRuntime]:
    runtime = RealRuntime()
    try:
        yield runtime
    finally:
        runtime.close()


def read(file: str) -> bytes:
    return Path(file).read_bytes()


def write(file: str, content: bytes) -> None:
    Path(file).write_bytes(content)


def alter(file: str, *statements: str) -> None:
    db = sqlite3.connect(file)
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()


async def test_closed_store_opened_again_has_its_records_and_no_ephemerals(file: str) -> None:
    async with real_runtime() as runtime:
        store = await EmbeddedStore.open(file, runtime)
        stat = await store.put("/a", b"1")
        await store.put("/e", b"", ephemeral=True)
        await store.close()
        again = await EmbeddedStore.open(file, runtime)
        node = await again.get("/a")
        assert node is not None
        assert (node.value, node.stat) == (b"1", stat)
        assert not await again.exists("/e")
        assert again.session_id != store.session_id
        await again.close()


async def test_second_owner_of_file_is_told_what_to_do(file: str) -> None:
    async with real_runtime() as runtime:
        store = await EmbeddedStore.open(file, runtime)
        with pytest.raises(Conflict, match="another process holds the metadata file"):
            await EmbeddedStore.open(file, runtime)
        await store.put("/still", b"works")
        await store.close()


async def test_file_of_newer_version_is_refused_with_what_to_do(file: str) -> None:
    async with real_runtime() as runtime:
        await (await EmbeddedStore.open(file, runtime)).close()
        alter(file, f"PRAGMA user_version = {FORMAT + 1}")
        with pytest.raises(Corrupt, match="newer Magnetar: start that version"):
            await EmbeddedStore.open(file, runtime)


async def test_file_that_is_not_ours_is_refused_and_not_touched(file: str) -> None:
    alter(file, "CREATE TABLE theirs (x)")
    for content in (read(file), b"just some text that is long enough to be looked at" * 100):
        write(file, content)
        async with real_runtime() as runtime:
            with pytest.raises(Corrupt):
                await EmbeddedStore.open(file, runtime)
        assert read(file) == content


async def test_header_says_what_file_is(file: str) -> None:
    async with real_runtime() as runtime:
        await (await EmbeddedStore.open(file, runtime)).close()
    db = sqlite3.connect(file)
    assert db.execute("PRAGMA application_id").fetchone() == (MAGIC,)
    assert db.execute("PRAGMA user_version").fetchone() == (FORMAT,)
    db.close()


async def test_missing_directory_is_storage_failure(tmp_path: Path) -> None:
    async with real_runtime() as runtime:
        with pytest.raises(StorageFailed):
            await EmbeddedStore.open(str(tmp_path / "missing" / "metadata.db"), runtime)


async def test_full_disk_refuses_write_and_keeps_what_was_answered(file: str) -> None:
    async with real_runtime() as runtime:
        store = await EmbeddedStore.open(file, runtime)
        await store.put("/kept", b"1")
        pages = store._table._db.execute("PRAGMA page_count").fetchone()[0]
        store._table._db.execute(f"PRAGMA max_page_count = {pages + 2}")
        heard: list[object] = []
        failures: list[MagnetarError] = []
        store.subscribe("/big", heard.append)
        store.on_failure.append(failures.append)
        with pytest.raises(StorageFull, match="free space"):
            await store.put("/big", b"x" * 500_000)
        assert heard == []
        assert [type(error) for error in failures] == [StorageFull]
        assert await store.get("/big") is None
        assert await store.exists("/kept")
        await store.put("/kept", b"2")
        store._table._db.execute("PRAGMA max_page_count = 1000000")
        first = await store.put("/big", b"x" * 500_000, expected=ABSENT)
        with pytest.raises(BadVersion):
            await store.put("/big", b"", expected=ABSENT)
        assert first.first_version
        await store.close()


async def test_after_write_of_unknown_outcome_store_answers_nothing_any_more(file: str) -> None:
    async with real_runtime() as runtime:
        store = await EmbeddedStore.open(file, runtime)
        await store.put("/a", b"1")
        store._table._db.execute("PRAGMA query_only = 1")
        failures: list[MagnetarError] = []
        store.on_failure.append(failures.append)
        waiting = [asyncio.get_running_loop().create_task(store.put(f"/b/{n}", b"")) for n in range(3)]
        for task in waiting:
            with pytest.raises(StorageFailed):
                await task
        with pytest.raises(StorageFailed):
            await store.get("/a")
        assert [type(error) for error in failures] == [StorageFailed]
        await store.close()


async def test_operations_of_one_turn_share_one_transaction(file: str) -> None:
    async with real_runtime() as runtime:
        store = await EmbeddedStore.open(file, runtime)
        begun: list[str] = []
        store._table._db.set_trace_callback(lambda text: begun.append(text) if text.startswith("COMMIT") else None)
        results = await asyncio.gather(
            *(store.put(f"/a/{n}", b"") for n in range(200)),
            store.delete("/missing"),
            return_exceptions=True,
        )
        assert len(begun) == 1
        assert sum(isinstance(one, BaseException) for one in results) == 1
        await store.close()


async def test_what_is_asked_during_transaction_joins_next_one(file: str) -> None:
    async with real_runtime() as runtime:
        store = await EmbeddedStore.open(file, runtime)
        begun: list[str] = []
        store._table._db.set_trace_callback(lambda text: begun.append(text) if text.startswith("COMMIT") else None)
        loop = asyncio.get_running_loop()
        first = loop.create_task(store.put("/a", b""))
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # the first is on its way to the lane now
        rest = [loop.create_task(store.put(f"/b/{n}", b"")) for n in range(50)]
        await asyncio.gather(first, *rest)
        assert len(begun) == 2
        await store.close()
