"""Policies of single topics in the store: one document a topic, whoever of its parts asks."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import Corrupt
from magnetar.base.names import NamespaceName, namespace_name, topic_name
from magnetar.cluster.topic_policies import TopicPolicies
from magnetar.metadata import paths
from simulation.stores.metadata import MemoryStore

pytestmark = pytest.mark.real_clock

NAMESPACE = namespace_name("public/default")
PLAIN = topic_name("persistent://public/default/a b")
SCALABLE = topic_name("topic://public/default/a b")
SEGMENT = topic_name("segment://public/default/a b/0000-ffff-0")


async def test_parts_have_policies_of_their_topic() -> None:
    policies = TopicPolicies(MemoryStore())
    await policies.set(PLAIN, "one", 1)
    await policies.set(SCALABLE, "one", 2)
    assert await policies.of(PLAIN.partition(3)) == {"one": 1}
    assert await policies.of(SEGMENT) == {"one": 2}
    assert await policies.names(NAMESPACE) == {PLAIN, SCALABLE}
    assert await policies.of(topic_name("non-persistent://public/default/a b")) == {}


async def test_change_of_one_field_keeps_others() -> None:
    store = MemoryStore()
    policies = TopicPolicies(store)
    await policies.set(PLAIN, "one", 1)
    await policies.set(PLAIN, "two", {"three": 3})
    await policies.set(PLAIN, "one", None)
    assert await TopicPolicies(store).of(PLAIN) == {"two": {"three": 3}}


async def test_deletion_of_part_keeps_policies() -> None:
    policies = TopicPolicies(MemoryStore())
    await policies.set(PLAIN, "one", 1)
    await policies.delete(PLAIN.partition(0))
    assert await policies.of(PLAIN) == {"one": 1}
    await policies.delete(PLAIN)
    assert await policies.of(PLAIN) == {}


async def test_change_is_told_with_its_namespace() -> None:
    policies = TopicPolicies(MemoryStore())
    told: list[NamespaceName] = []
    stop = policies.on_change(told.append)
    await policies.set(SCALABLE, "one", 1)
    await policies.delete(SCALABLE)
    await asyncio.sleep(0)
    assert told == [NAMESPACE, NAMESPACE]
    stop()
    policies.close()


async def test_document_that_is_no_object_is_corrupt() -> None:
    store = MemoryStore()
    await store.put(paths.topic_policies(PLAIN), b"[1]")
    with pytest.raises(Corrupt):
        await TopicPolicies(store).of(PLAIN)
