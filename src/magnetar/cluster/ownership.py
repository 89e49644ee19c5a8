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
    """Nobody serves the bundle yet: this broker is the one to ask for it."""

    broker: Broker


class Ownership(Protocol):
    me: Broker

    @property
    def steady(self) -> bool:
        """Whether new things may be begun: loads, acquisitions, ledger rolls. What is there is served either way."""
        ...

    async def start(self, me: Broker) -> None:
        """From now on others find this broker under these addresses."""
        ...

    async def owner(
        self, namespace: NamespaceName, bundle: Bundle, *, authoritative: bool = False
    ) -> Broker | Candidate:
        """Who serves the bundle now, after this broker took it if it should. `authoritative`: whoever sent the client
        chose this broker, so a bundle that nobody has is taken here. NotReady: ask again."""
        ...

    async def known(self, namespace: NamespaceName, bundle: Bundle) -> Broker | None:
        """Who serves the bundle now; None: nobody. Takes nothing. NotReady: nobody knows."""
        ...

    async def owns(self, namespace: NamespaceName, bundle: Bundle) -> bool:
        """Whether a topic of it may be loaded here, as the store says now. NotReady: nobody knows."""
        ...

    async def release(self, namespace: NamespaceName, bundle: Bundle, empty: Callable[[], Awaitable[None]]) -> None:
        """Unload what is loaded of it with `empty`, and let another broker have it; nothing is loaded meanwhile."""
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
        """Let go of everything that is held."""
        ...


class SoleOwnership:
    """One broker: it owns every bundle of every namespace that exists, and asks nobody."""

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
        """Nobody else could take it: it stays."""
        await empty()

    def held(self) -> list[tuple[NamespaceName, Bundle]]:
        return []

    async def brokers(self) -> list[Broker]:
        return [self.me]

    async def leave(self) -> None:
        """Nobody knows of it."""

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
