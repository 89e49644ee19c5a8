"""Numbers and sections come back as they went in, and bytes that lie are corrupt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import Corrupt
from magnetar.ledger.snapshot_codec import Unpacker, pack, pack_ascending, sections, varint

NUMBERS = st.one_of(st.integers(0, 300), st.integers(0, 2**64 - 1))


@given(st.lists(NUMBERS, max_size=3000))
def test_numbers_come_back(numbers):
    source = Unpacker(pack(numbers))
    assert source.numbers(len(numbers)) == numbers
    assert not source.left


@given(st.sets(st.integers(0, 2**63), max_size=200))
def test_ascending_numbers_come_back(numbers):
    assert Unpacker(pack_ascending(sorted(numbers))).ascending(len(numbers)) == sorted(numbers)


@given(st.lists(st.tuples(NUMBERS, st.binary(max_size=50)), max_size=20))
def test_sections_come_back(parts):
    assert list(Unpacker(sections(parts)).sections()) == parts


def test_one_large_number_does_not_widen_others():
    assert len(pack([1] * 2048 + [2**60])) < 2048 + 16


@pytest.mark.parametrize(
    "read",
    [
        lambda: Unpacker(b"\x80" * 20).varint(),
        lambda: Unpacker(b"").varint(),
        lambda: Unpacker(b"\xff" * 9 + b"\x7f").varint(),
        lambda: Unpacker(b"\x03" + bytes(9)).numbers(3),
        lambda: Unpacker(bytes(4)).numbers(2**60),
        lambda: Unpacker(b"\x08" + bytes(7)).numbers(1),
        lambda: Unpacker(pack([5, 0])).ascending(2),
        lambda: list(Unpacker(varint(1) + varint(9) + b"short").sections()),
    ],
)
def test_bytes_that_lie_are_corrupt(read):
    with pytest.raises(Corrupt):
        read()
