"""The limits of one batch over all its topics and segments, and their fair distribution. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one batch; None: no limit. With fewer than `messages_min` messages, no batch is due yet."""

    messages: int | None = None
    bytes: int | None = None
    messages_min: int = 0


UNLIMITED = Limits()


class Budget:
    """The remaining and used amounts of a batch in all its topics."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.messages = 0
        self.bytes = 0

    def left(self) -> tuple[int | None, int | None]:
        messages, bytes = self.limits.messages, self.limits.bytes
        return (
            None if messages is None else max(0, messages - self.messages),
            None if bytes is None else max(0, bytes - self.bytes),
        )


def fair_shares(demands: Sequence[int], limit: int | None) -> list[int | None]:
    """Equal shares. A share that is not used completely is distributed to the others."""
    if limit is None:
        return [None] * len(demands)
    shares = [0] * len(demands)
    left = limit
    open = sorted(range(len(demands)), key=lambda index: demands[index])
    for count, index in enumerate(open):
        shares[index] = min(demands[index], left // (len(open) - count))
        left -= shares[index]
    return list(shares)
