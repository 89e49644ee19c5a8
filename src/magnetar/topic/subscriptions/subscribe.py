"""The request of a client to subscribe, as a value."""

from __future__ import annotations

from dataclasses import dataclass, field

from magnetar.base.ids import Position
from magnetar.topic.subscriptions.consumer import KeyShared


@dataclass(frozen=True, slots=True)
class Subscribe:
    subscription: str
    kind: int  # the wire's SubType
    consumer_id: int
    consumer_name: str
    priority: int = 0
    durable: bool = True
    earliest: bool = False  # where a new subscription starts that names no start; else behind the last message
    start: Position | None = None  # readers: the first entry wanted
    rollback_s: int = 0  # readers: that far back from now instead
    key_shared: KeyShared | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    epoch: int = -1
    creates: bool = True  # a missing subscription is created, if the policies allow it
