"""Public helpers to test applications: a real broker in your process, in a fraction of a second.

from magnetar.testing import broker

with broker() as b:
    client = pulsar.Client(b.url)

It runs the real broker with its journal and its REST interface, not an imitation. The end of the block also ends its
threads and removes its files. The fixtures for pytest are in `plugin`, which pytest finds automatically. The import is
cheap: the broker is loaded when the first one is created. It is not a production server: no signal handling, no log
configuration, and its directory is removed afterwards unless you pass your own.

`OrderChecker` compares sent and received messages, on any broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magnetar.testing.brokers import AsyncBroker as AsyncBroker
    from magnetar.testing.brokers import AsyncClock as AsyncClock
    from magnetar.testing.brokers import Broker as Broker
    from magnetar.testing.brokers import Clock as Clock
    from magnetar.testing.brokers import broker as broker
    from magnetar.testing.clusters import AsyncCluster as AsyncCluster
    from magnetar.testing.clusters import Cluster as Cluster
    from magnetar.testing.clusters import cluster as cluster
    from magnetar.testing.order import OrderChecker as OrderChecker
    from magnetar.testing.order import OrderFinding as OrderFinding
    from magnetar.testing.order import SendOutcome as SendOutcome

_MODULES = {
    "AsyncBroker": "brokers",
    "AsyncClock": "brokers",
    "AsyncCluster": "clusters",
    "Broker": "brokers",
    "Clock": "brokers",
    "Cluster": "clusters",
    "OrderChecker": "order",
    "OrderFinding": "order",
    "SendOutcome": "order",
    "broker": "brokers",
    "cluster": "clusters",
}
__all__ = [
    "AsyncBroker",
    "AsyncClock",
    "AsyncCluster",
    "Broker",
    "Clock",
    "Cluster",
    "OrderChecker",
    "OrderFinding",
    "SendOutcome",
    "broker",
    "cluster",
]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        import importlib

        return getattr(importlib.import_module(f"magnetar.testing.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
