"""Who serves a bundle. The contract that lookups ask, and the answer of a broker that is alone: everything is here.

A cluster puts locks behind the same contract (`cluster/lock_ownership.py`). An answer may be stale the moment it is
given: what a topic writes is guarded by fencing, never by this.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
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


@dataclass(frozen=True, slots=True)
class Candidate:
    """The bundle has no owner yet: the client must ask this broker for it."""

    broker: Broker


class Ownership(Protocol):
    me: Broker

    @property
    def steady(self) -> bool:
        """Whether loads, acquisitions and ledger rollovers may start. Loaded topics are served in either case."""
        ...

    async def start(self, me: Broker) -> None:
        """From now on others find this broker under these addresses."""
        ...

    async def owner(
        self, namespace: NamespaceName, bundle: Bundle, *, authoritative: bool = False
    ) -> Broker | Candidate:
        """The broker that serves the bundle; this broker acquires it first if it should. `authoritative`: the broker
        that redirected the client chose this one, so a bundle without an owner is acquired here. NotReady: try again.
        """
        ...

    async def known(self, namespace: NamespaceName, bundle: Bundle) -> Broker | None:
        """The broker that serves the bundle; None: no broker does. Acquires nothing. NotReady: the owner is unknown."""
        ...

    async def owns(self, namespace: NamespaceName, bundle: Bundle) -> bool:
        """Whether this broker may load a topic of the bundle, as the store says now. NotReady: the owner is unknown."""
        ...

    async def release(self, namespace: NamespaceName, bundle: Bundle, empty: Callable[[], Awaitable[None]]) -> None:
        """Unloads the topics of the bundle with `empty` and releases it to other brokers; nothing is loaded during
        this."""
        ...

    def held(self) -> list[tuple[NamespaceName, Bundle]]:
        """Bundles that are this broker's by a lock, in the order of taking."""
        ...

    async def brokers(self) -> list[Broker]:
        """Those that live, this one among them, by id."""
        ...

    async def leave(self) -> None:
        """Take no bundle any more and be no candidate of others. What is held stays held."""
        ...

    async def close(self) -> None:
        """Releases all bundles."""
        ...


class SoleOwnership:
    """A single broker: it owns every bundle of every existing namespace, without a store."""

    steady = True

    def __init__(self, me: Broker) -> None:
        self.me = me

    async def start(self, me: Broker) -> None:
        self.me = me

    async def owner(
        self, namespace: NamespaceName, bundle: Bundle, *, authoritative: bool = False
    ) -> Broker | Candidate:
        return self.me

    async def known(self, namespace: NamespaceName, bundle: Bundle) -> Broker | None:
        return self.me

    async def owns(self, namespace: NamespaceName, bundle: Bundle) -> bool:
        return True

    async def release(self, namespace: NamespaceName, bundle: Bundle, empty: Callable[[], Awaitable[None]]) -> None:
        """Only unloads the topics: a single broker keeps the bundle, because no other broker can acquire it."""
        await empty()

    def held(self) -> list[tuple[NamespaceName, Bundle]]:
        return []

    async def brokers(self) -> list[Broker]:
        return [self.me]

    async def leave(self) -> None:
        """Does nothing: a single broker has no registration."""

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
            raise Misuse("advertisedListeners must be name:pulsar://host:port, separated by commas", found=item)
        before = found.get(name.strip(), Urls())
        known = {"broker": before.broker, "broker_tls": before.broker_tls, "http": before.http, "https": before.https}
        found[name.strip()] = Urls(**{**known, fields[scheme]: url})
    return found
