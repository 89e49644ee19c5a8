"""Brokers as REST shows them: the leader, what one owns, and the reason of a refusal."""

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


class InternalConfiguration(msgspec.Struct, frozen=True):
    metadataStoreUrl: str
    configurationMetadataStoreUrl: str
    ledgersRootPath: str
