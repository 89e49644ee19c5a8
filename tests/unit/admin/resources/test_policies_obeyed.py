"""No policy is accepted and ignored: each one of a namespace and of a topic is obeyed, or refused with 501."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from magnetar.admin.resources.policies import NOT_OBEYED, TABLE
from magnetar.admin.router import table
from magnetar.admin.unsupported import TOPIC_POLICIES
from magnetar.policy.policies import Policies
from tests.unit.admin.world import a_world

pytestmark = pytest.mark.real_clock

UNIT = Path(__file__).parents[2]
NEW = "/admin/v2/namespaces/public/new"
TOPIC = "/admin/v2/persistent/public/default/t"

# Who shows that a policy is obeyed: a file below tests/unit and a test in it.
PROOFS = {
    "retention_policies": ("topic/test_topic.py", "test_retention_keeps_what_everybody_has_read"),
    "message_ttl_in_seconds": (
        "topic/subscriptions/test_expiry.py",
        "test_messages_past_their_time_to_live_are_acknowledged",
    ),
    "deduplicationEnabled": (
        "admin/resources/test_policies.py",
        "test_new_namespace_is_held_to_rules_of_its_policies",
    ),
    "deduplicationSnapshotIntervalSeconds": (
        "topic/dedup/test_snapshots.py",
        "test_snapshot_is_taken_after_while_even_if_little_happens",
    ),
    "delayed_delivery_policies": ("topic/dispatch/test_delay_queue.py", "test_switched_off_nothing_is_held_back"),
    "autoTopicCreationOverride": (
        "admin/resources/test_topics.py",
        "test_asking_for_partitions_makes_topic_only_where_client_would",
    ),
    "autoSubscriptionCreationOverride": (
        "topic/subscriptions/test_subscriptions.py",
        "test_admission_and_settings_are_asked_before_cursor_is_made",
    ),
    "max_producers_per_topic": (
        "topic/producers/test_producers.py",
        "test_producer_limit_admits_returning_producer",
    ),
    "max_consumers_per_topic": (
        "topic/subscriptions/test_subscriptions.py",
        "test_topics_own_limit_counts_all_subscriptions",
    ),
    "max_consumers_per_subscription": (
        "topic/subscriptions/test_subscriptions.py",
        "test_limits_count_who_is_there_and_dead_make_room",
    ),
    "max_unacked_messages_per_consumer": (
        "topic/dispatch/test_shared.py",
        "test_consumer_at_its_cap_waits_and_others_go_on",
    ),
    "max_unacked_messages_per_subscription": (
        "topic/dispatch/test_shared.py",
        "test_cap_of_subscription_stops_everybody_until_acknowledgement",
    ),
    "max_subscriptions_per_topic": (
        "admin/resources/test_subscriptions.py",
        "test_subscription_over_maximum_is_refused_over_rest",
    ),
    "max_topics_per_namespace": (
        "cluster/test_topics.py",
        "test_limit_of_namespace_counts_partitions_in_all_buckets",
    ),
    "activeConsumerFailoverConsistentHashing": (
        "admin/resources/test_policies.py",
        "test_choice_of_active_consumer_follows_namespace_then_broker",
    ),
    "persistence": ("admin/resources/test_policies_quorum.py", "test_new_ledgers_have_quorum_of_policy"),
    "scalableTopicAutoScalePolicy": (
        "admin/resources/scalable/test_autoscale.py",
        "test_topic_wins_over_namespace_and_namespace_over_broker",
    ),
    "replication_clusters": ("admin/resources/test_policies.py", "test_replication_is_to_this_cluster_alone"),
    "bundles": ("cluster/test_bundles.py", "test_topic_is_in_bundle_that_vectors_say"),
    "numberOfTopicBuckets": ("admin/resources/test_namespaces.py", "test_number_of_buckets_is_fixed_at_creation"),
}
# The same for the fields inside a policy; a number is a value that is refused.
INSIDE: dict[str, dict[str, tuple[str, str] | int]] = {
    "retention_policies": {
        "retentionTimeInMinutes": ("ledger/test_retention.py", "test_either_limit_lets_consumed_ledger_go"),
        "retentionSizeInMB": ("ledger/test_retention.py", "test_either_limit_lets_consumed_ledger_go"),
    },
    "delayed_delivery_policies": {
        "active": ("topic/dispatch/test_delay_queue.py", "test_switched_off_nothing_is_held_back"),
        "tickTime": 50,
        "maxDeliveryDelayInMillis": 5,
    },
    "persistence": {
        "bookkeeperEnsemble": (
            "admin/resources/test_policies_quorum.py",
            "test_new_ledgers_have_quorum_of_policy",
        ),
        "bookkeeperWriteQuorum": (
            "admin/resources/test_policies_quorum.py",
            "test_new_ledgers_have_quorum_of_policy",
        ),
        "bookkeeperAckQuorum": (
            "admin/resources/test_policies_quorum.py",
            "test_new_ledgers_have_quorum_of_policy",
        ),
        "managedLedgerMaxMarkDeleteRate": (
            "admin/resources/test_policies_quorum.py",
            "test_mark_delete_rate_below_ours_is_refused",
        ),
    },
    "autoTopicCreationOverride": {
        "allowAutoTopicCreation": (
            "admin/resources/test_lookup.py",
            "test_topic_that_nothing_could_make_is_not_found",
        ),
        "topicType": (
            "admin/resources/test_topics.py",
            "test_asking_for_partitions_makes_topic_only_where_client_would",
        ),
        "defaultNumPartitions": (
            "admin/resources/test_topics.py",
            "test_asking_for_partitions_makes_topic_only_where_client_would",
        ),
    },
    "autoSubscriptionCreationOverride": {
        "allowAutoSubscriptionCreation": (
            "topic/subscriptions/test_subscriptions.py",
            "test_admission_and_settings_are_asked_before_cursor_is_made",
        ),
    },
}
INFORMATION = {"properties", "deleted", "kept"}  # nothing to obey: kept and shown
OPEN = {
    "auth_policies"
}  # permissions: every role has them while security is not built; routes that take them away: 501
REFUSED: dict[str, Any] = {
    "allowed_clusters": ["standalone"],
    "backlog_quota_map": {"destination_storage": {"limitSize": 1, "policy": "producer_exception"}},
    "clusterDispatchRate": {"standalone": {"dispatchThrottlingRateInMsg": 1}},
    "topicDispatchRate": {"standalone": {"dispatchThrottlingRateInMsg": 1}},
    "subscriptionDispatchRate": {"standalone": {"dispatchThrottlingRateInMsg": 1}},
    "replicatorDispatchRate": {"standalone": {"dispatchThrottlingRateInMsg": 1}},
    "clusterSubscribeRate": {"standalone": {"subscribeThrottlingRatePerConsumer": 1}},
    "publishMaxMessageRate": {"standalone": {"publishThrottlingRateInMsg": 1}},
    "latency_stats_sample_rate": {"standalone": 1},
    "subscription_expiration_time_minutes": 5,
    "encryption_required": True,
    "inactive_topic_policies": {"deleteWhileInactive": True},
    "subscription_auth_mode": "Prefix",
    "compaction_threshold": 1,
    "offload_threshold": 1,
    "offload_threshold_in_seconds": 1,
    "schema_compatibility_strategy": "FULL",
    "is_allow_auto_update_schema": False,
    "is_allow_auto_update_schema_with_replicator": False,
    "schema_validation_enforced": True,
    "subscription_types_enabled": ["Shared"],
    "migrated": True,
    # Not among our fields
    "allowed_topic_property_keys_for_metrics": ["x"],
    "antiAffinityGroup": "x",
    "dispatcherPauseOnAckStatePersistentEnabled": True,
    "entryFilters": {"entryFilterNames": "x"},
    "offload_deletion_lag_ms": 1,
    "offload_policies": {"offloadersDirectory": "x"},
    "resource_group_name": "x",
    "schema_auto_update_compatibility_strategy": "Full",
}
# Of the class Policies of Pulsar 4.2.4, 5.0.0-M1 and later, all that a document may hold.
PULSAR = [
    "allowed_clusters",
    "allowed_topic_property_keys_for_metrics",
    "auth_policies",
    "autoSubscriptionCreationOverride",
    "autoTopicCreationOverride",
    "backlog_quota_map",
    "bundles",
    "clusterDispatchRate",
    "clusterSubscribeRate",
    "compaction_threshold",
    "deduplicationEnabled",
    "deduplicationSnapshotIntervalSeconds",
    "delayed_delivery_policies",
    "deleted",
    "dispatcherPauseOnAckStatePersistentEnabled",
    "encryption_required",
    "entryFilters",
    "inactive_topic_policies",
    "is_allow_auto_update_schema",
    "is_allow_auto_update_schema_with_replicator",
    "latency_stats_sample_rate",
    "max_consumers_per_subscription",
    "max_consumers_per_topic",
    "max_producers_per_topic",
    "max_subscriptions_per_topic",
    "max_topics_per_namespace",
    "max_unacked_messages_per_consumer",
    "max_unacked_messages_per_subscription",
    "message_ttl_in_seconds",
    "migrated",
    "offload_deletion_lag_ms",
    "offload_policies",
    "offload_threshold",
    "offload_threshold_in_seconds",
    "persistence",
    "properties",
    "publishMaxMessageRate",
    "replication_clusters",
    "replicatorDispatchRate",
    "resource_group_name",
    "retention_policies",
    "scalableTopicAutoScalePolicy",
    "schema_auto_update_compatibility_strategy",
    "schema_compatibility_strategy",
    "schema_validation_enforced",
    "subscriptionDispatchRate",
    "subscription_auth_mode",
    "subscription_expiration_time_minutes",
    "subscription_types_enabled",
    "topicDispatchRate",
]


def test_every_field_is_obeyed_or_refused() -> None:
    fields = set(Policies.__struct_fields__)
    assert fields - PROOFS.keys() - INFORMATION - OPEN - REFUSED.keys() == set()
    assert PROOFS.keys() & REFUSED.keys() == set()
    assert {policy.field for policy in TABLE} <= PROOFS.keys()


def test_every_field_of_pulsars_document_is_obeyed_or_refused() -> None:
    """D17"""
    assert set(PULSAR) - PROOFS.keys() - INFORMATION - OPEN - REFUSED.keys() == set()


@pytest.mark.parametrize(("path", "test"), PROOFS.values(), ids=PROOFS)
def test_proof_of_policy_exists(path: str, test: str) -> None:
    assert f"def {test}(" in (UNIT / path).read_text()


@pytest.mark.parametrize(("field", "value"), REFUSED.items(), ids=REFUSED)
async def test_new_namespace_with_ignored_policy_is_refused(field: str, value: Any) -> None:
    async with a_world() as world:
        answer = await world.ask("PUT", NEW, {field: value})
        assert (answer.status, field in answer.reason) == (501, True)
        assert (await world.ask("GET", NEW)).status == 404


async def test_new_namespace_may_name_defaults_of_all_policies() -> None:
    """As Pulsar's admin clients do."""

    async with a_world() as world:
        await world.do("PUT", NEW, Policies().document())


