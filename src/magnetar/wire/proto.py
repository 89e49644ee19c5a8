"""The generated protobuf messages under one short name: `from magnetar.wire.proto import pb`.

For commands, never for the path of a message: that is what `frames`, `entry` and `templates` are for.
"""

from __future__ import annotations

from magnetar.wire.generated import pulsar_pb2 as pb

__all__ = ["pb"]
