"""Subscriptions of a migrated topic, under the old name: seeks the subscription of the scalable topic, or refuses.

A migrated topic is a sealed part of a scalable topic. A cursor that is moved on that part alone is outside the plan of
its subscription, and a consumer that finished the part never returns to it (H-D7). So a request under the old name
seeks the subscription on all segments. A request that scalable topics do not support, or that names one partition, is
refused with the command to use instead. This module trusts the record of the topic, not the loaded topics: the broker
that leads the topic may not serve that part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from magnetar.admin.request import Request
from magnetar.base.errors import Conflict, Misuse, Moved
from magnetar.base.ids import AFTER_ALL, BEFORE_ALL, Position
from magnetar.base.names import Domain, TopicName
from magnetar.client.documents.topics import ResetCursor
from magnetar.scalable.machines.seek_target import Target, TargetKind, at_places

if TYPE_CHECKING:
    from magnetar.broker.node import Node
    from magnetar.scalable.record.record import Record


async def sought(node: Node, request: Request, where: Callable[[Record], Target]) -> bool:
    """Whether the topic was migrated. If so, its subscription is moved on all segments."""
    name, subscription = request.topic, request.parts["subscription"]
    scalable = await _became(node, name)
    if scalable is None:
        return False
    if name.is_partition:
        raise _refusal(name, f"a single part cannot be moved. {_instead(request)}")
    try:
        await node.scalable.seek(name.scalable, subscription, where(scalable))
    except Moved as error:
        raise Moved(error.what, **{**error.facts, "resource": str(name)}) from error  # asked there by this same path
    return True


async def refuse(node: Node, request: Request, why: str, *, moves: bool = True) -> None:
    """Raises Conflict if the topic was migrated and scalable topics do not support the operation. `moves`: a seek is an
    alternative, and the error names it."""
    if await _became(node, request.topic) is not None:
        raise _refusal(request.topic, f"{why}. {_instead(request)}" if moves else why)


def place(request: Request) -> Callable[[Record], Target]:
    """The target of a request that names a message: the segments behind the part of that message are read from their
    start."""

    def found(record: Record) -> Target:
        target, name = request.need(ResetCursor), request.topic
        position = Position(target.ledgerId, target.entryId)
        if position in (BEFORE_ALL, AFTER_ALL):
            return Target(TargetKind.EARLIEST if position == BEFORE_ALL else TargetKind.LATEST)
        for segment in record.layout.segments:
            if segment.legacy_topic == str(name) and segment.ending is not None and position <= segment.ending.end:
                return at_places({segment.id: Position(position.ledger, position.entry + target.excluded)})
        words = f"{name} was migrated, and the message id is not from before the migration: name its segment"
        raise Misuse(
            f"{words} with `magnetar subscription seek {name.scalable} SUBSCRIPTION --to SEGMENT/LEDGER:ENTRY`"
        )

    return found


async def _became(node: Node, name: TopicName) -> Record | None:
    """The record of the scalable topic that contains this topic. Conflict: the migration is in progress."""
    record = await node.scalable.read(name.scalable) if name.domain is Domain.PERSISTENT else None
    if record is None or not any(one.legacy_topic for one in record.layout.segments):
        return None
    if record.is_plain and record.is_migrating:
        raise Conflict(f"{name.partitioned_name} is being migrated to {name.scalable}: try again later")
    return None if record.is_plain else record


def _refusal(name: TopicName, why: str) -> Conflict:
    return Conflict(f"{name.partitioned_name} was migrated: its subscriptions belong to {name.scalable}; {why}")


def _instead(request: Request) -> str:
    subscription = request.parts.get("subscription", "SUBSCRIPTION")
    command = f"magnetar subscription seek {request.topic.scalable} {subscription} --to TIME"
    return f"Use `{command}` or `magnetar subscription clear`"
