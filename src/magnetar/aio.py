"""The asyncio client: `async with magnetar.aio.Client("pulsar://localhost:6650") as client: ...`.

Names only; each is imported when it is first used, so that whoever wants a producer does not pay for REST. What the
classes promise is said where they live, in `magnetar.client`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magnetar.client.admin import AsyncAdmin as Admin
    from magnetar.client.checkpoint import CheckpointConsumer
    from magnetar.client.client import Client
    from magnetar.client.consumer import Consumer
    from magnetar.client.producer import Producer
    from magnetar.client.queue import QueueConsumer
    from magnetar.client.reader import Reader
    from magnetar.client.stream import StreamConsumer
    from magnetar.client.tableview import TableView

__all__ = [
    "Admin",
    "CheckpointConsumer",
    "Client",
    "Consumer",
    "Producer",
    "QueueConsumer",
    "Reader",
    "StreamConsumer",
    "TableView",
]

_HOMES = {
    "Admin": ("magnetar.client.admin", "AsyncAdmin"),
    "CheckpointConsumer": ("magnetar.client.checkpoint", "CheckpointConsumer"),
    "Client": ("magnetar.client.client", "Client"),
    "Consumer": ("magnetar.client.consumer", "Consumer"),
    "Producer": ("magnetar.client.producer", "Producer"),
    "QueueConsumer": ("magnetar.client.queue", "QueueConsumer"),
    "Reader": ("magnetar.client.reader", "Reader"),
    "StreamConsumer": ("magnetar.client.stream", "StreamConsumer"),
    "TableView": ("magnetar.client.tableview", "TableView"),
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(home[0]), home[1])
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
