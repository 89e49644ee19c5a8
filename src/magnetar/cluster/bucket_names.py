"""The names of topics under the buckets of a namespace, in pages, without a read of their records (PIP-157).

The first pages of several buckets are read together: one bucket at first, so that a short page costs one request, then
more. Memory is bounded by the pages of BUCKETS_LISTED_AT_ONCE_MAX buckets for any number of topics. It trusts the order
of the parents that it gets.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from magnetar.base.limits import BUCKETS_LISTED_AT_ONCE_MAX
from magnetar.metadata.paths import is_bucket
from magnetar.metadata.store import MetadataStore, NamePage


async def bucket_names(
    store: MetadataStore, parents: Sequence[str], *, after: str | None = None, limit: int | None = None
) -> AsyncIterator[tuple[str, list[str]]]:
    """Pages of a parent and encoded names, in the order of the parents. `after`: the last name of an earlier page, in
    the first parent. `limit`: of names in one page."""
    start, window = 0, 1
    while start < len(parents):
        some = parents[start : start + window]
        reads = [store.names(parent, after=None if start + n else after, limit=limit) for n, parent in enumerate(some)]
        for parent, first in zip(some, await asyncio.gather(*reads, return_exceptions=True), strict=True):
            if isinstance(first, BaseException):
                raise first
            page: NamePage = first
            yield parent, _topics(page)
            while page.more:
                page = await store.names(parent, after=page.names[-1], limit=limit)
                yield parent, _topics(page)
        start, window = start + window, min(window * 2, BUCKETS_LISTED_AT_ONCE_MAX)


def _topics(page: NamePage) -> list[str]:
    """Without the buckets of another layout, which share the parent of the flat one."""
    return [name for name in page.names if not is_bucket(name)]
