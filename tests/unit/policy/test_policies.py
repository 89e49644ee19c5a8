"""The document in Pulsar's words: nothing that was in it gets lost, nothing that was not set is written."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import Corrupt, Misuse
from magnetar.policy.policies import Bundles, Policies, Retention

FRESH = """{"auth_policies": {"namespace_auth": {}, "destination_auth": {}, "subscription_auth_roles": {}},
 "replication_clusters": ["standalone"], "allowed_clusters": [],
 "bundles": {"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 1},
 "backlog_quota_map": {}, "clusterDispatchRate": {}, "topicDispatchRate": {}, "subscriptionDispatchRate": {},
 "replicatorDispatchRate": {}, "clusterSubscribeRate": {}, "publishMaxMessageRate": {}, "latency_stats_sample_rate": {},
 "deleted": false, "encryption_required": false, "subscription_auth_mode": "None", "offload_threshold": -1,
 "offload_threshold_in_seconds": -1, "schema_compatibility_strategy": "UNDEFINED", "is_allow_auto_update_schema": true,
 "is_allow_auto_update_schema_with_replicator": true, "schema_validation_enforced": false,
 "subscription_types_enabled": [], "properties": {}, "migrated": false}"""

json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def test_new_namespace_is_shown_as_by_pulsar_with_key_order() -> None:
    fresh = Policies(replication_clusters=["standalone"], bundles=Bundles(["0x00000000", "0xffffffff"], 1))
    expected = msgspec.json.decode(FRESH)
    assert fresh.document() == expected
    assert list(fresh.document()) == list(expected)
    assert Policies.decode(fresh.encode()) == msgspec.structs.replace(fresh, kept=expected)


def test_fields_of_newer_version_survive_change_also_inside_known_ones() -> None:
    stored = (
        b'{"retention_policies":{"retentionTimeInMinutes":1,"retentionSizeInMB":2,"tiers":[1]},"fromTheFuture":{"x":1}}'
    )
    policies = Policies.decode(stored)
    changed = msgspec.structs.replace(policies, retention_policies=Retention(5, 6), message_ttl_in_seconds=7)
    document = msgspec.json.decode(changed.encode())
    assert document["fromTheFuture"] == {"x": 1}
    assert document["retention_policies"] == {"retentionTimeInMinutes": 5, "retentionSizeInMB": 6, "tiers": [1]}
    assert document["message_ttl_in_seconds"] == 7


def test_what_is_taken_away_stays_away() -> None:
    policies = Policies.decode(b'{"properties":{"a":"1","b":"2"},"deduplicationEnabled":true,"numberOfTopicBuckets":3}')
    assert policies.buckets == 3
    changed = msgspec.structs.replace(policies, properties={"b": "2"}, deduplicationEnabled=None)
    document = Policies.decode(changed.encode()).document()
    assert document["properties"] == {"b": "2"}
    assert "deduplicationEnabled" not in document
    assert document["numberOfTopicBuckets"] == 3


@given(st.dictionaries(st.text(max_size=8), json, max_size=4))
def test_any_unknown_fields_survive(extra: dict[str, object]) -> None:
    unknown = {key: value for key, value in extra.items() if key not in Policies.__struct_fields__}
    policies = Policies.of({**unknown, "deduplicationEnabled": True})
    again = Policies.decode(msgspec.structs.replace(policies, deduplicationEnabled=False).encode())
    document = again.document()
    assert {key: document[key] for key in unknown} == unknown
    assert again.deduplicationEnabled is False


@pytest.mark.parametrize(
    "body", [[], 1, "x", None, {"deleted": "yes"}, {"bundles": []}, {"message_ttl_in_seconds": "1"}]
)
def test_body_of_wrong_form_is_refused(body: object) -> None:
    with pytest.raises(Misuse) as refused:
        Policies.of(body)
    assert refused.value.http_status == 400


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b'{"deleted":3}'])
def test_stored_record_of_wrong_form_is_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt):
        Policies.decode(data)


def test_one_bucket_unless_said() -> None:
    assert Policies().buckets == 1
    assert "numberOfTopicBuckets" not in Policies().document()
