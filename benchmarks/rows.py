"""The rows of `benchmarks.spark`: the same for whoever makes them, in Python or as an expression of Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

KEYS = [f"key-{number}" for number in range(1000)]
STRIDE = 7919  # prime to everything below: sizes come in no order


class Shape(NamedTuple):
    """`uneven`: sizes from half to one and a half."""

    rows: int
    size: int
    uneven: bool = False

    @property
    def name(self) -> str:
        return f"about {self.size} B" if self.uneven else f"{self.size} B"

    @property
    def slug(self) -> str:
        return f"{self.size}{'-uneven' if self.uneven else ''}"


def values(shape: Shape) -> Iterator[bytes]:
    for number in range(shape.rows):
        size = shape.size // 2 + number * STRIDE % shape.size if shape.uneven else shape.size
        yield b"%d" % number + b"x" * (size - len(str(number)))


def column(shape: Shape) -> tuple[str, str]:
    """The same as expressions over `id`: key and value."""
    size = f"cast({shape.size // 2} + id * {STRIDE} % {shape.size} as int)" if shape.uneven else str(shape.size)
    return (
        f"cast(concat('key-', id % {len(KEYS)}) as binary) as key",
        f"cast(rpad(cast(id as string), {size}, 'x') as binary) as value",
    )
