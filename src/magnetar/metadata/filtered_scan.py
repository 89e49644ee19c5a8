"""Reads the records below a path that a caller chooses by name: pages of names, then the chosen records, several reads
at a time. A broker that minds a part of the records reads no other values. `scan` is cheaper for all records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from magnetar.base.limits import RECORDS_READ_AT_ONCE_MAX
from magnetar.metadata.store import MetadataStore, Node


async def name_pages(store: MetadataStore, parent: str) -> AsyncIterator[list[str]]:
    after: str | None = None
    more = True
    while more:
        page = await store.names(parent, after=after)
        if page.names:
            yield page.names
            after = page.names[-1]
        more = page.more and bool(page.names)


async def read_nodes(store: MetadataStore, paths: Sequence[str]) -> AsyncIterator[tuple[str, Node]]:
    """The records at these paths that exist, in their order."""
    for start in range(0, len(paths), RECORDS_READ_AT_ONCE_MAX):
        some = paths[start : start + RECORDS_READ_AT_ONCE_MAX]
        reads = await asyncio.gather(*(store.get(path) for path in some), return_exceptions=True)
        for path, read in zip(some, reads, strict=True):
            if isinstance(read, BaseException):
                raise read
            if read is not None:
                yield path, read


async def filtered_scan(
    store: MetadataStore, parent: str, keep: Callable[[str], Awaitable[bool]]
) -> AsyncIterator[tuple[str, Node]]:
    """The direct children with a path that `keep` accepts, by path, in name order."""
    async for page in name_pages(store, parent):
        chosen = [path for name in page if await keep(path := f"{parent}/{name}")]
        async for read in read_nodes(store, chosen):
            yield read
