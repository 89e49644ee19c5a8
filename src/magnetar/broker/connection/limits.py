"""How many connections each door of the broker may hold.

A connection is a file descriptor, and so is every file of the journal: a broker whose connections have taken the last
one cannot begin the next file and must stop. Here the system's number is shared out, so that whoever opens connections
without end is refused while everybody else is served. It decides and closes nothing itself.
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
    """At once; 0 is no limit."""

    clients: int = 0
    web: int = 0


def reason(error: OSError) -> str:
    """Why an address cannot be listened on, without the address: the loop's own words repeat it."""
    return os.strerror(error.errno) if error.errno else str(error)


class RefusalLog:
    """What the log says of connections that are refused: the first one at once, then in each `round` of housekeeping
    how many more there were. Whoever comes again and again does not fill the disk that way.
    """

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
    """Why the newest of these connections, from `address`, cannot stay."""
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
    """A quarter stays for files, an eighth at most goes to REST, the rest to clients."""
    kept = max(DESCRIPTORS_KEPT_MIN, descriptors // 4)
    web = max(1, min(HTTP_CONNECTIONS_MAX, descriptors // 8))
    return ConnectionLimits(clients=max(1, descriptors - kept - web), web=web)
