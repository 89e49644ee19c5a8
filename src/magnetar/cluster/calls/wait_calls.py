"""The waits of one broker at another, as values: one call stands for all of them.

A leader waits at the owners of many segments, for example until they are drained. A call for each wait would hold a
connection for each. So a broker sends one `AwaitAny` to another broker, with the changes to its waits since an earlier
call, and gets `Happened` when one of them ends. A result is repeated until a call removes it, so a lost answer loses
none. `broker/peers/wait_sync.py` contains both ends of this protocol.
"""

from __future__ import annotations

import msgspec

from magnetar.cluster.calls.topic_calls import AwaitAssignment, AwaitDrained, AwaitReceived, AwaitReleased

WaitRequest = AwaitAssignment | AwaitDrained | AwaitReceived | AwaitReleased
WAITING = (AwaitAssignment, AwaitDrained, AwaitReceived, AwaitReleased)


class Wait(msgspec.Struct, frozen=True):
    """One request that waits for an event at the owner of a topic. The calling process uses each `id` once."""

    id: int
    topic: str
    request: WaitRequest


class AwaitAny(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Answered when one of the waits of a process ends, or with no result after a time. `number`: each call has a
    higher one than the call before. `base`: the changes are relative to the waits after the call of this number; 0:
    `added` contains all waits."""

    process: str
    number: int
    base: int
    added: tuple[Wait, ...] = ()
    removed: tuple[int, ...] = ()


class WaitResult(msgspec.Struct, frozen=True):
    """`reply`: the reply that the request has as a call of its own."""

    id: int
    reply: msgspec.Raw


class Happened(msgspec.Struct, frozen=True, tag=True):
    """`known` is false if the receiver does not have the waits after the call `base`: the caller sends all waits."""

    results: tuple[WaitResult, ...] = ()
    known: bool = True
