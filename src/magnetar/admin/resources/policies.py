"""The policies of a namespace, one row of a table each: path, field, type, validation.

Reading an unset policy is 200 with an empty body, as in Pulsar. A policy that this version would store but not apply is
refused with 501 instead of being stored silently, in a new namespace too. A change reaches the loaded topics
immediately.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from magnetar.admin.request import DONE, EMPTY, JSON, Request, Response, shown, text
from magnetar.admin.route import Handler, Route, delete, get, post, put
from magnetar.admin.unknown_fields import check_spelling
from magnetar.base.errors import Conflict, Misuse, NotAuthorized, NotBuilt
from magnetar.base.limits import CURSOR_FLUSH_S, POLICY_ENSEMBLE_MAX
from magnetar.policy.policies import (
    AutoSubscriptionCreation,
    AutoTopicCreation,
    DelayedDelivery,
    Persistence,
    Policies,
    Retention,
)

if TYPE_CHECKING:
    from magnetar.broker.node import Node

_ONE = "/admin/v2/namespaces/{tenant}/{namespace}"
Check = Callable[[Any], None]


def _fine(value: Any) -> None:
    """Accepts every value of the right type."""


def _not_negative(words: str) -> Check:
    def check(value: int) -> None:
        if value < 0:
            raise Misuse(words)

    return check


def check_retention(value: Retention) -> None:
    time, size = value.retentionTimeInMinutes, value.retentionSizeInMB
    if size < -1:
        raise Misuse("Invalid retention policy: size limit must be >= -1", http_status=400)
    if time < -1:
        raise Misuse("Invalid retention policy: time limit must be >= -1", http_status=400)
    if (time == 0) != (size == 0):
        raise Misuse(
            "Invalid retention policy: Setting a single time or size limit to 0 is invalid when one of the limits has "
            "a non-zero value. Use the value of -1 instead of 0 to ignore a specific limit. To disable retention both "
            "limits must be set to 0.",
            http_status=400,
        )


def _auto_topic_creation(value: AutoTopicCreation) -> None:
    prefix = "Invalid configuration for autoTopicCreationOverride. the detail is"
    if value.topicType not in (None, "partitioned", "non-partitioned"):
        raise Misuse(f"{prefix} Unknown topic type [{value.topicType}]")
    if value.topicType == "partitioned" and value.defaultNumPartitions is None:
        raise Misuse(f"{prefix} [defaultNumPartitions] cannot be null when the type is partitioned.")
    if value.defaultNumPartitions is not None and value.defaultNumPartitions < 1:
        raise Misuse(f"{prefix} [defaultNumPartitions] cannot be less than 1.")


def _delayed_delivery(value: DelayedDelivery) -> None:
    """The precision of delayed delivery is fixed, so another tick than the default is refused."""
    if value.tickTime != DelayedDelivery().tickTime:
        raise NotBuilt("tickTime: another precision of delayed delivery is not supported by this version")
    if value.maxDeliveryDelayInMillis > 0:
        raise NotBuilt("maxDeliveryDelayInMillis: a limit for the delivery delay is not supported by this version")


def _persistence(value: Persistence) -> None:
    ensemble, write, ack = value.bookkeeperEnsemble, value.bookkeeperWriteQuorum, value.bookkeeperAckQuorum
    for name, number in (("Ensemble", ensemble), ("WriteQuorum", write), ("AckQuorum", ack)):
        if not 0 < number <= POLICY_ENSEMBLE_MAX:
            raise Misuse(f"Bookkeeper-{name} must be <= {POLICY_ENSEMBLE_MAX} and > 0.", http_status=400)
    if not ensemble >= write >= ack:
        raise Misuse(f"Bookkeeper Ensemble ({ensemble}) >= WriteQuorum ({write}) >= AckQuorum ({ack})", http_status=400)
    if 0 < value.managedLedgerMaxMarkDeleteRate < 1 / CURSOR_FLUSH_S:
        raise NotBuilt(
            f"managedLedgerMaxMarkDeleteRate: a cursor is stored up to {1 / CURSOR_FLUSH_S:g} times per second; this "
            "version does not support a lower limit"
        )


def _check_copies(node: Node, value: Persistence) -> None:
    """A ledger store that keeps one copy of each entry ignores a quorum; the policy must not promise more."""
    if value.bookkeeperEnsemble > node.ledgers.copies_max:
        raise NotBuilt(
            "persistence: this broker stores its ledgers on its own disk in one copy. "
            "A larger bookkeeperEnsemble is not supported here: run the brokers on BookKeeper, or leave the policy out"
        )


def _possible(node: Node, value: Any) -> None:
    """Accepts every value on every broker."""


@dataclass(frozen=True, slots=True)
class Policy:
    """`empty`: the effect of a POST without a body: refuse (None), or set this value ("unset" removes it). `possible`
    checks whether this broker can apply a value."""

    name: str
    field: str
    kind: Any
    check: Check = _fine
    unset: Any = None  # what reading it answers while it is not set; None: nothing
    empty: Any = None
    removable: bool = True
    possible: Callable[[Node, Any], None] = _possible


def _max(name: str, field: str, unset: Any = None) -> Policy:
    return Policy(name, field, int, _not_negative(f"{name} must be 0 or more"), unset)


TABLE = [
    Policy("retention", "retention_policies", Retention, check_retention, empty="unset"),
    Policy(
        "messageTTL",
        "message_ttl_in_seconds",
        int,
        _not_negative("Invalid value for message TTL, message TTL must >= 0"),
    ),
    Policy("deduplication", "deduplicationEnabled", bool),
    Policy(
        "deduplicationSnapshotInterval",
        "deduplicationSnapshotIntervalSeconds",
        int,
        _not_negative("interval must be greater than or equal to 0"),
        empty="unset",
        removable=False,
    ),
    Policy("delayedDelivery", "delayed_delivery_policies", DelayedDelivery, _delayed_delivery, empty="unset"),
    Policy("autoTopicCreation", "autoTopicCreationOverride", AutoTopicCreation, _auto_topic_creation, empty="unset"),
    Policy("autoSubscriptionCreation", "autoSubscriptionCreationOverride", AutoSubscriptionCreation, empty="unset"),
    _max("maxProducersPerTopic", "max_producers_per_topic"),
    _max("maxConsumersPerTopic", "max_consumers_per_topic"),
    _max("maxConsumersPerSubscription", "max_consumers_per_subscription"),
    _max("maxUnackedMessagesPerConsumer", "max_unacked_messages_per_consumer"),
    _max("maxUnackedMessagesPerSubscription", "max_unacked_messages_per_subscription"),
    _max("maxSubscriptionsPerTopic", "max_subscriptions_per_topic"),
    _max("maxTopicsPerNamespace", "max_topics_per_namespace", unset=0),
    Policy("persistence", "persistence", Persistence, _persistence, possible=_check_copies),
    Policy("activeConsumerFailoverConsistentHashing", "activeConsumerFailoverConsistentHashing", bool),
]

# Read as they are (unset, mostly), not to be changed: nothing obeys them yet. Path, field, what unset looks like.
READ_ONLY: list[tuple[str, str, Any]] = [
    ("subscriptionExpirationTime", "subscription_expiration_time_minutes", None),
    ("backlogQuotaMap", "backlog_quota_map", {}),
    ("inactiveTopicPolicies", "inactive_topic_policies", None),
    ("compactionThreshold", "compaction_threshold", None),
    ("offloadThreshold", "offload_threshold", -1),
    ("offloadThresholdInSeconds", "offload_threshold_in_seconds", -1),
    ("schemaCompatibilityStrategy", "schema_compatibility_strategy", "UNDEFINED"),
    ("schemaValidationEnforced", "schema_validation_enforced", False),
    ("isAllowAutoUpdateSchema", "is_allow_auto_update_schema", True),
    ("subscriptionTypesEnabled", "subscription_types_enabled", []),
    ("subscriptionAuthMode", "subscription_auth_mode", "None"),
    ("encryptionRequired", "encryption_required", False),
    ("allowedClusters", "allowed_clusters", []),
]
# Kept by cluster in the document: reading gives this cluster's.
RATES = {
    "publishRate": "publishMaxMessageRate",
    "dispatchRate": "topicDispatchRate",
    "subscriptionDispatchRate": "subscriptionDispatchRate",
    "replicatorDispatchRate": "replicatorDispatchRate",
    "subscribeRate": "clusterSubscribeRate",
}
WRITE_ONLY = ["backlogQuota"]
NOT_OBEYED = [name for name, _, _ in READ_ONLY] + list(RATES) + WRITE_ONLY


# Of Pulsar's policies those that a namespace may be created with: of the table, or obeyed by the namespace itself.
_OBEYED = {policy.field for policy in TABLE} | {
    "scalableTopicAutoScalePolicy",
    "replication_clusters",
    "bundles",
    "properties",
    "numberOfTopicBuckets",
}
_OWN = {"deleted", "kept"}  # of the document, no policies
_OPEN = {"auth_policies"}  # security is not built: each role may do what it is granted here, as may all others
_UNKNOWN = {  # Pulsar's, and not among our fields
    "allowed_topic_property_keys_for_metrics",
    "antiAffinityGroup",
    "dispatcherPauseOnAckStatePersistentEnabled",
    "entryFilters",
    "offload_deletion_lag_ms",
    "offload_policies",
    "resource_group_name",
    "schema_auto_update_compatibility_strategy",
}


def check_obeyed(policies: Policies, document: Mapping[str, Any], cluster: str) -> None:
    """Raises NotBuilt if a new namespace has a policy that this version does not apply."""
    defaults = Policies()
    changed = [
        field
        for field in policies.__struct_fields__
        if field not in _OBEYED | _OWN | _OPEN and getattr(policies, field) != getattr(defaults, field)
    ]
    changed += [name for name in sorted(_UNKNOWN) if document.get(name)]
    if changed:
        words = "not supported by this version of Magnetar; leave it out"
        raise NotBuilt(f"policies {', '.join(changed)}: {words}")
    if policies.replication_clusters not in ([], [cluster]):
        raise NotBuilt("replication between clusters is not built in this version of Magnetar")


def grants_nothing(policies: Policies) -> bool:
    """Whether the policies name no role. Permissions of roles are stored but not enforced, so the caller warns about
    them."""
    return not any(policies.auth_policies.values())


def check_policies(node: Node, policies: Policies) -> None:
    """Checks the policies of a new namespace by the same rules as a change."""
    for policy in TABLE:
        value = getattr(policies, policy.field)
        if value is not None:
            policy.check(value)
            policy.possible(node, value)
    if policies.numberOfTopicBuckets is not None and policies.numberOfTopicBuckets < 1:
        raise Misuse("numberOfTopicBuckets must be 1 or more")


async def change(node: Node, request: Request, **fields: Any) -> None:
    """Stores the change durably, then applies it to every loaded topic of the namespace."""
    namespace = request.namespace
    await node.namespaces.update(namespace, lambda before: msgspec.structs.replace(before, **fields))
    await node.topics.configure(namespace)


def _reader(field: str, unset: Any) -> Handler:
    async def read(node: Node, request: Request) -> Response:
        value = getattr(await node.namespaces.get(request.namespace), field)
        if value is None:
            value = unset
        return EMPTY if value is None else shown(_without_nulls(value))

    return read


def _writer(policy: Policy) -> Handler:
    async def write(node: Node, request: Request) -> Response:
        value: Any = request.read(policy.kind) if policy.empty == "unset" else request.need(policy.kind)
        if value is not None:
            if isinstance(value, msgspec.Struct):
                check_spelling(request.read(dict[str, Any]), value)
            policy.check(value)
            policy.possible(node, value)
        await change(node, request, **{policy.field: value})
        return DONE

    return write


def _remover(policy: Policy) -> Handler:
    async def remove(node: Node, request: Request) -> Response:
        await change(node, request, **{policy.field: None})
        return DONE

    return remove


async def _not_built(node: Node, request: Request) -> Response:
    name = request.path.rstrip("/").rsplit("/", 1)[-1]
    raise NotBuilt(f"policy {name} is not supported by this version of Magnetar")


def _rate_reader(field: str) -> Handler:
    async def read(node: Node, request: Request) -> Response:
        by_cluster = getattr(await node.namespaces.get(request.namespace), field)
        rate = by_cluster.get(node.settings.text("clusterName"))
        return EMPTY if rate is None else shown(rate)

    return read


# Replication


async def read_replication(node: Node, request: Request) -> Response:
    return shown((await node.namespaces.get(request.namespace)).replication_clusters)


async def write_replication(node: Node, request: Request) -> Response:
    clusters: list[str] = request.read(list[str]) or []
    if not clusters:
        raise Misuse("ClusterIds should not be null or empty")
    for cluster in clusters:
        if not await node.clusters.exists(cluster):
            raise NotAuthorized(f"Invalid cluster id: {cluster}")
    if clusters != [node.settings.text("clusterName")]:
        raise NotBuilt("replication between clusters is not built in this version of Magnetar")
    await change(node, request, replication_clusters=clusters)
    return EMPTY


# Buckets of topics (PIP-157)


async def read_buckets(node: Node, request: Request) -> Response:
    return shown((await node.namespaces.get(request.namespace)).buckets)


async def write_buckets(node: Node, request: Request) -> Response:
    count, namespace = request.need(int), request.namespace
    buckets = (await node.namespaces.get(namespace)).buckets
    if count != buckets:
        raise Conflict(
            f"numberOfTopicBuckets of {namespace} is {buckets}, set at creation, and cannot be changed: create "
            "another namespace with the number you need",
            http_status=412,
        )
    return DONE


# Properties


async def read_properties(node: Node, request: Request) -> Response:
    return shown((await node.namespaces.get(request.namespace)).properties)


async def add_properties(node: Node, request: Request) -> Response:
    return await _set_properties(node, request, request.need(dict[str, str]))


async def clear_properties(node: Node, request: Request) -> Response:
    await change(node, request, properties={})
    return DONE


async def read_property(node: Node, request: Request) -> Response:
    value = (await node.namespaces.get(request.namespace)).properties.get(request.parts["key"])
    return EMPTY if value is None else text(value, kind=JSON)


async def set_property(node: Node, request: Request) -> Response:
    return await _set_properties(node, request, {request.parts["key"]: request.parts["value"]})


async def remove_property(node: Node, request: Request) -> Response:
    key, before = request.parts["key"], (await node.namespaces.get(request.namespace)).properties

    def without(policies: Policies) -> Policies:
        left = {name: value for name, value in policies.properties.items() if name != key}
        return msgspec.structs.replace(policies, properties=left)

    await node.namespaces.update(request.namespace, without)
    return EMPTY if key not in before else text(before[key], kind=JSON)


async def _set_properties(node: Node, request: Request, more: dict[str, str]) -> Response:
    def added(policies: Policies) -> Policies:
        return msgspec.structs.replace(policies, properties={**policies.properties, **more})

    await node.namespaces.update(request.namespace, added)
    return DONE


def _without_nulls(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return {name: one for name, one in msgspec.to_builtins(value).items() if one is not None}
    return value


def _routes() -> list[Route]:
    routes: list[Route] = []
    for policy in TABLE:
        path = f"{_ONE}/{policy.name}"
        routes.append(get(path, _reader(policy.field, policy.unset), f"Read {policy.name}", policy.kind))
        routes.append(post(path, _writer(policy), f"Set {policy.name}", policy.kind))
        if policy.removable:
            routes.append(delete(path, _remover(policy), f"Remove {policy.name}"))
    for name, field, unset in READ_ONLY:
        routes.append(get(f"{_ONE}/{name}", _reader(field, unset), f"Read {name}", Any))
    routes += [get(f"{_ONE}/{name}", _rate_reader(field), f"Read {name}", Any) for name, field in RATES.items()]
    for name in NOT_OBEYED:
        routes += [make(f"{_ONE}/{name}", _not_built, f"Not built: {name}") for make in (put, post, delete)]
    return routes


ROUTES = [
    *_routes(),
    get(f"{_ONE}/replication", read_replication, "The clusters of a namespace", list[str]),
    post(f"{_ONE}/replication", write_replication, "Set the clusters of a namespace", list[str]),
    get(f"{_ONE}/numberOfTopicBuckets", read_buckets, "The number of buckets of topic records", int),
    post(f"{_ONE}/numberOfTopicBuckets", write_buckets, "Always rejected: the number is fixed at creation", int),
    put(f"{_ONE}/numberOfTopicBuckets", write_buckets, "Always rejected: the number is fixed at creation", int),
    get(f"{_ONE}/properties", read_properties, "The properties of a namespace", dict[str, str]),
    put(f"{_ONE}/properties", add_properties, "Add properties", dict[str, str]),
    delete(f"{_ONE}/properties", clear_properties, "Remove all properties"),
    get(f"{_ONE}/property/{{key}}", read_property, "One property", str),
    put(f"{_ONE}/property/{{key}}/{{value}}", set_property, "Set one property"),
    delete(f"{_ONE}/property/{{key}}", remove_property, "Remove one property", str),
]
