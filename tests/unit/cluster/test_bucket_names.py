"""Lists of topics by names alone: how many requests they cost, and how many pages are read together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from magnetar.base.errors import ConnectionLost
from magnetar.base.limits import BUCKETS_LISTED_AT_ONCE_MAX
from magnetar.cluster.bucket_names import bucket_names
from magnetar.metadata.store import NamePage, Node
from simulation.stores.metadata import PAGE_NODES, MemoryStore, lost_answer

BUCKETS = [f"/ns/${number}" for number in range(64)]


class CountingStore(MemoryStore):
    """Counts its listings, and refuses to read values."""

    asked = 0
    waiting = 0
    together = 0

    async def names(self, path: str, **how: Any) -> NamePage:
        self.asked += 1
        self.waiting += 1
        self.together = max(self.together, self.waiting)
        try:
            return await super().names(path, **how)
        finally:
            self.waiting -= 1

    async def get(self, path: str) -> Node | None:
        raise AssertionError("a list of names reads no record")

    def scan(self, path: str, **how: Any) -> AsyncIterator[tuple[str, Node]]:
        raise AssertionError("a list of names reads no record")


async def filled(per_bucket: int) -> CountingStore:
    store = CountingStore()
    for bucket in BUCKETS:
        for number in range(per_bucket):
            await store.put(f"{bucket}/{number:04d}", b"")
    return store


async def test_page_of_bucket_costs_one_request() -> None:
    store = await filled(3 * PAGE_NODES - 1)
    found = [(parent, name) async for parent, names in bucket_names(store, BUCKETS) for name in names]
    assert found == [(bucket, f"{number:04d}") for bucket in BUCKETS for number in range(3 * PAGE_NODES - 1)]
    assert store.asked == 3 * len(BUCKETS)


async def test_buckets_are_read_together_up_to_bound() -> None:
    store = await filled(1)
    assert [parent async for parent, _ in bucket_names(store, BUCKETS)] == BUCKETS
    assert store.together == BUCKETS_LISTED_AT_ONCE_MAX


async def test_short_list_reads_one_bucket() -> None:
    store = await filled(5)
    async for _, names in bucket_names(store, BUCKETS, after="0001", limit=2):
        assert names == ["0002", "0003"]
        break
    assert store.asked == 1


async def test_only_first_bucket_begins_behind_name() -> None:
    store = await filled(3)
    found = [names async for _, names in bucket_names(store, BUCKETS[:3], after="0001")]
    assert found == [["0002"], ["0000", "0001", "0002"], ["0000", "0001", "0002"]]


async def test_flat_parent_does_not_list_buckets_of_another_layout() -> None:
    store = await filled(1)
    await store.put("/ns/orders", b"")
    assert [names async for _, names in bucket_names(store, ["/ns"])] == [["orders"]]


async def test_lost_answer_ends_list() -> None:
    store = await filled(1)
    store.faults.extend([lost_answer(happened=False)])
    with pytest.raises(ConnectionLost):
        async for _ in bucket_names(store, BUCKETS):
            pass
