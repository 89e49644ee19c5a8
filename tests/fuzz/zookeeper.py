"""Bytes of a server that is not a ZooKeeper, or a broken one: frames, replies and the first answer of a connection."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from magnetar.base.errors import Corrupt
from magnetar.metadata.zookeeper import jute, messages

FRAME_BYTES_MAX = 1 << 16
BODIES: tuple[Callable[[jute.Reader], object], ...] = (
    messages.node_event,
    messages.node_data,
    messages.node_stat,
    messages.created,
    jute.Reader.texts,
    jute.Reader.buffer,
)


def zookeeper(data: bytes) -> None:
    with suppress(Corrupt):
        messages.connect_response(data)
    with suppress(Corrupt):
        messages.reply(data)
    for body in BODIES:
        reader = jute.Reader(data)
        with suppress(Corrupt):
            body(reader)
        assert 0 <= reader.left <= len(data)
    with suppress(Corrupt):
        frames, size = messages.split(data, FRAME_BYTES_MAX)
        assert b"".join(messages.frame(frame) for frame in frames) == data[:size]
        for frame in frames:
            with suppress(Corrupt):
                messages.reply(frame)


def seeds() -> list[bytes]:
    """As a server of version 3.9.5 sent them."""
    return [
        bytes.fromhex("0000000000000fa001000023d05f0000000000105356b61ce4844a66e9385063cdd9b77600"),
        bytes.fromhex("ffffffff0000000000000002000000000000000100000003000000022f74"),
        bytes.fromhex("00000005000000000000000300000000000000010000000c652d30303030303030303030"),
        bytes.fromhex("ffffffff00000000000000020000000000000002000001a1f17296c7000001a1f17296c7")
        + bytes.fromhex("000000000000000000000000000000000000000000000000000000000000000000000002"),
        messages.request(1, messages.Operation.GET, messages.read("/a")),
    ]
