"""Documents of brokers: the leader, the owned bundles, and the reason of a refusal."""

from __future__ import annotations

import msgspec


class Reason(msgspec.Struct, frozen=True):
    """The body of every refusal."""

    reason: str


class LeaderBroker(msgspec.Struct, frozen=True):
    serviceUrl: str
    brokerId: str = ""


class OwnedNamespace(msgspec.Struct, frozen=True):
    broker_assignment: str = "shared"
    is_controlled: bool = False
    is_active: bool = True


class ConnectionInfo(msgspec.Struct, frozen=True):
    """A connected client. `connectedSince` is in milliseconds since 1970; `congested`: it reads more slowly than the
    broker writes to it."""

    id: int
    address: str
    clientVersion: str = ""
    protocolVersion: int = 0
    connectedSince: int = 0
    producers: int = 0
    consumers: int = 0
    watches: int = 0
    congested: bool = False


class InternalConfiguration(msgspec.Struct, frozen=True):
    metadataStoreUrl: str
    configurationMetadataStoreUrl: str
    ledgersRootPath: str
