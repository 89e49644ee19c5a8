"""The policies of a namespace: the document at /admin/policies/{tenant}/{namespace}, with Pulsar's field names.

It is a value with typed fields over the original document: unknown fields, also inside known ones, survive a rewrite.
None means unset; unset fields are not written. A change returns a new value (`msgspec.structs.replace`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from magnetar.base.errors import Corrupt, Misuse


class Bundles(msgspec.Struct, frozen=True):
    """The bundles of a namespace; a request may contain the number alone."""

    boundaries: list[str] = []
    numBundles: int = 0


class Retention(msgspec.Struct, frozen=True):
    retentionTimeInMinutes: int = 0
    retentionSizeInMB: int = 0


class AutoTopicCreation(msgspec.Struct, frozen=True):
    allowAutoTopicCreation: bool
    topicType: str | None = None
    defaultNumPartitions: int | None = None


class AutoSubscriptionCreation(msgspec.Struct, frozen=True):
    allowAutoSubscriptionCreation: bool


class Persistence(msgspec.Struct, frozen=True):
    bookkeeperEnsemble: int = 2
    bookkeeperWriteQuorum: int = 2
    bookkeeperAckQuorum: int = 2
    managedLedgerMaxMarkDeleteRate: float = 0.0


class DelayedDelivery(msgspec.Struct, frozen=True):
    tickTime: int = 1000
    active: bool = True
    maxDeliveryDelayInMillis: int = 0


class InactiveTopics(msgspec.Struct, frozen=True):
    inactiveTopicDeleteMode: str | None = None
    maxInactiveDurationSeconds: int | None = None
    deleteWhileInactive: bool | None = None


def _no_permissions() -> dict[str, Any]:
    return {"namespace_auth": {}, "destination_auth": {}, "subscription_auth_roles": {}}


class Policies(msgspec.Struct, frozen=True, kw_only=True):
    """Fields in the order of Pulsar. The last two settings are extensions of Magnetar; `kept` is the original
    document."""

    auth_policies: dict[str, Any] = msgspec.field(default_factory=_no_permissions)
    replication_clusters: list[str] = []
    allowed_clusters: list[str] = []
    bundles: Bundles | None = None
    backlog_quota_map: dict[str, Any] = {}
    clusterDispatchRate: dict[str, Any] = {}
    topicDispatchRate: dict[str, Any] = {}
    subscriptionDispatchRate: dict[str, Any] = {}
    replicatorDispatchRate: dict[str, Any] = {}
    clusterSubscribeRate: dict[str, Any] = {}
    persistence: Persistence | None = None
    deduplicationEnabled: bool | None = None
    autoTopicCreationOverride: AutoTopicCreation | None = None
    autoSubscriptionCreationOverride: AutoSubscriptionCreation | None = None
    publishMaxMessageRate: dict[str, Any] = {}
    latency_stats_sample_rate: dict[str, Any] = {}
    message_ttl_in_seconds: int | None = None
    subscription_expiration_time_minutes: int | None = None
    retention_policies: Retention | None = None
    deleted: bool = False
    encryption_required: bool = False
    delayed_delivery_policies: DelayedDelivery | None = None
    inactive_topic_policies: InactiveTopics | None = None
    subscription_auth_mode: str = "None"
    max_producers_per_topic: int | None = None
    max_consumers_per_topic: int | None = None
    max_consumers_per_subscription: int | None = None
    max_unacked_messages_per_consumer: int | None = None
    max_unacked_messages_per_subscription: int | None = None
    max_subscriptions_per_topic: int | None = None
    compaction_threshold: int | None = None
    offload_threshold: int = -1
    offload_threshold_in_seconds: int = -1
    max_topics_per_namespace: int | None = None
    schema_compatibility_strategy: str = "UNDEFINED"
    is_allow_auto_update_schema: bool | None = True
    is_allow_auto_update_schema_with_replicator: bool = True
    schema_validation_enforced: bool = False
    deduplicationSnapshotIntervalSeconds: int | None = None
    subscription_types_enabled: list[str] = []
    properties: dict[str, str] = {}
    scalableTopicAutoScalePolicy: dict[str, Any] | None = None  # the override of `layout/autoscale/policy.py`
    migrated: bool = False
    numberOfTopicBuckets: int | None = None
    activeConsumerFailoverConsistentHashing: bool | None = None
    kept: dict[str, Any] = {}

    @classmethod
    def decode(cls, data: bytes) -> Policies:
        """Decodes a stored document. Corrupt: it is invalid."""
        try:
            return cls.of(msgspec.json.decode(data))
        except (msgspec.DecodeError, Misuse) as error:
            raise Corrupt(f"the policies cannot be read: {error}") from error

    @classmethod
    def of(cls, document: Any) -> Policies:
        """Reads the body of a request. Misuse: a field has the wrong type; the error names it."""
        if not isinstance(document, dict):
            raise Misuse("the policies must be a JSON object", http_status=400)
        fields = {name: document[name] for name in _FIELDS if document.get(name) is not None}
        try:
            policies = msgspec.convert(fields, cls)
        except msgspec.ValidationError as error:
            raise Misuse(f"policies: {error}", http_status=400) from error
        return msgspec.structs.replace(policies, kept=document)

    def encode(self) -> bytes:
        return msgspec.json.encode(self.document())

    def document(self) -> dict[str, Any]:
        """All fields as JSON values: those that are set, then unknown ones of the original document."""
        shown: dict[str, Any] = {}
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if name == "kept" or value is None:
                continue
            if isinstance(value, msgspec.Struct):
                value = {**_unknown(self.kept.get(name), value), **_set(value)}
            shown[name] = value
        return {**shown, **{name: value for name, value in self.kept.items() if name not in _FIELDS}}

    def field(self, path: str) -> Any:
        """The value of a dotted name of the settings table. None: unset, so the value of the broker applies."""
        value: Any = self
        for part in _parts(path):
            value = getattr(value, part, None)
        return None if value in _UNSET.get(path, ()) else value

    @property
    def buckets(self) -> int:
        """The number of buckets of topic records (PIP-157); 1 is the flat layout."""
        return self.numberOfTopicBuckets or 1


_FIELDS = frozenset(Policies.__struct_fields__) - {"kept"}
# Values that Pulsar writes for "nothing was said here".
_UNSET: dict[str, tuple[Any, ...]] = {
    "schema_compatibility_strategy": ("UNDEFINED",),
    "schema_validation_enforced": (False,),
    "subscription_types_enabled": ([],),
}


@cache
def _parts(path: str) -> tuple[str, ...]:
    """One shared string per name: Python caches thousands of requested attribute names by their strings, and would
    otherwise keep a new string for each."""
    return tuple(path.split("."))


def _set(value: msgspec.Struct) -> dict[str, Any]:
    return {name: one for name, one in msgspec.to_builtins(value).items() if one is not None}


def _unknown(kept: Any, value: msgspec.Struct) -> dict[str, Any]:
    """The unknown fields of the original document inside this field."""
    if not isinstance(kept, Mapping):
        return {}
    return {name: old for name, old in kept.items() if name not in value.__struct_fields__}