async def test_new_namespace_may_grant_what_everybody_may() -> None:
    """The public suite of the stock Python client sets its namespaces up so."""

    async with a_world() as world:
        granted = {"auth_policies": {"namespace_auth": {"anonymous": ["produce", "consume"]}}}
        answer = await world.ask("PUT", NEW, {**granted, "replication_clusters": ["standalone"]})
        assert answer.status == 204
        assert "auth_policies is stored but not enforced" in answer.headers["warning"]
        assert "warning" not in (await world.ask("PUT", f"{NEW}er", {})).headers


def test_every_field_inside_policy_is_obeyed_or_refused() -> None:
    assert {policy.field for policy in TABLE if hasattr(policy.kind, "__struct_fields__")} == INSIDE.keys()
    for field, parts in INSIDE.items():
        (policy,) = [one for one in TABLE if one.field == field]
        assert parts.keys() == set(policy.kind.__struct_fields__)
        for path, test in (proof for proof in parts.values() if isinstance(proof, tuple)):
            assert f"def {test}(" in (UNIT / path).read_text()


async def test_field_of_policy_that_nothing_obeys_is_refused() -> None:
    async with a_world() as world:
        (policy,) = [one for one in TABLE if one.name == "delayedDelivery"]
        path = f"/admin/v2/namespaces/public/default/{policy.name}"
        for part, value in [(part, value) for part, value in INSIDE[policy.field].items() if isinstance(value, int)]:
            body = {"active": True, part: value}
            refused = [await world.ask("POST", path, body), await world.ask("PUT", NEW, {policy.field: body})]
            assert [(one.status, part in one.reason) for one in refused] == [(501, True)] * 2
        await world.do("POST", path, {"active": True, "tickTime": 1000})


