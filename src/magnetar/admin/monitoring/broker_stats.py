"""Statistics of the broker that is asked: of all its loaded topics by bundle, and its load report.

Each broker answers for itself, as in Pulsar: a tool asks all of them. The statistics of topics are streamed, so that
memory holds those of some topics for any number of them. They read the counters of the topics; processor, memory and
network are not measured here (`/metrics` has them).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import msgspec

from magnetar import __version__
from magnetar.admin.monitoring.rates import observe, subscriptions
from magnetar.admin.monitoring.stats import topic_stats
from magnetar.admin.request import JSON, Request, Response, shown
from magnetar.admin.route import get
from magnetar.base.errors import MagnetarError
from magnetar.base.limits import HTTP_PIECE_BYTES
from magnetar.client.documents.broker_stats import BundleLoad, LoadReport

if TYPE_CHECKING:
    from magnetar.broker.node import Node
    from magnetar.broker.topics.topics import AnyTopic
    from magnetar.client.documents.stats import TopicStats

Key = tuple[str, str, str]  # namespace, bundle, domain


async def topics(node: Node, request: Request) -> Response:
    return Response(200, _json(node, await _by_bundle(node)), {"content-type": JSON})


async def load_report(node: Node, request: Request) -> Response:
    bundles = {f"{namespace}/{bundle}": BundleLoad() for namespace, bundle in node.ownership.held()}
    rates = observe(node)
    for (namespace, bundle, _), topic in await _by_bundle(node):
        load, rate = bundles.setdefault(f"{namespace}/{bundle}", BundleLoad()), rates.of(topic)
        load.msgRateIn += rate.messages_in
        load.msgThroughputIn += rate.bytes_in
        load.msgRateOut += rate.messages_out
        load.msgThroughputOut += rate.bytes_out
        load.consumerCount += sum(len(subscription.consumers) for subscription in subscriptions(topic))
        load.producerCount += len(list(topic.producers))
        load.topics += 1
    loads = bundles.values()
    me = node.ownership.me
    return shown(
        LoadReport(
            brokerId=me.id,
            webServiceUrl=me.urls.http or me.urls.https,
            pulsarServiceUrl=me.urls.broker or me.urls.broker_tls,
            msgThroughputIn=sum(load.msgThroughputIn for load in loads),
            msgThroughputOut=sum(load.msgThroughputOut for load in loads),
            msgRateIn=sum(load.msgRateIn for load in loads),
            msgRateOut=sum(load.msgRateOut for load in loads),
            lastUpdate=int(node.runtime.wall()),
            lastStats=bundles,
            numTopics=sum(load.topics for load in loads),
            numBundles=len(bundles),
            numConsumers=sum(load.consumerCount for load in loads),
            numProducers=sum(load.producerCount for load in loads),
            bundles=sorted(bundles),
            brokerVersionString=__version__,
        )
    )


async def _by_bundle(node: Node) -> list[tuple[Key, AnyTopic]]:
    """The loaded topics, in the order of namespaces, bundles, domains and names."""
    rows: list[tuple[Key, AnyTopic]] = []
    for topic in list(node.topics.loaded.values()):
        policies = await node.namespaces.policies(topic.name.namespace)
        if policies is not None:  # None: the namespace was deleted
            bundle = await node.bundles.find(topic.name, policies)
            rows.append(((str(topic.name.namespace), str(bundle), str(topic.name.domain)), topic))
    return sorted(rows, key=lambda row: (row[0], str(row[1].name)))


async def _json(node: Node, rows: list[tuple[Key, AnyTopic]]) -> AsyncIterator[bytes]:
    """`{namespace: {bundle: {domain: {topic: statistics}}}}`, in pieces."""
    encode = msgspec.json.encode
    piece = bytearray(b"{")
    opened: Key | tuple[()] = ()
    for key, topic in rows:
        try:
            stats = await topic_stats(node, topic, publishers=True, consumers=True)
        except MagnetarError:
            continue  # it was closed since it was listed
        shared = next((depth for depth in range(len(opened)) if opened[depth] != key[depth]), len(opened))
        piece += b"}" * (len(opened) - shared) + (b"," if opened else b"")
        for name in key[shared:]:
            piece += encode(name) + b":{"
        piece += encode(str(topic.name)) + b":" + encode(_document(stats))
        opened = key
        if len(piece) > HTTP_PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece + b"}" * (len(opened) + 1))


def _document(stats: TopicStats) -> dict[str, Any]:
    """The fields of Pulsar's broker statistics, which has other names than the statistics of one topic."""
    return {
        "publishers": stats.publishers,
        "replication": {},
        "subscriptions": {
            name: {
                **msgspec.to_builtins(each),
                "numberOfEntriesSinceFirstNotAckedMessage": each.msgBacklog,
                "totalNonContiguousDeletedMessagesRange": each.nonContiguousDeletedMessagesRanges,
            }
            for name, each in stats.subscriptions.items()
        },
        "producerCount": len(stats.publishers),
        "averageMsgSize": stats.averageMsgSize,
        "msgRateIn": stats.msgRateIn,
        "msgRateOut": stats.msgRateOut,
        "msgInCount": stats.msgInCounter,
        "bytesInCount": stats.bytesInCounter,
        "msgOutCount": stats.msgOutCounter,
        "bytesOutCount": stats.bytesOutCounter,
        "msgThroughputIn": stats.msgThroughputIn,
        "msgThroughputOut": stats.msgThroughputOut,
        "storageSize": stats.storageSize,
        "backlogSize": stats.backlogSize,
        "pendingAddEntriesCount": 0,
        "filteredEntriesCount": 0,
    }


_ROOT = "/admin/v2/broker-stats"
ROUTES = [
    get(f"{_ROOT}/topics", topics, "Statistics of the loaded topics of the broker that is asked", dict[str, Any]),
    get(f"{_ROOT}/load-report", load_report, "The load report of the broker that is asked", LoadReport),
]
