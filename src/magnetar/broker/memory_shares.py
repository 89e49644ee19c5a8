"""The sums over all connections on a machine with little memory.

Each sum has a default for machines that have enough. With less memory it is lower in proportion, so that all sums
together stay a part of the memory, and at least an eighth, so that a small broker still serves. A process with a limit
of its own (a container) has the memory of that limit. An explicit setting is taken as it is.
"""

from __future__ import annotations

from magnetar.base.limits import MEMORY_FULL_BYTES, MEMORY_SHARE_MIN


def share_of(most: int, machine_bytes: int | None) -> int:
    """`most`: bytes, or another unit that takes memory. None: the memory is unknown, and taken as enough."""
    if machine_bytes is None or machine_bytes >= MEMORY_FULL_BYTES:
        return most
    return max(most // MEMORY_SHARE_MIN, most * machine_bytes // MEMORY_FULL_BYTES)
