"""Magnetar: topics that split and merge under live traffic, on Apache Pulsar's wire protocol.

    import magnetar

    with magnetar.Client("pulsar://localhost:6650") as client:
        with client.create_producer("orders") as producer:
            producer.send(b"an order", key="customer-1")

Client               connects to brokers; makes everything below. `magnetar.aio.Client` is the same for asyncio.
Producer             sends messages: `Client.create_producer`.
Consumer             receives messages of plain topics: `Client.subscribe`.
StreamConsumer       receives a scalable topic, every key in order: `Client.stream_consumer`.
QueueConsumer        shares the messages of a scalable topic with others: `Client.queue_consumer`.
CheckpointConsumer   reads a scalable topic from a checkpoint of your own: `Client.checkpoint_consumer`.
Reader, TableView    read a topic without a subscription: `Client.create_reader`, `Client.create_table_view`.
Message, MessageId   a received message, and its position.
Lag, Hold, Plan      the backlog of a consumer, the messages kept for a reader, and the readable ranges of a topic.
Bytes, String, Json, Avro  schemas: how values become messages.
Admin                manages tenants, namespaces, topics and subscriptions over REST.
errors               every error; `MagnetarError` is the root.

The options of each are in docs/CLIENT.md and in `help(magnetar.Client)`. Each name is imported at its first use:
`import magnetar` loads no other module and starts no thread.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers treat it as True; importing typing would take longer than the rest of the module

if TYPE_CHECKING:
    from magnetar import aio as aio
    from magnetar import errors as errors
    from magnetar.base.errors import DataLost as DataLost
    from magnetar.base.errors import MagnetarError as MagnetarError
    from magnetar.client.admin.clients import Admin as Admin
    from magnetar.client.avro.schema import Avro as Avro
    from magnetar.client.batch_read.hold import Hold as Hold
    from magnetar.client.batch_read.plan import Plan as Plan
    from magnetar.client.consumer.ack.nacks import NackBackoff as NackBackoff
    from magnetar.client.consumer.config import DeadLetters as DeadLetters
    from magnetar.client.consumer.config import InitialPosition as InitialPosition
    from magnetar.client.consumer.config import KeyShared as KeyShared
    from magnetar.client.consumer.config import SegmentsChanged as SegmentsChanged
    from magnetar.client.consumer.config import SubscriptionType as SubscriptionType
    from magnetar.client.consumer.receive.waiters import NoMessage as NoMessage
    from magnetar.client.consumer.scalable.namespace.follower import Namespace as Namespace
    from magnetar.client.lag import Lag as Lag
    from magnetar.client.message import Message as Message
    from magnetar.client.producer.batch import Batching as Batching
    from magnetar.client.producer.producer import AccessMode as AccessMode
    from magnetar.client.producer.producer import Compression as Compression
    from magnetar.client.schema import Bytes as Bytes
    from magnetar.client.schema import Json as Json
    from magnetar.client.schema import Schema as Schema
    from magnetar.client.schema import String as String
    from magnetar.client.sync import CheckpointConsumer as CheckpointConsumer
    from magnetar.client.sync import Client as Client
    from magnetar.client.sync import Consumer as Consumer
    from magnetar.client.sync import Producer as Producer
    from magnetar.client.sync import QueueConsumer as QueueConsumer
    from magnetar.client.sync import Reader as Reader
    from magnetar.client.sync import StreamConsumer as StreamConsumer
    from magnetar.client.sync import TableView as TableView
    from magnetar.wire.ids import MessageId as MessageId
    from magnetar.wire.scalable.checkpoint import Checkpoint as Checkpoint

__version__ = "0.1.0.dev0"

__all__ = [
    "AccessMode",
    "Admin",
    "Avro",
    "Batching",
    "Bytes",
    "Checkpoint",
    "CheckpointConsumer",
    "Client",
    "Compression",
    "Consumer",
    "DataLost",
    "DeadLetters",
    "Hold",
    "InitialPosition",
    "Json",
    "KeyShared",
    "Lag",
    "MagnetarError",
    "Message",
    "MessageId",
    "NackBackoff",
    "Namespace",
    "NoMessage",
    "Plan",
    "Producer",
    "QueueConsumer",
    "Reader",
    "Schema",
    "SegmentsChanged",
    "StreamConsumer",
    "String",
    "SubscriptionType",
    "TableView",
    "__version__",
    "aio",
    "errors",
]

_HOMES = {
    "AccessMode": "client.producer.producer",
    "Admin": "client.admin.clients",
    "Avro": "client.avro.schema",
    "Batching": "client.producer.batch",
    "Bytes": "client.schema",
    "Checkpoint": "wire.scalable.checkpoint",
    "CheckpointConsumer": "client.sync",
    "Client": "client.sync",
    "Compression": "client.producer.producer",
    "Consumer": "client.sync",
    "DataLost": "base.errors",
    "DeadLetters": "client.consumer.config",
    "Hold": "client.batch_read.hold",
    "InitialPosition": "client.consumer.config",
    "Json": "client.schema",
    "KeyShared": "client.consumer.config",
    "Lag": "client.lag",
    "MagnetarError": "base.errors",
    "Message": "client.message",
    "MessageId": "wire.ids",
    "NackBackoff": "client.consumer.ack.nacks",
    "Namespace": "client.consumer.scalable.namespace.follower",
    "NoMessage": "client.consumer.receive.waiters",
    "Plan": "client.batch_read.plan",
    "Producer": "client.sync",
    "QueueConsumer": "client.sync",
    "Reader": "client.sync",
    "Schema": "client.schema",
    "SegmentsChanged": "client.consumer.config",
    "StreamConsumer": "client.sync",
    "String": "client.schema",
    "SubscriptionType": "client.consumer.config",
    "TableView": "client.sync",
}
_MODULES = ("aio", "errors")


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _MODULES:
        exported: object = import_module(f"magnetar.{name}")
    elif name in _HOMES:
        exported = getattr(import_module(f"magnetar.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = exported
    return exported


def __dir__() -> list[str]:
    return sorted(__all__)
