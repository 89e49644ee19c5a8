"""Routes of Pulsar that this version does not support: 501 with the missing feature, to distinguish it from a wrong
path.

They are one list, separate from the supported routes: a new feature removes its rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.admin.request import Request, Response
from magnetar.admin.route import Handler, Route, delete, get, post, put
from magnetar.base.errors import NotBuilt

if TYPE_CHECKING:
    from magnetar.broker.node import Node

_TOPIC = "/admin/v2/{domain}/{{tenant}}/{{namespace}}/{{topic}}"
_NAMESPACE = "/admin/v2/namespaces/{tenant}/{namespace}"

# Above these every path, up to `_DEPTH` parts deep, is the feature's.
FEATURES = {
    "functions": ["/admin/v2/functions", "/admin/v3/functions", "/admin/v2/worker", "/admin/v2/worker-stats"],
    "connectors (sources)": ["/admin/v3/sources"],
    "connectors (sinks)": ["/admin/v3/sinks"],
    "packages": ["/admin/v3/packages"],
    "transactions": ["/admin/v3/transactions"],
    "resource groups": ["/admin/v2/resourcegroups"],
    "resource quotas": ["/admin/v2/resource-quotas"],
    "bookies": ["/admin/v2/bookies"],
    "other broker statistics (use /metrics)": ["/admin/v2/broker-stats"],
    "REST produce and consume": ["/topics"],
}
_DEPTH = 8

OF_TOPICS = {
    "compaction": "compaction",
    "offload": "offloading",
    "permissions": "authorization",
    "truncate": "truncation",
    "getMessageIdByIndex": "broker entry metadata",
    "internal-info": "the internal form of ledgers (use internalStats)",
    "backlog": "offline backlog statistics (use stats)",
    "policies": "topic policies",
}
OF_SUBSCRIPTIONS = {
    "analyzeBacklog": "analysis of a backlog",
    "replicatedSubscriptionStatus": "replicated subscriptions",
}
# Policies of single topics that are not obeyed yet. Retention is, of topics that store anything.
TOPIC_POLICIES = [
    "autoSubscriptionCreation",
    "backlogQuota",
    "backlogQuotaMap",
    "compactionThreshold",
    "deduplicationEnabled",
    "deduplicationSnapshotInterval",
    "delayedDelivery",
    "dispatchRate",
    "dispatcherPauseOnAckStatePersistent",
    "entryFilters",
    "inactiveTopicPolicies",
    "maxConsumers",
    "maxConsumersPerSubscription",
    "maxMessageSize",
    "maxProducers",
    "maxSubscriptionsPerTopic",
    "maxUnackedMessagesOnConsumer",
    "maxUnackedMessagesOnSubscription",
    "messageTTL",
    "offloadPolicies",
    "persistence",
    "publishRate",
    "replication",
    "replicatorDispatchRate",
    "schemaCompatibilityStrategy",
    "schemaValidationEnforced",
    "shadowTopics",
    "subscribeRate",
    "subscriptionDispatchRate",
    "subscriptionTypesEnabled",
]
OF_NAMESPACES = {
    "antiAffinity": "anti-affinity groups",
    "clearBacklog": "clearing the backlog of a whole namespace",
    "dispatcherPauseOnAckStatePersistent": "pausing on persistent acknowledgements",
    "entryFilters": "entry filters",
    "offloadDeletionLagMs": "offloading",
    "offloadPolicies": "offloading",
    "permissions": "authorization",
    "resourcegroup": "resource groups",
    "schemaAutoUpdateCompatibilityStrategy": "schema compatibility checks",
    "allowedTopicPropertyKeysForMetrics": "topic properties in metrics",
}
_SCALABLE = "/admin/v2/scalable/{tenant}/{namespace}/{topic}"
_SEGMENT = "/admin/v2/segments/{tenant}/{namespace}/{topic}/{descriptor}"
OF_SCALABLE_TOPICS = {
    f"{_SEGMENT}/subscription/{{subscription}}/seek": "seek on a segment",
    f"{_SEGMENT}/subscription/{{subscription}}/skip-all": "skip_all on a segment",
}
OF_CLUSTERS = {
    "peers": "replication between clusters",
    "migrate": "migration between clusters",
    "failureDomains": "failure domains",
    "namespaceIsolationPolicies": "isolation policies",
}


def _refuse(what: str) -> Handler:
    async def refuse(node: Node, request: Request) -> Response:
        raise NotBuilt(f"{what}: not supported by this version of Magnetar")

    return refuse


def _every(path: str, what: str) -> list[Route]:
    return [make(path, _refuse(what), f"Not built: {what}") for make in (get, put, post, delete)]


def _routes() -> list[Route]:
    routes: list[Route] = []
    for what, roots in FEATURES.items():
        for root in roots:
            tail = ""
            for depth in range(_DEPTH):
                routes += _every(root + tail, what)
                tail += f"/{{part{depth}}}"
    for path, what in OF_SCALABLE_TOPICS.items():
        routes += _every(path, what)
    for domain in ("persistent", "non-persistent"):
        topic = _TOPIC.format(domain=domain)
        for name, what in OF_TOPICS.items():
            routes += _every(f"{topic}/{name}", what)
        routes += _every(f"{topic}/permissions/{{role}}", "authorization")
        for name, what in OF_SUBSCRIPTIONS.items():
            routes += _every(f"{topic}/subscription/{{subscription}}/{name}", what)
        for name in TOPIC_POLICIES:
            routes += _every(f"{topic}/{name}", f"the topic policy {name}")
    routes += _every(f"{_TOPIC.format(domain='non-persistent')}/retention", "retention of a topic that stores nothing")
    for name, what in OF_NAMESPACES.items():
        routes += _every(f"{_NAMESPACE}/{name}", what)
        routes += _every(f"{_NAMESPACE}/{name}/{{part0}}", what)
    for name in ("clearBacklog", "split", "topicHashPositions"):
        routes += _every(f"{_NAMESPACE}/{{bundle}}/{name}", f"{name} of a bundle")
    routes.append(
        delete(f"{_NAMESPACE}/{{bundle}}", _refuse("deletion of a bundle"), "Not built: deletion of a bundle")
    )
    routes += _every("/admin/v2/schemas/{tenant}/{namespace}/{topic}/metadata", "the internal form of schemas")
    routes += _every(f"{_NAMESPACE}/removeOffloadPolicies", "offloading")
    routes += _every(f"{_NAMESPACE}/persistence/bookieAffinity", "bookie affinity")
    routes += _every(f"{_NAMESPACE}/permissions/subscription/{{part0}}", "authorization")
    routes += _every(f"{_NAMESPACE}/permissions/subscription/{{part0}}/{{part1}}", "authorization")
    routes += _every("/admin/v2/namespaces/{cluster}/antiAffinity/{group}", "anti-affinity groups")
    routes += _every(f"{_NAMESPACE}/unsubscribe/{{part0}}", "unsubscribing in a whole namespace")
    routes += _every(f"{_NAMESPACE}/{{bundle}}/clearBacklog/{{part0}}", "clearBacklog of a bundle")
    routes += _every("/admin/v2/brokers/backlog-quota-check", "backlog quotas")
    for name, what in OF_CLUSTERS.items():
        for tail in ("", "/{part0}", "/{part0}/{part1}"):
            routes += _every(f"/admin/v2/clusters/{{cluster}}/{name}{tail}", what)
    return routes


ROUTES = _routes()
