"""Versions of schemas, also when several add at once or an answer gets lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from magnetar.base.errors import Corrupt, LimitExceeded, Misuse, NotFound, Refused, Unknown
from magnetar.base.limits import METADATA_VALUE_BYTES_MAX
from magnetar.metadata import paths
from magnetar.runtime.system_runtime import RealRuntime
from magnetar.schema.registry import AUTO_CONSUME, Registry
from simulation.stores.metadata import InjectedFault, MemoryStore, lost_answer

pytestmark = pytest.mark.real_clock

AVRO, STRING = 4, 1
ID = "public/default/orders"


@asynccontextmanager
async def opened_registry() -> AsyncIterator[tuple[MemoryStore, Registry]]:
    store = MemoryStore()
    yield store, Registry(store, RealRuntime())


async def test_versions_count_from_zero_and_equal_schema_reuses_version() -> None:
    async with opened_registry() as (_, registry):
        assert await registry.latest(ID) is None
        assert await registry.add(ID, AVRO, b"a", {"k": "v"}) == 0
        assert await registry.add(ID, AVRO, b"b", {}) == 1
        assert await registry.add(ID, AVRO, b"a", {"other": "properties"}) == 0
        assert await registry.add(ID, STRING, b"a", {}) == 2
        assert await registry.add("public/default/other", AVRO, b"b", {}) == 0
        newest = await registry.get(ID)
        assert (newest.version, newest.type, newest.data) == (2, STRING, b"a")
        first = await registry.get(ID, 0)
        assert (first.data, first.properties) == (b"a", {"k": "v"})
        assert [one.version for one in await registry.versions(ID)] == [0, 1, 2]
        assert await registry.find(ID, AVRO, b"b") == 1
        assert await registry.find(ID, AVRO, b"c") == -1


async def test_many_who_add_at_once_agree() -> None:
    async with opened_registry() as (store, registry):
        other = Registry(store.peer(), RealRuntime())
        adds = [one.add(ID, AVRO, b"%d" % (n % 3), {}) for n in range(12) for one in (registry, other)]
        versions = await asyncio.gather(*adds)
        assert sorted(set(versions)) == [0, 1, 2]
        by_data = {(n % 3, version) for n, version in zip((n for n in range(12) for _ in "ab"), versions, strict=True)}
        assert len(by_data) == 3


async def test_what_is_not_there_is_not_found() -> None:
    async with opened_registry() as (_, registry):
        for version in (None, 0):
            with pytest.raises(NotFound, match="Schema not found"):
                await registry.get(ID, version)
        await registry.add(ID, AVRO, b"a", {})
        for version in (1, -1, 2**63):
            with pytest.raises(NotFound):
                await registry.get(ID, version)


async def test_after_deletion_versions_count_on() -> None:
    async with opened_registry() as (_, registry):
        await registry.add(ID, AVRO, b"a", {})
        assert await registry.delete(ID) == 1
        assert await registry.latest(ID) is None
        with pytest.raises(NotFound):
            await registry.delete(ID)
        assert await registry.add(ID, AVRO, b"a", {}) == 2
        assert await registry.delete(ID, force=True) == -1
        assert await registry.add(ID, AVRO, b"a", {}) == 0


@pytest.mark.parametrize("happened", [True, False])
@pytest.mark.parametrize("step", range(4))
async def test_lost_answer_at_any_step_does_not_make_two_versions(step: int, happened: bool) -> None:
    """The steps of adding: read the index, write the body, read the index again, write it."""

    async with opened_registry() as (store, registry):
        await registry.add(ID, AVRO, b"a", {})
        store.faults.extend([InjectedFault(None, happened=True)] * step)
        store.faults.append(lost_answer(happened=happened))
        try:
            version = await registry.add(ID, AVRO, b"b", {})
        except Unknown:
            version = await registry.add(ID, AVRO, b"b", {})
        assert version == 1
        assert [one.data for one in await registry.versions(ID)] == [b"a", b"b"]


async def test_auto_consume_and_what_is_too_large_are_never_stored() -> None:
    async with opened_registry() as (store, registry):
        with pytest.raises(Misuse):
            await registry.add(ID, AUTO_CONSUME, b"", {})
        with pytest.raises(LimitExceeded):
            await registry.add(ID, AVRO, b"x" * METADATA_VALUE_BYTES_MAX, {})
        assert await store.children(paths.SCHEMAS) == []


async def test_newer_format_and_missing_body_are_said() -> None:
    async with opened_registry() as (store, registry):
        await store.put(paths.schema(ID), b'{"versions":[],"v":2}')
        with pytest.raises(Refused, match="start a newer Magnetar"):
            await registry.get(ID)
        await store.put(paths.schema(ID), b'{"versions":[{"digest":"00","timestamp_ms":1}],"v":1,"new":1}')
        with pytest.raises(Corrupt):
            await registry.get(ID)
        await store.put(paths.schema(ID), b"nonsense")
        with pytest.raises(Corrupt):
            await registry.get(ID)
