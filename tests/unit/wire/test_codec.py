"""Payloads come back as they were, and no lie about their size is believed."""

from __future__ import annotations

import zlib

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import Corrupt
from magnetar.wire import codec

KINDS = [codec.NONE, codec.LZ4, codec.ZLIB, codec.ZSTD, codec.SNAPPY]
PACKED = KINDS[1:]
TEXT = b"the quick brown fox " * 50
LIMIT = 1 << 20


@given(st.sampled_from(KINDS), st.binary(max_size=5000))
def test_what_was_compressed_comes_back(kind, data):
    assert codec.decompress(kind, codec.compress(kind, data), len(data), LIMIT) == data


@pytest.mark.parametrize("kind", PACKED)
@pytest.mark.parametrize("claimed", [0, 1, len(TEXT) - 1, len(TEXT) + 1, LIMIT, LIMIT + 1, 2**32 - 1, -1])
def test_lie_about_size_is_corrupt(kind, claimed):
    with pytest.raises(Corrupt):
        codec.decompress(kind, codec.compress(kind, TEXT), claimed, LIMIT)


@pytest.mark.parametrize("kind", PACKED)
def test_size_beyond_limit_is_refused_although_true(kind):
    with pytest.raises(Corrupt):
        codec.decompress(kind, codec.compress(kind, TEXT), len(TEXT), len(TEXT) - 1)


@pytest.mark.parametrize("kind", PACKED)
def test_cut_payload_is_corrupt(kind):
    packed = codec.compress(kind, TEXT)
    for cut in range(len(packed)):
        try:
            assert codec.decompress(kind, packed[:cut], len(TEXT), LIMIT) == TEXT
            assert kind == codec.ZLIB  # only the checksum at the end was cut
        except Corrupt:
            pass


@given(st.sampled_from(PACKED), st.binary(max_size=200), st.integers(0, 5000))
def test_garbage_is_corrupt_or_of_claimed_size(kind, data, size):
    try:
        assert len(codec.decompress(kind, data, size, LIMIT)) == size
    except Corrupt:
        pass


def test_lz4_starting_like_its_size_is_restored():
    """A run behind three zeros: the first bytes of the block are a small number in four bytes."""
    data = b"\0\0\0\xcf\x12\xc8\x01" + b"a" * 200 + b"\x18d0" + bytes(101)
    packed = codec.compress(codec.LZ4, data)
    assert packed[1:4] == bytes(3)
    assert codec.decompress(codec.LZ4, packed, len(data), LIMIT) == data


def test_zlib_stream_that_was_never_finished_is_read():
    stream = zlib.compressobj()
    packed = stream.compress(TEXT) + stream.flush(zlib.Z_SYNC_FLUSH)
    assert codec.decompress(codec.ZLIB, packed, len(TEXT), LIMIT) == TEXT


def test_zstd_frame_without_its_size_is_read_and_bounded():
    packed = zstandard.ZstdCompressor(write_content_size=False).compress(TEXT)
    assert codec.decompress(codec.ZSTD, packed, len(TEXT), LIMIT) == TEXT
    with pytest.raises(Corrupt):
        codec.decompress(codec.ZSTD, packed, len(TEXT) - 1, LIMIT)


def test_unknown_compression_is_corrupt():
    with pytest.raises(Corrupt):
        codec.decompress(9, b"", 0, LIMIT)
    with pytest.raises(Corrupt):
        codec.compress(9, b"")
