"""The maximum number of connections per listener of the broker.

A connection needs a file descriptor, and so does every file of the journal: if connections use all descriptors, the
broker cannot create the next file and must stop. This module divides the limit of the operating system, so that a
client which opens connections without limit is refused while other clients are served. Memory bounds their number too
(`broker/memory_shares.py`). It decides only and closes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from magnetar.base.hosts import is_loopback
from magnetar.base.limits import ADDRESS_CONNECTIONS_MAX, DESCRIPTORS_KEPT_MIN, HTTP_CONNECTIONS_MAX
from magnetar.observe.log import get
from magnetar.policy.settings import Settings

log = get("connection")


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Maximum numbers of concurrent connections; 0 means no limit."""

    clients: int = 0  # by open files
    web: int = 0
    memory: int = 0  # clients, by memory


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


class HasAddress(Protocol):
    address: str


def allowed(limits: ConnectionLimits, settings: Settings) -> dict[str, int]:
    """The numbers of connections that the broker takes, of all addresses and of one; 0: no limit."""
    most = [limits.clients, settings.number("brokerMaxConnections") or limits.memory]
    clients = min((number for number in most if number), default=0)
    return {"clients": clients, "of_address": _of_address("192.0.2.1", clients, settings), "rest": limits.web}


def _of_address(address: str, clients: int, settings: Settings) -> int:
    """Without a setting an address leaves a quarter of the places to others."""
    if explicit := settings.number("brokerMaxConnectionsPerIp"):
        return explicit
    share = clients - clients // 4
    return share if is_loopback(address) or not share else min(share, ADDRESS_CONNECTIONS_MAX)


def refusal(opened: Collection[HasAddress], address: str, limits: ConnectionLimits, settings: Settings) -> str | None:
    """The reason why the newest of these connections, from `address`, is refused."""
    if limits.clients and len(opened) > limits.clients:
        return f"the limit of open files allows {limits.clients} connections: raise it (ulimit -n)"
    limit = settings.number("brokerMaxConnections")
    if limit and len(opened) > limit:
        return f"the broker has reached its maximum of {limit} connections (brokerMaxConnections)"
    if not limit and limits.memory and len(opened) > limits.memory:
        return f"the memory of this machine allows {limits.memory} connections: brokerMaxConnections sets more"
    limit = _of_address(address, allowed(limits, settings)["clients"], settings)
    if limit and len(opened) > limit and sum(1 for other in opened if other.address == address) > limit:
        return f"{address} has reached its maximum of {limit} connections (brokerMaxConnectionsPerIp)"
    return None


def shared_out(descriptors: int) -> ConnectionLimits:
    """Divides the descriptors: a quarter for files, at most an eighth for REST, the rest for clients."""
    kept = max(DESCRIPTORS_KEPT_MIN, descriptors // 4)
    web = max(1, min(HTTP_CONNECTIONS_MAX, descriptors // 8))
    return ConnectionLimits(clients=max(1, descriptors - kept - web), web=web)
