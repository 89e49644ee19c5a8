"""The blocks of all backlogs under one bound: the block read first goes first, and many readers have smaller ones."""

from __future__ import annotations

from magnetar.base.limits import BACKLOG_READ_BYTES_MAX, BACKLOG_READ_BYTES_MIN
from magnetar.ledger.block_cache import BlockCache
from magnetar.ledger.run import Run, run_of

MIB = 1024 * 1024


class Holder:
    def __init__(self) -> None:
        self.released = 0

    def release(self) -> None:
        self.released += 1


def a_block(size: int) -> Run:
    return run_of([bytes(size)])


def test_block_read_first_goes_where_sum_is_too_large() -> None:
    cache, holders = BlockCache(10_000), [Holder() for _ in range(4)]
    for holder in holders:
        cache.put(holder, a_block(3_000))
    assert [holder.released for holder in holders] == [1, 1, 0, 0]
    assert (len(cache), cache.bytes <= 10_000) == (2, True)


def test_block_larger_than_sum_is_kept_alone() -> None:
    cache, first, second = BlockCache(10_000), Holder(), Holder()
    cache.put(first, a_block(3_000))
    cache.put(second, a_block(20_000))
    assert (first.released, second.released, len(cache)) == (1, 0, 1)


def test_next_block_of_holder_replaces_its_charge() -> None:
    cache, holder = BlockCache(10_000), Holder()
    for _ in range(10):
        cache.put(holder, a_block(3_000))
    assert (holder.released, len(cache)) == (0, 1)
    cache.drop(holder)
    cache.drop(holder)
    assert cache.bytes == 0


def test_many_holders_read_smaller_blocks_that_all_fit() -> None:
    cache = BlockCache(16 * MIB)
    assert cache.read_bytes == BACKLOG_READ_BYTES_MAX
    holders = [Holder() for _ in range(200)]
    for _ in range(3):
        for holder in holders:
            cache.put(holder, a_block(min(cache.read_bytes, 15 * MIB // 200)))
    assert sum(holder.released for holder in holders[100:]) == 0
    assert BACKLOG_READ_BYTES_MIN <= cache.read_bytes < 100_000


def test_many_small_blocks_do_not_shrink_next_read() -> None:
    """Subscriptions that caught up keep their last block: a long backlog beside them is read in large ones."""
    cache = BlockCache(16 * MIB)
    for holder in [Holder() for _ in range(5_000)]:
        cache.put(holder, a_block(100))
    assert cache.read_bytes == BACKLOG_READ_BYTES_MAX
