"""Namespace bundles: the 32-bit hash space of topic names, divided at boundaries.

Bundle i starts at boundary i and ends before boundary i + 1; only the last one includes its end. This module maps
topics to bundles and splits bundles. It does not decide the owner of a bundle.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise

from magnetar.base.errors import InvalidRange
from magnetar.base.hashes import bundle_hash

HASH_MAX = 0xFFFFFFFF


@dataclass(frozen=True, slots=True, order=True)
class Bundle:
    low: int
    high: int

    def __str__(self) -> str:
        return f"{boundary_text(self.low)}_{boundary_text(self.high)}"


@dataclass(frozen=True, slots=True)
class Bundles:
    """All bundles of a namespace, by their boundaries: strictly ascending from 0 to 0xffffffff."""

    boundaries: tuple[int, ...]

    def __post_init__(self) -> None:
        edges = self.boundaries
        if len(edges) < 2 or edges[0] != 0 or edges[-1] != HASH_MAX:
            raise InvalidRange("bundle boundaries must reach from 0x00000000 to 0xffffffff")
        if any(low >= high for low, high in pairwise(edges)):
            raise InvalidRange("bundle boundaries must ascend")

    def __len__(self) -> int:
        return len(self.boundaries) - 1

    @property
    def all(self) -> list[Bundle]:
        return [Bundle(low, high) for low, high in pairwise(self.boundaries)]

    def find(self, topic: str) -> Bundle:
        """The bundle of a full topic name."""
        return self.at(bundle_hash(topic))

    def at(self, place: int) -> Bundle:
        index = min(bisect_right(self.boundaries, place), len(self)) - 1
        return Bundle(self.boundaries[index], self.boundaries[index + 1])

    def split(self, bundle: Bundle, into: int = 2) -> Bundles:
        """Equal parts; the last one includes the remainder."""
        step = (bundle.high - bundle.low) // into if into > 1 else 0
        if step == 0:
            raise InvalidRange("a bundle cannot be split into this many parts", bundle=bundle, into=into)
        return self.split_at(bundle, [bundle.low + step * part for part in range(1, into)])

    def split_at(self, bundle: Bundle, places: list[int]) -> Bundles:
        if bundle not in self.all:
            raise InvalidRange("bundle not found", bundle=bundle)
        if not places or not all(bundle.low < place < bundle.high for place in places):
            raise InvalidRange("the split point must be inside the bundle", bundle=bundle)
        return Bundles(tuple(sorted({*self.boundaries, *places})))


def equal_bundles(count: int) -> Bundles:
    """`count` bundles of equal width, as a new namespace gets them."""
    if not 1 <= count <= HASH_MAX:
        raise InvalidRange("a namespace must have at least one bundle", count=count)
    step = (1 << 32) // count
    return Bundles((*(step * index for index in range(count)), HASH_MAX))


def boundary_text(boundary: int) -> str:
    return f"0x{boundary:08x}"


def bundle_from_text(text: str) -> Bundle:
    """The inverse of `str(bundle)`, for paths and REST routes."""
    low, _, high = text.partition("_")
    try:
        bundle = Bundle(int(low, 16), int(high, 16))
    except ValueError:
        raise InvalidRange("a bundle must be written as 0x00000000_0xffffffff", text=text) from None
    if str(bundle) != text.lower() or not 0 <= bundle.low < bundle.high <= HASH_MAX:
        raise InvalidRange("a bundle must be written as 0x00000000_0xffffffff", text=text)
    return bundle
