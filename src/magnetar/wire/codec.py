"""Compresses and decompresses payloads in the bare formats of the protocol.

LZ4 and SNAPPY are raw blocks, ZLIB is an RFC 1950 stream that may be unfinished (Java never ends it), ZSTD is one
frame. The size before compression travels beside the payload. It is untrusted, and is bounded and checked before any
allocation. Bytes that do not decompress to exactly that size raise `Corrupt`.
"""

from __future__ import annotations

import zlib

import cramjam
import zstandard

from magnetar.base.errors import Corrupt

NONE = 0
LZ4 = 1
ZLIB = 2
ZSTD = 3
SNAPPY = 4

# Maximum number of bytes from one compressed byte, by format: a run costs LZ4 a byte per 255, ZLIB two bits per 258,
# SNAPPY three bytes per 64, and ZSTD four bytes per block of 128 KiB.
_RATIOS = {LZ4: 255, ZLIB: 1_032, ZSTD: 32_768, SNAPPY: 22}
_ZSTD_LEVEL = 3  # as in the C++ client


def inflated_max(kind: int, size: int) -> int:
    """The maximum decompressed size of `size` compressed bytes."""
    return size * _RATIOS.get(kind, 1)


def compress(kind: int, data: bytes) -> bytes:
    if kind == NONE:
        return data
    if kind == LZ4:
        return bytes(cramjam.lz4.compress_block(data, store_size=False))
    if kind == ZLIB:
        return zlib.compress(data)
    if kind == ZSTD:
        return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(data)
    if kind == SNAPPY:
        return bytes(cramjam.snappy.compress_raw(data))
    raise Corrupt("unknown compression", kind=kind)


def decompress(kind: int, data: bytes, size: int, bytes_max: int) -> bytes:
    """The `size` bytes before compression; more than `bytes_max` are rejected before allocation."""
    if kind == NONE:
        return data
    if not 0 <= size <= bytes_max:
        raise Corrupt("the payload's uncompressed size exceeds the limit", bytes=size, bytes_max=bytes_max)
    if size > inflated_max(kind, len(data)):
        raise Corrupt(
            "the payload's uncompressed size is impossible for its compressed bytes",
            kind=kind,
            claimed=size,
            bytes=len(data),
        )
    try:
        out = _decompress(kind, data, size)
    except (cramjam.DecompressionError, zlib.error, zstandard.ZstdError) as error:
        raise Corrupt("a payload cannot be decompressed", kind=kind, bytes=len(data), why=str(error)) from None
    if len(out) != size:
        raise Corrupt("a payload does not have its stated size", kind=kind, claimed=size, bytes=len(out))
    return out


def _decompress(kind: int, data: bytes, size: int) -> bytes:
    if kind == LZ4:
        room = bytearray(size)
        # Without `output_len`, the first four bytes would count as a size if they look like one.
        return bytes(memoryview(room)[: cramjam.lz4.decompress_block_into(data, room, output_len=size)])
    if kind == ZLIB:
        # one more byte reveals a payload larger than its stated size
        return zlib.decompressobj().decompress(data, size + 1)
    if kind == ZSTD:
        stated = zstandard.get_frame_parameters(data).content_size
        if stated not in (size, zstandard.CONTENTSIZE_UNKNOWN):
            raise Corrupt("a payload does not have its stated size", kind=kind, claimed=size, bytes=stated)
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=size, allow_extra_data=False)
    if kind == SNAPPY:
        stated = cramjam.snappy.decompress_raw_len(data)
        if stated != size:
            raise Corrupt("a payload does not have its stated size", kind=kind, claimed=size, bytes=stated)
        return bytes(cramjam.snappy.decompress_raw(data))
    raise Corrupt("unknown compression", kind=kind)
