"""The two engines side by side: any sequence of operations ends the same on both, answers and events included."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from magnetar.base.errors import MagnetarError
from magnetar.metadata.store import ABSENT, Event, MetadataStore
from magnetar.runtime.system_runtime import RealRuntime
from tests.contract.stores import Embedded, Engine, Expiring, Memory, listen

paths = st.sampled_from(["/a", "/a/b", "/a/b/c", "/a/d", "/e", "/e/f"])
operations = st.one_of(
    st.tuples(st.just("put"), paths, st.sampled_from(["any", "absent", "known", "wrong"]), st.booleans()),
    st.tuples(st.just("sequential"), paths),
    st.tuples(st.just("delete"), paths, st.sampled_from(["any", "known", "wrong"])),
    st.tuples(st.just("tree"), paths),
    st.tuples(st.just("expire"), st.booleans()),
    st.tuples(st.just("children"), paths),
    st.tuples(st.just("scan"), paths),
    st.tuples(st.just("crash")),
)


async def expected(store: MetadataStore, path: str, how: str) -> int | None:
    node = await store.get(path)
    version = ABSENT if node is None else node.stat.version
    return {"any": None, "absent": ABSENT, "known": version, "wrong": version + 1000}[how]


async def perform(store: Expiring, operation: tuple[Any, ...]) -> object:
    """What the caller sees, without what engines may choose (versions, times, session ids)."""
    try:
        match operation:
            case ("put", path, how, ephemeral):
                stat = await store.put(path, b"v", expected=await expected(store, path, how), ephemeral=ephemeral)
                return stat.path, stat.first_version, stat.ephemeral, stat.mine
            case ("sequential", path):
                return (await store.put(path, b"s", sequential=True)).path
            case ("delete", path, how):
                return await store.delete(path, expected=await expected(store, path, how))
            case ("tree", path):
                return await store.delete_tree(path)
            case ("expire", server_side):
                return await store.expire_session(server_side)
            case ("children", path):
                return await store.children(path)
            case ("scan", path):
                return [(name, node.value, node.stat.mine) async for name, node in store.scan(path)]
    except MagnetarError as error:
        return type(error)
    raise AssertionError(operation)


async def story(engine: Engine, script: list[tuple[Any, ...]]) -> list[object]:
    store = await engine.open()
    told: list[object] = []
    heard: list[Event] = listen(store, "/")
    for operation in script:
        if operation == ("crash",):
            store = await engine.crash(store)
            heard = listen(store, "/")
            continue
        told.append(await perform(store, operation))
        told.append(sorted({(event.change.name, event.path) for event in heard}))
        heard.clear()
    await store.close()
    for other in getattr(engine, "opened", []):
        await other.close()
    return told


@settings(max_examples=60)
@given(st.lists(operations, max_size=25))
@example([("put", "/a", "any", True), ("expire", False), ("expire", True), ("put", "/a", "absent", True)])
@example([("put", "/a", "any", True), ("expire", False), ("crash",), ("put", "/a", "absent", True)])
@example([("put", "/a", "any", True), ("sequential", "/a/b/c"), ("expire", True), ("sequential", "/a/b/c")])
def test_any_story_is_told_alike_by_both_engines(script: list[tuple[Any, ...]]) -> None:
    runtime = RealRuntime()
    try:
        with tempfile.TemporaryDirectory() as directory:
            memory = asyncio.run(story(Memory(Path(directory), runtime), script))
            embedded = asyncio.run(story(Embedded(Path(directory), runtime), script))
        assert memory == embedded
    finally:
        runtime.close()
