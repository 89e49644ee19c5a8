"""Magnetar: topics that split and merge under live traffic, on Apache Pulsar's wire protocol.

This module holds the version and the names that users write; each of those is imported when it is first used, so that
importing magnetar costs nothing and starts nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # what type checkers take for true; importing typing for it would cost more than all the rest

if TYPE_CHECKING:
    from magnetar import aio as aio
    from magnetar.base import errors as errors
    from magnetar.base.errors import DataLost as DataLost
    from magnetar.base.errors import MagnetarError as MagnetarError
    from magnetar.client.admin import Admin as Admin
    from magnetar.client.batch import Batching as Batching
    from magnetar.client.following import Namespace as Namespace
    from magnetar.client.message import Message as Message
    from magnetar.client.nacks import NackBackoff as NackBackoff
    from magnetar.client.producer import AccessMode as AccessMode
    from magnetar.client.producer import Compression as Compression
    from magnetar.client.receive import NoMessage as NoMessage
    from magnetar.client.schemas import Bytes as Bytes
    from magnetar.client.schemas import Json as Json
    from magnetar.client.schemas import Schema as Schema
    from magnetar.client.schemas import String as String
    from magnetar.client.subscribing import DeadLetters as DeadLetters
    from magnetar.client.subscribing import InitialPosition as InitialPosition
    from magnetar.client.subscribing import KeyShared as KeyShared
    from magnetar.client.subscribing import SubscriptionType as SubscriptionType
    from magnetar.client.sync import CheckpointConsumer as CheckpointConsumer
    from magnetar.client.sync import Client as Client
    from magnetar.client.sync import Consumer as Consumer
    from magnetar.client.sync import Producer as Producer
    from magnetar.client.sync import QueueConsumer as QueueConsumer
    from magnetar.client.sync import Reader as Reader
    from magnetar.client.sync import StreamConsumer as StreamConsumer
    from magnetar.client.sync import TableView as TableView
    from magnetar.wire.checkpoint import Checkpoint as Checkpoint
    from magnetar.wire.ids import MessageId as MessageId

__version__ = "0.1.0.dev0"

_HOMES = {
    "AccessMode": "client.producer",
    "Admin": "client.admin",
    "Batching": "client.batch",
    "Bytes": "client.schemas",
    "Checkpoint": "wire.checkpoint",
    "CheckpointConsumer": "client.sync",
    "Client": "client.sync",
    "Compression": "client.producer",
    "Consumer": "client.sync",
    "DataLost": "base.errors",
    "DeadLetters": "client.subscribing",
    "InitialPosition": "client.subscribing",
    "Json": "client.schemas",
    "KeyShared": "client.subscribing",
    "MagnetarError": "base.errors",
    "Message": "client.message",
    "MessageId": "wire.ids",
    "NackBackoff": "client.nacks",
    "Namespace": "client.following",
    "NoMessage": "client.receive",
    "Producer": "client.sync",
    "QueueConsumer": "client.sync",
    "Reader": "client.sync",
    "Schema": "client.schemas",
    "StreamConsumer": "client.sync",
    "String": "client.schemas",
    "SubscriptionType": "client.subscribing",
    "TableView": "client.sync",
}
_MODULES = {"aio": "aio", "errors": "base.errors"}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _MODULES:
        found: object = import_module(f"magnetar.{_MODULES[name]}")
    elif name in _HOMES:
        found = getattr(import_module(f"magnetar.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*_HOMES, *_MODULES, "__version__"])
