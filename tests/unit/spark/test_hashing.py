"""Hashes of columns are the hashes of their keys."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.base.hashes import murmur3
from magnetar.layout.routing import Routing, segment_hash
from magnetar.spark.hashing import murmurs, slots


def column(keys: list[bytes]):
    ends = np.cumsum([3 + len(key) for key in keys], dtype=np.int64)
    starts = ends - np.array([len(key) for key in keys], np.int64)
    return np.frombuffer(b"".join(b"---" + key for key in keys) or b"-", np.uint8), starts, ends


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(1, 40))
@settings(max_examples=40)
def test_many_keys_at_once_hash_as_one_by_one(keys, times):
    keys = [key[:-1] + bytes([number]) if key else key for number in range(times) for key in keys]
    assert murmurs(*column(keys)).tolist() == [murmur3(key) for key in keys]


@pytest.mark.parametrize("length", [*range(18), 63, 64, 1000])
def test_every_length_of_key(length):
    keys = [bytes((seed * 7 + place) % 256 for place in range(length)) for seed in range(40)]
    assert murmurs(*column(keys)).tolist() == [murmur3(key) for key in keys]


@pytest.mark.parametrize("routing", Routing)
def test_slots_are_those_of_router(routing):
    keys = [f"key-{number}".encode() for number in range(200)]
    assert slots(*column(keys), routing).tolist() == [segment_hash(key, routing) for key in keys]