def test_every_route_of_namespace_policy_is_obeyed_or_refused() -> None:
    """A new route must come with a proof, or say 501."""
    root = "/admin/v2/namespaces/{tenant}/{namespace}/"
    known = {policy.name for policy in TABLE} | set(NOT_OBEYED)
    known |= {"replication", "numberOfTopicBuckets", "properties", "scalableTopicAutoScalePolicy"}
    written = {
        route.path.removeprefix(root)
        for route in table().routes
        if route.method == "POST" and route.path.startswith(root) and "Not built" not in route.summary
    }
    assert {name for name in written if "/" not in name and not name.startswith("{")} - known <= {"unload"}


@pytest.mark.parametrize("name", TOPIC_POLICIES)
async def test_policy_of_topic_is_refused(name: str) -> None:
    async with a_world() as world:
        await world.do("PUT", TOPIC)
        for method in ("POST", "DELETE"):
            assert (await world.ask(method, f"{TOPIC}/{name}", 1)).status == 501


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("authenticationParameters", "token:x"),
        ("brokerClientTlsEnabled", True),
        ("brokerClientTlsKeyStorePassword", "x"),
    ],
)
async def test_credentials_for_another_cluster_are_refused(field: str, value: Any) -> None:
    async with a_world() as world:
        path = "/admin/v2/clusters/other"
        fine = {"serviceUrl": "http://a:1", "serviceUrlTls": "https://a:2", "brokerClientTlsKeyStoreType": "JKS"}
        answer = await world.ask("PUT", path, {**fine, field: value})
        assert (answer.status, field in answer.reason) == (501, True)
        await world.do("PUT", path, fine)
        assert (await world.ask("POST", path, {**fine, field: value})).status == 501
