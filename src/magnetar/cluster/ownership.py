"""The ownership of bundles: the contract for lookups, and the implementation of a single broker, which owns everything.

A cluster implements the same contract with locks (`cluster/lock_ownership.py`). A result may be outdated when it is
returned: fencing protects the writes of a topic, not this contract.
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
    """The addresses of one listener; "" means none."""

    broker: str = ""
    broker_tls: str = ""
    http: str = ""
    https: str = ""


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker as others see it. `urls` are for clients that name no listener."""

    id: str  # advertised host:web port
    urls: Urls
    listeners: Mapping[str, Urls] = field(default_factory=dict)

    def at(self, listener: str) -> Urls | None:
        """The addresses of a listener; None: the broker does not have it."""
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
        """Registers this broker under these addresses."""
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

    async def minds(self, namespace: NamespaceName, bundle: Bundle) -> bool:
        """Whether the periodic work of the bundle belongs to this broker: to its owner, or without one to the broker
        that every broker chooses. The answer comes from memory, as a rule, and acquires nothing. NotReady: the owner is
        unknown."""
        ...

    async def is_chosen(self, key: str) -> bool:
        """Whether every broker that sees the same live brokers chooses this one for the key."""
        ...

    async def owns(self, namespace: NamespaceName, bundle: Bundle) -> bool:
        """Whether this broker may load a topic of the bundle, as the store says now. NotReady: the owner is unknown."""
        ...

    async def release(self, namespace: NamespaceName, bundle: Bundle, empty: Callable[[], Awaitable[None]]) -> None:
        """Unloads the topics of the bundle with `empty` and releases it to other brokers; nothing is loaded during
        this."""
        ...

    def held(self) -> list[tuple[NamespaceName, Bundle]]:
        """The bundles that this broker holds by a lock, in the order of acquisition."""
        ...

    async def brokers(self) -> list[Broker]:
        """The live brokers, this one included, ordered by id."""
        ...

    async def leader(self) -> Broker:
        """The broker that all brokers have elected. NotReady: it is unknown now."""
        ...

    async def leave(self) -> None:
        """Stops acquiring bundles and being a candidate. Held bundles are kept."""
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

    async def minds(self, namespace: NamespaceName, bundle: Bundle) -> bool:
        return True

    async def is_chosen(self, key: str) -> bool:
        return True

    async def owns(self, namespace: NamespaceName, bundle: Bundle) -> bool:
        return True

    async def release(self, namespace: NamespaceName, bundle: Bundle, empty: Callable[[], Awaitable[None]]) -> None:
        """Only unloads the topics: a single broker keeps the bundle, because no other broker can acquire it."""
        await empty()

    def held(self) -> list[tuple[NamespaceName, Bundle]]:
        return []

    async def brokers(self) -> list[Broker]:
        return [self.me]

    async def leader(self) -> Broker:
        return self.me

    async def leave(self) -> None:
        """Does nothing: a single broker has no registration."""

    async def close(self) -> None:
        """Does nothing: a single broker holds no locks."""


def advertised(text: str) -> dict[str, Urls]:
    """`advertisedListeners`: comma-separated `name:pulsar://host:port`, each name once per scheme."""
    listeners: dict[str, Urls] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, colon, url = item.partition(":")
        scheme = url.partition("://")[0]
        fields = {"pulsar": "broker", "pulsar+ssl": "broker_tls", "http": "http", "https": "https"}
        if not colon or not name.strip() or scheme not in fields or not url.partition("://")[2]:
            raise Misuse("advertisedListeners must be name:pulsar://host:port, separated by commas", found=item)
        before = listeners.get(name.strip(), Urls())
        urls = {"broker": before.broker, "broker_tls": before.broker_tls, "http": before.http, "https": before.https}
        listeners[name.strip()] = Urls(**{**urls, fields[scheme]: url})
    return listeners
