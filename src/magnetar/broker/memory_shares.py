"""The sums over all connections on a machine with little memory, and how many connections and topics it takes.

Each sum has a default for machines that have enough. With less memory it is lower in proportion, so that all sums
together stay a part of the memory, and at least an eighth, so that a small broker still serves. A process with a limit
of its own (a container) has the memory of that limit. An explicit setting is taken as it is. Half of the memory is for
all sums, loaded topics and connections together, so the number of connections follows from the rest.
"""

from __future__ import annotations

from magnetar.base.limits import (
    CONNECTION_OWN_BYTES,
    CONNECTIONS_MIN,
    LOADED_TOPIC_BYTES,
    LOADED_TOPICS_MAX,
    LOADED_TOPICS_SHARE,
    MEMORY_FIXED_BYTES,
    MEMORY_FULL_BYTES,
    MEMORY_SCALED_BYTES,
    MEMORY_SHARE_MIN,
)


def share_of(most: int, machine_bytes: int | None) -> int:
    """`most`: bytes, or another unit that takes memory. None: the memory is unknown, and taken as enough."""
    if machine_bytes is None or machine_bytes >= MEMORY_FULL_BYTES:
        return most
    return max(most // MEMORY_SHARE_MIN, most * machine_bytes // MEMORY_FULL_BYTES)


def loaded_topics_max(machine_bytes: int | None) -> int:
    if machine_bytes is None:
        return LOADED_TOPICS_MAX
    return min(LOADED_TOPICS_MAX, machine_bytes // LOADED_TOPICS_SHARE // LOADED_TOPIC_BYTES)


def connections_max(machine_bytes: int | None) -> int:
    """The number of connections for which half of the memory has room, beside all sums. 0: the memory is unknown."""
    if machine_bytes is None:
        return 0
    sums = MEMORY_FIXED_BYTES + share_of(MEMORY_SCALED_BYTES, machine_bytes)
    left = machine_bytes // 2 - sums - loaded_topics_max(machine_bytes) * LOADED_TOPIC_BYTES
    return max(CONNECTIONS_MIN, left // CONNECTION_OWN_BYTES)
