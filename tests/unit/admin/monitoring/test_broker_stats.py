"""Statistics of a broker have the fields that were recorded of a real Pulsar."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.admin.world import a_world

pytestmark = pytest.mark.real_clock

NAME = "persistent://public/default/t"
TOPICS = "/admin/v2/broker-stats/topics"
REPORT = "/admin/v2/broker-stats/load-report"
TOPIC_FIELDS = """publishers replication subscriptions producerCount averageMsgSize msgRateIn msgRateOut msgInCount
    bytesInCount msgOutCount bytesOutCount msgThroughputIn msgThroughputOut storageSize backlogSize
    pendingAddEntriesCount filteredEntriesCount"""
SUBSCRIPTION_FIELDS = """consumers msgBacklog msgRateExpired msgRateOut messageAckRate msgThroughputOut msgRateRedeliver
    numberOfEntriesSinceFirstNotAckedMessage totalNonContiguousDeletedMessagesRange type filterProcessedMsgCount
    filterAcceptedMsgCount filterRejectedMsgCount filterRescheduledMsgCount blockedSubscriptionOnUnackedMsgs
    unackedMessages"""
BUNDLE_FIELDS = """msgRateIn msgThroughputIn msgRateOut msgThroughputOut consumerCount producerCount topics cacheSize"""
REPORT_FIELDS = """brokerId webServiceUrl pulsarServiceUrl persistentTopicsEnabled nonPersistentTopicsEnabled cpu memory
    directMemory bandwidthIn bandwidthOut msgThroughputIn msgThroughputOut msgRateIn msgRateOut lastUpdate lastStats
    numTopics numBundles numConsumers numProducers bundles lastBundleGains lastBundleLosses brokerVersionString
    protocols advertisedListeners loadManagerClassName startTimestamp maxResourceUsage loadReportType"""


def leaves(document: dict[str, Any]) -> dict[str, Any]:
    """The statistics by topic, whichever bundle they are under."""
    return {
        name: stats
        for bundles in document.values()
        for domains in bundles.values()
        for topics in domains.values()
        for name, stats in topics.items()
    }


async def test_broker_without_topics_has_empty_statistics() -> None:
    async with a_world() as world:
        assert await world.get(TOPICS) == {}
        report = await world.get(REPORT)
        assert (report["numTopics"], report["bundles"], report["lastStats"]) == (0, [], {})


async def test_each_loaded_topic_is_under_its_bundle_and_domain() -> None:
    async with a_world() as world:
        await world.do("PUT", "/admin/v2/namespaces/public/other")
        names = [f"{NAME}-{number}" for number in range(5)] + ["persistent://public/other/x"]
        for name in names:
            await world.publish(name, b"1", b"2")
        await world.consume("non-persistent://public/default/n", "s")
        document = await world.get(TOPICS)
        assert sorted(leaves(document)) == sorted([*names, "non-persistent://public/default/n"])
        assert list(document) == ["public/default", "public/other"]
        for bundles in document.values():
            for bundle, domains in bundles.items():
                assert bundle.startswith("0x")
                for domain, topics in domains.items():
                    assert all(name.startswith(f"{domain}://") for name in topics)


async def test_recorded_fields_are_there() -> None:
    async with a_world() as world:
        await world.publish(NAME, b"1", b"2")
        await world.consume(NAME, "s", 1)
        await world.produce(NAME, "p")
        stats = leaves(await world.get(TOPICS))[NAME]
        assert set(TOPIC_FIELDS.split()) <= set(stats)
        assert set(SUBSCRIPTION_FIELDS.split()) <= set(stats["subscriptions"]["s"])
        assert (stats["msgInCount"], stats["producerCount"]) == (2, 1)
        report = await world.get(REPORT)
        assert set(REPORT_FIELDS.split()) <= set(report)
        [load] = report["lastStats"].values()
        assert set(load) == set(BUNDLE_FIELDS.split())
        assert (load["topics"], load["producerCount"], load["consumerCount"]) == (1, 1, 1)
        assert (report["numTopics"], report["numProducers"], report["numConsumers"]) == (1, 1, 1)
        assert report["bundles"] == list(report["lastStats"])
