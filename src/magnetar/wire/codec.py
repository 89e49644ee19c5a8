"""Compression of payloads, both directions, in the bare forms the protocol uses.

LZ4 and SNAPPY are raw blocks, ZLIB an RFC 1950 stream that need not be finished (Java never ends it), ZSTD one
frame. The size before compression travels beside the payload: a peer's word that is checked, and bounded before
anything is allocated. Bytes that do not decompress to exactly that size are `Corrupt`.
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

# How many bytes one compressed byte can become, by the form itself: a run costs LZ4 a byte for each 255, ZLIB two bits
# for each 258, SNAPPY three bytes for each 64, and ZSTD four bytes for a block of 128 KiB.
_RATIOS = {LZ4: 255, ZLIB: 1_032, ZSTD: 32_768, SNAPPY: 22}
_ZSTD_LEVEL = 3  # what the C++ client writes


def inflated_max(kind: int, size: int) -> int:
    """No payload of `size` compressed bytes can become more bytes than this."""
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
    """The `size` bytes that were compressed; more than `bytes_max` are refused before they are made."""
    if kind == NONE:
        return data
    if not 0 <= size <= bytes_max:
        raise Corrupt("a payload claims to be too large", bytes=size, bytes_max=bytes_max)
    if size > inflated_max(kind, len(data)):
        raise Corrupt("a payload claims more than its bytes can become", kind=kind, claimed=size, bytes=len(data))
    try:
        out = _decompress(kind, data, size)
    except (cramjam.DecompressionError, zlib.error, zstandard.ZstdError) as error:
        raise Corrupt("a payload cannot be decompressed", kind=kind, bytes=len(data), why=str(error)) from None
    if len(out) != size:
        raise Corrupt("a payload is not of the size it claims", kind=kind, claimed=size, bytes=len(out))
    return out


def _decompress(kind: int, data: bytes, size: int) -> bytes:
    if kind == LZ4:
        room = bytearray(size)
        # Without `output_len` the first four bytes are taken for a size wherever they could be one.
        return bytes(memoryview(room)[: cramjam.lz4.decompress_block_into(data, room, output_len=size)])
    if kind == ZLIB:
        return zlib.decompressobj().decompress(data, size + 1)  # one more shows a payload that is larger than it says
    if kind == ZSTD:
        stated = zstandard.get_frame_parameters(data).content_size
        if stated not in (size, zstandard.CONTENTSIZE_UNKNOWN):
            raise Corrupt("a payload is not of the size it claims", kind=kind, claimed=size, bytes=stated)
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=size, allow_extra_data=False)
    if kind == SNAPPY:
        stated = cramjam.snappy.decompress_raw_len(data)
        if stated != size:
            raise Corrupt("a payload is not of the size it claims", kind=kind, claimed=size, bytes=stated)
        return bytes(cramjam.snappy.decompress_raw(data))
    raise Corrupt("unknown compression", kind=kind)
