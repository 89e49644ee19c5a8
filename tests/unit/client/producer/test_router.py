"""Keys go to the partition where the released Java client sends them; the rest goes round, a batch at a time."""

from __future__ import annotations

import pytest

from magnetar.base.errors import Misuse
from magnetar.client.producer.router import Router
from tests.support.golden_vectors import load

CASES = load("partition-router.json")["cases"]


@pytest.mark.parametrize(("hashing", "column"), [("java", "JavaStringHash"), ("murmur3", "Murmur3_32Hash")])
@pytest.mark.parametrize("routing", ["round_robin", "single"])
def test_keys_go_where_java_sends_them(hashing, column, routing):
    router = Router(routing, hashing, 5)
    for case in CASES:
        assert [router.choose(case["key"], count) for count in range(1, 18)] == case[column]


def test_without_key_partition_is_kept_until_its_batch_closes():
    router = Router("round_robin", "java", 7)
    assert [router.choose(None, 3) for _ in range(4)] == [1, 1, 1, 1]
    router.advance()
    assert router.choose(None, 3) == 2
    router.advance()
    assert router.choose(None, 3) == 0


def test_single_partition_is_never_left():
    router = Router("single", "java", 7)
    router.advance()
    assert {router.choose(None, 3) for _ in range(4)} == {1}


def test_users_function_decides_everything():
    seen = []

    def last(key, partitions):
        seen.append((key, partitions))
        return partitions - 1

    router = Router(last, "java", 0)
    assert router.choose("k", 4) == 3
    assert router.choose(None, 2) == 1
    assert seen == [("k", 4), (None, 2)]


@pytest.mark.parametrize("chosen", [-1, 4])
def test_partition_that_does_not_exist_is_misuse(chosen):
    with pytest.raises(Misuse):
        Router(lambda key, partitions: chosen, "java", 0).choose("k", 4)


def test_unknown_modes_are_misuse():
    with pytest.raises(Misuse):
        Router("random", "java", 0)  # type: ignore[arg-type]
    with pytest.raises(Misuse):
        Router("single", "md5", 0)  # type: ignore[arg-type]
