"""Murmur3 of many keys at the same time: the same values as `base.hashes.murmur3`, for columns of bytes.

Keys of equal length are hashed together, four bytes per step. Lengths with few keys are hashed one by one. Pure; trusts
the given positions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from magnetar.base.hashes import murmur3
from magnetar.layout.routing import Routing
from magnetar.spark.read.batch_scanner import Bytes, Ints

Hashes = NDArray[np.uint32]

_TOGETHER_MIN = 24  # minimum number of keys of one length: fewer are faster one by one
_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
_M1, _M2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)
_FIVE, _ADD = np.uint32(5), np.uint32(0xE6546B64)


def slots(buffer: Bytes, starts: Ints, ends: Ints, routing: Routing) -> Ints:
    """The hash slots of keys, 0..65535, as `layout.routing.segment_hash` computes them."""
    hashes = murmurs(buffer, starts, ends)
    half = hashes & np.uint32(0xFFFF) if routing is Routing.LOW16 else hashes >> np.uint32(16)
    return half.astype(np.int64)


def murmurs(buffer: Bytes, starts: Ints, ends: Ints) -> Hashes:
    hashes = np.empty(len(starts), np.uint32)
    lengths = ends - starts
    order = np.argsort(lengths, kind="stable")
    cuts = np.flatnonzero(np.diff(lengths[order])) + 1
    for rows in np.split(order, cuts):
        if not rows.size:
            continue
        length = int(lengths[rows[0]])
        if rows.size < _TOGETHER_MIN:
            hashes[rows] = [murmur3(buffer[starts[row] : ends[row]].tobytes()) for row in rows]
        else:
            hashes[rows] = _together(buffer[starts[rows, None] + np.arange(length)], length)
    return hashes


def _together(keys: Bytes, length: int) -> Hashes:
    """One row of bytes per key."""
    blocks = length // 4
    state = np.zeros(len(keys), np.uint32)
    words = np.ascontiguousarray(keys[:, : blocks * 4]).view("<u4")
    for block in range(blocks):
        state ^= _mixed(words[:, block].astype(np.uint32))
        state = _turned(state, 13) * _FIVE + _ADD
    if length % 4:
        tail = np.zeros(len(keys), np.uint32)
        for index in range(length % 4):
            tail |= keys[:, blocks * 4 + index].astype(np.uint32) << np.uint32(8 * index)
        state ^= _mixed(tail)
    state ^= np.uint32(length)
    state ^= state >> np.uint32(16)
    state *= _M1
    state ^= state >> np.uint32(13)
    state *= _M2
    state ^= state >> np.uint32(16)
    return state


def _mixed(word: Hashes) -> Hashes:
    return _turned(word * _C1, 15) * _C2


def _turned(word: Hashes, by: int) -> Hashes:
    return word << np.uint32(by) | word >> np.uint32(32 - by)
