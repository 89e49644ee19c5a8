"""The generated protobuf messages under one short name: `from magnetar.wire.proto import pb`.

For commands, never for the path of a message: that is what `frames`, `entry` and `broker_frames` are for.
"""

from __future__ import annotations

from magnetar.wire.generated import pulsar_pb2 as pb

__all__ = ["pb", "text"]


def text(value: str | bytes) -> str:
    """A string field of a peer as text: protobuf returns bytes if it is not UTF-8."""
    return value if isinstance(value, str) else value.decode(errors="replace")
