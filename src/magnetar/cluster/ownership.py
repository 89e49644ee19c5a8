"""Who serves a bundle. The contract that lookups ask, and the answer of a broker that is alone: everything is here.

A cluster puts locks behind the same contract. An answer may be stale the moment it is given: what a topic writes is
guarded by fencing, never by this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from magnetar.base.bundles import Bundle
from magnetar.base.errors import Misuse
from magnetar.base.names import NamespaceName


@dataclass(frozen=True, slots=True)
class Urls:
    """How one listener is reached; "" where it is not."""

    broker: str = ""
    broker_tls: str = ""
    http: str = ""
    https: str = ""


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker as others see it. `urls` is what a client without a listener's name gets."""

    id: str  # advertised host:web port
    urls: Urls
    listeners: Mapping[str, Urls] = field(default_factory=dict)

    def at(self, listener: str) -> Urls | None:
        """None: it has no such listener."""
        return self.urls if not listener else self.listeners.get(listener)


class Ownership(Protocol):
    me: Broker

    async def owner(self, namespace: NamespaceName, bundle: Bundle) -> Broker | None:
        """Who serves the bundle now; None: nobody yet, and nobody may be asked to."""
        ...

    async def owns(self, namespace: NamespaceName, bundle: Bundle) -> bool: ...

    async def release(self, namespace: NamespaceName, bundle: Bundle) -> None:
        """Let another broker have it."""
        ...

    async def close(self) -> None: ...


class Alone:
    """One broker: it owns every bundle of every namespace that exists."""

    def __init__(self, me: Broker) -> None:
        self.me = me

    async def owner(self, namespace: NamespaceName, bundle: Bundle) -> Broker | None:
        return self.me

    async def owns(self, namespace: NamespaceName, bundle: Bundle) -> bool:
        return True

    async def release(self, namespace: NamespaceName, bundle: Bundle) -> None:
        """Nobody else could take it: it stays."""

    async def close(self) -> None:
        """Nothing is held."""


def advertised(text: str) -> dict[str, Urls]:
    """`advertisedListeners`: `name:pulsar://host:port` with commas between them, a name once per scheme."""
    found: dict[str, Urls] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, colon, url = item.partition(":")
        scheme = url.partition("://")[0]
        fields = {"pulsar": "broker", "pulsar+ssl": "broker_tls", "http": "http", "https": "https"}
        if not colon or not name.strip() or scheme not in fields or not url.partition("://")[2]:
            raise Misuse("advertisedListeners is name:pulsar://host:port, with commas between them", found=item)
        before = found.get(name.strip(), Urls())
        known = {"broker": before.broker, "broker_tls": before.broker_tls, "http": before.http, "https": before.https}
        found[name.strip()] = Urls(**{**known, fields[scheme]: url})
    return found
