"""The blocking client: thin wrappers of the asyncio client, which runs on one loop thread of the process.

Every call crosses to that thread and waits there; sent messages and acknowledgements cross in groups. The wrappers may
be used from any thread, but not from callbacks, which run on the loop. After a fork the child recreates each wrapped
object at its first use; it does not touch the parent's connections.
"""

from __future__ import annotations

from magnetar.client.sync.checkpoint import CheckpointConsumer
from magnetar.client.sync.client import Client
from magnetar.client.sync.consumer import Consumer, Reader, TableView
from magnetar.client.sync.producer import Producer
from magnetar.client.sync.queue import QueueConsumer
from magnetar.client.sync.stream import StreamConsumer

__all__ = [
    "CheckpointConsumer",
    "Client",
    "Consumer",
    "Producer",
    "QueueConsumer",
    "Reader",
    "StreamConsumer",
    "TableView",
]
