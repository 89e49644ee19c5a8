"""The asyncio client: `async with magnetar.aio.Client("pulsar://localhost:6650") as client: ...`.

This module only maps names: each class is imported at its first use, so a program that only produces does not import
the REST client. The classes are documented in their own modules in `magnetar.client`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magnetar.client.admin.clients import AsyncAdmin as Admin
    from magnetar.client.client import Client
    from magnetar.client.consumer.consumer import Consumer
    from magnetar.client.consumer.reader import Reader
    from magnetar.client.consumer.scalable.checkpoint.consumer import CheckpointConsumer
    from magnetar.client.consumer.scalable.queue.consumer import QueueConsumer
    from magnetar.client.consumer.scalable.stream.consumer import StreamConsumer
    from magnetar.client.consumer.table_view import TableView
    from magnetar.client.producer.producer import Producer

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
    "Admin": ("magnetar.client.admin.clients", "AsyncAdmin"),
    "CheckpointConsumer": ("magnetar.client.consumer.scalable.checkpoint.consumer", "CheckpointConsumer"),
    "Client": ("magnetar.client.client", "Client"),
    "Consumer": ("magnetar.client.consumer.consumer", "Consumer"),
    "Producer": ("magnetar.client.producer.producer", "Producer"),
    "QueueConsumer": ("magnetar.client.consumer.scalable.queue.consumer", "QueueConsumer"),
    "Reader": ("magnetar.client.consumer.reader", "Reader"),
    "StreamConsumer": ("magnetar.client.consumer.scalable.stream.consumer", "StreamConsumer"),
    "TableView": ("magnetar.client.consumer.table_view", "TableView"),
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    exported = globals()[name] = getattr(import_module(home[0]), home[1])
    return exported


def __dir__() -> list[str]:
    return sorted(__all__)
