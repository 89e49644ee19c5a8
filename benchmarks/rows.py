"""The rows of `benchmarks.spark`, as expressions of Spark: the same for both sides."""

from __future__ import annotations

from typing import NamedTuple

KEYS = 1000
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


def column(shape: Shape) -> tuple[str, str]:
    """Key and value as expressions over `id`."""
    size = f"cast({shape.size // 2} + id * {STRIDE} % {shape.size} as int)" if shape.uneven else str(shape.size)
    return (
        f"cast(concat('key-', id % {KEYS}) as binary) as key",
        f"cast(rpad(cast(id as string), {size}, 'x') as binary) as value",
    )
