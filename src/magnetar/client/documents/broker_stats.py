"""The load report of one broker as REST shows it, field by field as Pulsar's tools read it.

Values that this version does not measure are 0, and their limits are negative.
"""

from __future__ import annotations

import msgspec


class ResourceUsage(msgspec.Struct, frozen=True):
    usage: float = 0.0
    limit: float = -1.0


class BundleLoad(msgspec.Struct, kw_only=True):
    """The load of one bundle, from its loaded topics."""

    msgRateIn: float = 0.0
    msgThroughputIn: float = 0.0
    msgRateOut: float = 0.0
    msgThroughputOut: float = 0.0
    consumerCount: int = 0
    producerCount: int = 0
    topics: int = 0
    cacheSize: int = 0


class LoadReport(msgspec.Struct, kw_only=True):
    """`bundles` are those with a loaded topic, and those that the broker holds by a lock."""

    brokerId: str
    webServiceUrl: str
    pulsarServiceUrl: str
    persistentTopicsEnabled: bool = True
    nonPersistentTopicsEnabled: bool = True
    cpu: ResourceUsage = ResourceUsage()
    memory: ResourceUsage = ResourceUsage()
    directMemory: ResourceUsage = ResourceUsage()
    bandwidthIn: ResourceUsage = ResourceUsage()
    bandwidthOut: ResourceUsage = ResourceUsage()
    msgThroughputIn: float = 0.0
    msgThroughputOut: float = 0.0
    msgRateIn: float = 0.0
    msgRateOut: float = 0.0
    lastUpdate: int = 0
    lastStats: dict[str, BundleLoad] = {}
    numTopics: int = 0
    numBundles: int = 0
    numConsumers: int = 0
    numProducers: int = 0
    bundles: list[str] = []
    lastBundleGains: list[str] = []
    lastBundleLosses: list[str] = []
    brokerVersionString: str = ""
    protocols: dict[str, str] = {}
    advertisedListeners: dict[str, dict[str, str]] = {}
    loadManagerClassName: str = ""
    startTimestamp: int = 0
    maxResourceUsage: float = 0.0
    loadReportType: str = "LocalBrokerData"
