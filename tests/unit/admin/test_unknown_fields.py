"""A policy with a slip in its name is refused with the right one; a strange name is let through, as in Pulsar."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.admin.world import a_world

pytestmark = pytest.mark.real_clock

ONE = "/admin/v2/namespaces/public/spelt"
# Fields of Pulsar's own policies that are not among ours.
PULSARS = [
    "offload_deletion_lag_ms",
    "offload_policies",
    "schema_auto_update_compatibility_strategy",
    "resource_group_name",
    "dispatcherPauseOnAckStatePersistentEnabled",
    "entryFilters",
    "replicator_dispatch_on_acks",
    "nosuchfield",
]


@pytest.mark.parametrize(
    ("body", "wrong", "right"),
    [
        ({"numberOfTopicBucket": 4}, "numberOfTopicBucket", "numberOfTopicBuckets"),
        ({"numberoftopicbuckets": 4}, "numberoftopicbuckets", "numberOfTopicBuckets"),
        ({"retentionPolicies": {}}, "retentionPolicies", "retention_policies"),
        ({"retention_policy": {}}, "retention_policy", "retention_policies"),
        (
            {"retention_policies": {"retentionTimeInMinute": 5, "retentionSizeInMB": 5}},
            "retentionTimeInMinute",
            "retentionTimeInMinutes",
        ),
    ],
)
async def test_misspelt_policy_of_new_namespace_is_400_and_makes_none(
    body: dict[str, Any], wrong: str, right: str
) -> None:
    async with a_world() as world:
        answer = await world.ask("PUT", ONE, body)
        assert answer.status == 400
        assert answer.document["reason"].startswith(f"unknown field {wrong}, did you mean {right}? ")
        assert "public/spelt" not in await world.get("/admin/v2/namespaces/public")


async def test_refusal_lists_fields_there_are() -> None:
    async with a_world() as world:
        reason = (await world.ask("PUT", ONE, {"numberOfTopicBucket": 4})).document["reason"]
        for field in ("message_ttl_in_seconds", "deduplicationEnabled", "activeConsumerFailoverConsistentHashing"):
            assert field in reason
        assert "kept" not in reason


async def test_misspelt_field_of_one_policy_is_400_and_changes_nothing() -> None:
    async with a_world() as world:
        await world.do("PUT", ONE)
        answer = await world.ask("POST", f"{ONE}/retention", {"retentionTimeInMinutes": 5, "retentionSizeInMb": 5})
        assert (answer.status, "did you mean retentionSizeInMB?" in answer.document["reason"]) == (400, True)
        assert (await world.ask("GET", f"{ONE}/retention")).body == b""


@pytest.mark.parametrize("field", PULSARS)
async def test_field_that_is_nobodys_slip_is_let_through(field: str) -> None:
    async with a_world() as world:
        answer = await world.ask("PUT", ONE, {field: 1, "deduplicationEnabled": True})
        assert answer.status in (204, 501), "taken, or refused as a policy that is not obeyed; never as a slip"
        await world.do("PUT", f"{ONE}-unset", {field: None, "deduplicationEnabled": True})
