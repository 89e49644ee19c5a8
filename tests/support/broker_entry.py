"""An entry as another broker sends it to a client: its own metadata are in front of those of the producer."""

from __future__ import annotations

from struct import Struct

from magnetar.wire.proto import pb

_BLOCK = Struct(">HI")
_MAGIC = 0x0E02


def with_broker_block(data: bytes, broker: pb.BrokerEntryMetadata) -> bytes:
    encoded = broker.SerializeToString()
    return _BLOCK.pack(_MAGIC, len(encoded)) + encoded + data
