"""The byte form of the acknowledgements of a subscription, from a copy of them: a large one is encoded in a thread.

It is a version and tagged sections, which `acks.py` describes and reads. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from magnetar.base.ids import Position
from magnetar.ledger.snapshot_codec import Section, pack, pack_ascending, sections, varint

VERSION = 1
MARK, RANGES, BITS, COUNTS = 1, 2, 3, 4  # 5 is for hash ranges, 6 for pending acknowledgements
POSITION = struct.Struct("<qq")


def encode(
    mark: Position,
    ranges: Mapping[int, tuple[Sequence[int], Sequence[int]]],
    bits: Mapping[int, dict[int, tuple[int, int]]],
    counts: Mapping[int, dict[int, int]],
    unknown: Sequence[Section],
) -> bytes:
    """`ranges`: first and last entries of the intervals, by ledger."""
    parts: list[Section] = [(MARK, POSITION.pack(*mark))]
    if ranges:
        parts.append((RANGES, b"".join(_encode_ranges(ledger, *ranges[ledger]) for ledger in sorted(ranges))))
    if bits:
        parts.append((BITS, b"".join(_encode_bits(*item) for item in sorted(bits.items()))))
    if counts:
        parts.append((COUNTS, b"".join(_encode_counts(*item) for item in sorted(counts.items()))))
    return bytes((VERSION,)) + sections([*parts, *unknown])


def _encode_ranges(ledger: int, starts: Sequence[int], ends: Sequence[int]) -> bytes:
    bounds = [0] * (2 * len(starts))
    bounds[0::2], bounds[1::2] = starts, [end + 1 for end in ends]  # half open, so that bounds ascend strictly
    return varint(ledger) + varint(len(starts)) + pack_ascending(bounds)


def _encode_bits(ledger: int, bits: dict[int, tuple[int, int]]) -> bytes:
    entries = sorted(bits)
    sizes = [bits[entry][1] for entry in entries]
    masks = b"".join(
        bits[entry][0].to_bytes((size + 7) // 8, "little") for entry, size in zip(entries, sizes, strict=True)
    )
    return varint(ledger) + varint(len(entries)) + pack_ascending(entries) + pack(sizes) + masks


def _encode_counts(ledger: int, counts: dict[int, int]) -> bytes:
    entries = sorted(counts)
    return varint(ledger) + varint(len(entries)) + pack_ascending(entries) + pack([counts[entry] for entry in entries])
