"""Public helpers for people who test what they built on topics: a real broker in your process, in a fraction of a
second.

    from magnetar.testing import broker

    with broker() as b:
        client = pulsar.Client(b.url)

What runs is the broker itself, its journal and its REST interface, not an imitation; it is over when the block is over,
with its threads and files. The fixtures for pytest are in `plugin`, which pytest finds by itself. Importing this costs
nothing: the broker is loaded when the first one is made. It refuses to be a production server: no signals, no log
configuration, one directory that is gone afterwards unless you give it yours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magnetar.testing.brokers import AsyncBroker as AsyncBroker
    from magnetar.testing.brokers import AsyncClock as AsyncClock
    from magnetar.testing.brokers import Broker as Broker
    from magnetar.testing.brokers import Clock as Clock
    from magnetar.testing.brokers import broker as broker

__all__ = ["AsyncBroker", "AsyncClock", "Broker", "Clock", "broker"]


def __getattr__(name: str) -> object:
    if name in __all__:
        import importlib

        return getattr(importlib.import_module("magnetar.testing.brokers"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
