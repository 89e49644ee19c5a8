"""The blocking client: thin faces over the asyncio client, which runs on one loop thread of the process.

Every call crosses to that thread and waits there; messages to be sent and acknowledgements cross many at a time. The
faces may be used from any thread, but not from callbacks, which run on the loop. After a fork each face is made again
in the child, at its first use, from what it was made of; the parent's connections are not touched.
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
