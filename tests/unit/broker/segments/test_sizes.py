"""What retention keeps of a scalable topic as a whole: by default, by policy, by size."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from magnetar.base.limits import TRIM_S, VISIT_S
from magnetar.policy.policies import Retention
from tests.unit.scalable.world import KEYS, NAME, Cluster, Writer, pass_s

NONE = {"defaultRetentionTimeInMinutes": "0", "defaultRetentionSizeInMB": "0"}


async def a_split_topic(cluster: Cluster) -> int:
    """Without a subscription: messages, a split, messages. How many."""
    service = cluster.members[0].service
    await service.create(NAME)
    writer = Writer(cluster)
    for key in KEYS:
        await writer.send(key)
    await service.split(NAME, 0)
    for key in KEYS:
        await writer.send(key)
    writer.close()
    return 2 * len(KEYS)


async def stored(cluster: Cluster) -> int:
    return sum(len(numbers) for numbers in (await cluster.contents()).values())


@pytest.mark.setup(kept=False)
async def test_split_topic_without_subscription_keeps_its_messages(cluster: Cluster) -> None:
    sent = await a_split_topic(cluster)
    await pass_s(2 * TRIM_S)
    assert await stored(cluster) == sent
    await pass_s(VISIT_S)
    assert await stored(cluster) == sent


@pytest.mark.setup(kept=False, defaultScalableTopicRetentionTimeInMinutes="20")
async def test_messages_go_when_their_retention_is_over(cluster: Cluster) -> None:
    sent = await a_split_topic(cluster)
    await pass_s(1000)
    assert await stored(cluster) == sent
    await pass_s(VISIT_S + TRIM_S)
    assert await stored(cluster) == 0


@pytest.mark.setup(kept=False, **NONE)
async def test_sealed_segment_without_retention_lives_as_open_ledger(cluster: Cluster) -> None:
    sent = await a_split_topic(cluster)
    await pass_s(500)
    assert await stored(cluster) == sent
    await pass_s(VISIT_S)
    assert await stored(cluster) == 0


@pytest.mark.setup(kept=False)
async def test_namespace_policy_of_none_overrides_default(cluster: Cluster) -> None:
    node = cluster.members[0].node
    await node.namespaces.update(NAME.namespace, lambda before: replace(before, retention_policies=Retention(0, 0)))
    await a_split_topic(cluster)
    await pass_s(VISIT_S + TRIM_S)
    assert await stored(cluster) == 0


@pytest.mark.setup(kept=False)
async def test_policy_of_topic_overrides_that_of_namespace(cluster: Cluster) -> None:
    node = cluster.members[0].node
    await node.namespaces.update(NAME.namespace, lambda before: replace(before, retention_policies=Retention(-1, -1)))
    sent = await a_split_topic(cluster)
    await pass_s(VISIT_S + TRIM_S)
    assert await stored(cluster) == sent
    await node.topic_policies.set(NAME, "retentionPolicies", Retention(0, 0))
    await pass_s(VISIT_S + TRIM_S)
    assert await stored(cluster) == 0


@pytest.mark.setup(brokers=2, kept=False, defaultScalableTopicRetentionSizeInMB="2")
async def test_size_limit_is_one_for_all_segments(cluster: Cluster) -> None:
    """Four generations of a megabyte each: a limit of two keeps the newest two, wherever they lie."""

    service = cluster.members[0].service
    await service.create(NAME)
    writer = Writer(cluster, padding_bytes=90_000)
    for generation in range(4):
        for key in KEYS:
            await writer.send(key)
        await pass_s(1)
        await service.split(NAME, generation * 2)
    writer.close()
    await pass_s(2 * VISIT_S)  # idle segments leave memory and are visited
    kept = {number for numbers in (await cluster.contents()).values() for number in numbers}
    assert kept >= {2, 3}
    assert 0 not in kept
