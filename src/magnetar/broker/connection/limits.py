"""The maximum number of connections per listener of the broker.

A connection needs a file descriptor, and so does every file of the journal: if connections use all descriptors, the
broker cannot create the next file and must stop. This module divides the limit of the operating system, so that a
client which opens connections without limit is refused while other clients are served. It decides only and closes
nothing.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from magnetar.base.limits import DESCRIPTORS_KEPT_MIN, HTTP_CONNECTIONS_MAX
from magnetar.observe.log import get
from magnetar.policy.settings import Settings

log = get("connection")


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Maximum numbers of concurrent connections; 0 means no limit."""

    clients: int = 0
    web: int = 0


def reason(error: OSError) -> str:
    """The reason why an address cannot be used, without the address, which the loop's own text repeats."""
    return os.strerror(error.errno) if error.errno else str(error)


class RefusalLog:
    """The log of refused connections: it logs the first one immediately, then the number of further ones in each
    `round` of housekeeping. So a client that reconnects repeatedly does not fill the disk."""

    def __init__(self) -> None:
        self._told = False  # in this round, or the one before
        self._more = 0
        self._last = ""

    def refused(self, peer: str, reason: str) -> None:
        if self._told:
            self._more += 1
            self._last = reason
        else:
            self._told = True
            log.warning("connection_refused", peer=peer, reason=reason)

    def round(self) -> None:
        if self._more:
            log.warning("connections_refused", more=self._more, reason=self._last)
        self._told, self._more = self._more > 0, 0


class Addressed(Protocol):
    address: str


def refusal(opened: Collection[Addressed], address: str, allowed: ConnectionLimits, settings: Settings) -> str | None:
    """The reason why the newest of these connections, from `address`, is refused."""
    if allowed.clients and len(opened) > allowed.clients:
        return f"the limit of open files allows {allowed.clients} connections: raise it (ulimit -n)"
    limit = settings.number("brokerMaxConnections")
    if limit and len(opened) > limit:
        return f"the broker has reached its maximum of {limit} connections (brokerMaxConnections)"
    # Without a setting an address leaves a quarter of the places to others.
    limit = settings.number("brokerMaxConnectionsPerIp") or allowed.clients - allowed.clients // 4
    if limit and len(opened) > limit and sum(1 for other in opened if other.address == address) > limit:
        return f"{address} has reached its maximum of {limit} connections (brokerMaxConnectionsPerIp)"
    return None


def shared_out(descriptors: int) -> ConnectionLimits:
    """Divides the descriptors: a quarter for files, at most an eighth for REST, the rest for clients."""
    kept = max(DESCRIPTORS_KEPT_MIN, descriptors // 4)
    web = max(1, min(HTTP_CONNECTIONS_MAX, descriptors // 8))
    return ConnectionLimits(clients=max(1, descriptors - kept - web), web=web)
