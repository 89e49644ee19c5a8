"""Policies of a namespace: obeyed by topics that are already loaded, refused where nothing would obey them."""

from __future__ import annotations

import pytest

from magnetar.admin.resources.policies import NOT_OBEYED, TABLE
from magnetar.base.errors import ProducerBusy
from magnetar.topic.topic import Topic
from tests.unit.admin.world import a_world

pytestmark = pytest.mark.real_clock

ONE = "/admin/v2/namespaces/public/default"
TOPIC = "persistent://public/default/t"


async def test_policy_change_and_removal_apply_to_loaded_topics() -> None:
    async with a_world() as world:
        topic = await world.topic(TOPIC)
        await world.do("POST", f"{ONE}/deduplication", True)
        assert topic.dedup is not None
        await world.do("POST", f"{ONE}/maxProducersPerTopic", 1)
        await world.produce(TOPIC, "one")
        with pytest.raises(ProducerBusy):
            await world.produce(TOPIC, "two")
        await world.do("DELETE", f"{ONE}/maxProducersPerTopic")
        await world.produce(TOPIC, "two")
        await world.do("DELETE", f"{ONE}/deduplication")
        assert topic.dedup is None


async def test_choice_of_active_consumer_follows_namespace_then_broker() -> None:
    async with a_world() as world:
        name = "activeConsumerFailoverConsistentHashing"
        topic = await world.topic(TOPIC)

        def chosen() -> bool:
            return topic.settings.failover_consistent_hashing

        assert not chosen()
        await world.do("POST", f"/admin/v2/brokers/configuration/{name}/true")
        await world.node.topics.configure()
        assert chosen()
        await world.do("POST", f"{ONE}/{name}", False)
        assert not chosen()
        assert await world.get(f"{ONE}/{name}") is False
        await world.do("DELETE", f"{ONE}/{name}")
        assert chosen()
        assert (await world.ask("GET", f"{ONE}/{name}")).body == b""
        await world.do("DELETE", f"/admin/v2/brokers/configuration/{name}")
        await world.node.topics.configure()
        assert not chosen()


async def test_dynamic_setting_of_wrong_form_is_refused_and_changes_nothing() -> None:
    async with a_world() as world:
        one = "/admin/v2/brokers/configuration"
        assert (await world.ask("POST", f"{one}/maxTenants/lots")).status == 412
        assert (await world.ask("POST", f"{one}/clusterName/x")).status == 412
        assert (await world.ask("POST", f"{one}/dispatcherMaxReadBatchSize/7")).status == 501
        assert await world.get(f"{one}/values") == {}
        await world.do("POST", f"{one}/maxTenants/2")
        assert await world.get(f"{one}/values") == {"maxTenants": "2"}
        assert (await world.get(f"{one}/runtime"))["maxTenants"] == "2"
        keys = await world.get(one)
        assert "maxTenants" in keys
        assert "dispatcherMaxReadBatchSize" not in keys
        answer = await world.ask("PUT", "/admin/v2/tenants/third", {"allowedClusters": ["standalone"]})
        assert answer.status == 412


@pytest.mark.parametrize("name", NOT_OBEYED)
async def test_what_nobody_would_obey_is_not_taken(name: str) -> None:
    async with a_world() as world:
        before = await world.get(ONE)
        for method in ("POST", "PUT", "DELETE"):
            answer = await world.ask(method, f"{ONE}/{name}", 1)
            assert answer.status == 501
            assert name in answer.reason
        assert await world.get(ONE) == before


@pytest.mark.parametrize("policy", TABLE, ids=lambda policy: policy.name)
async def test_reading_unset_policy_is_empty_or_its_default(policy: object) -> None:
    async with a_world() as world:
        answer = await world.ask("GET", f"{ONE}/{policy.name}")  # type: ignore[attr-defined]
        assert answer.status == 200
        assert answer.body == (b"" if policy.unset is None else b"%d" % policy.unset)  # type: ignore[attr-defined]


async def test_new_namespace_is_held_to_rules_of_its_policies() -> None:
    async with a_world() as world:
        bad: dict[str, object] = {"retention_policies": {"retentionTimeInMinutes": 5, "retentionSizeInMB": 0}}
        assert (await world.ask("PUT", "/admin/v2/namespaces/public/new", bad)).status == 400
        assert (
            await world.ask("PUT", "/admin/v2/namespaces/public/new", {"max_producers_per_topic": -1})
        ).status == 412
        assert (await world.ask("GET", "/admin/v2/namespaces/public/new")).status == 404
        good = {"deduplicationEnabled": True, "max_topics_per_namespace": 1, "madeByOthers": {"x": 1}}
        await world.do("PUT", "/admin/v2/namespaces/public/new", good)
        await world.do("POST", "/admin/v2/namespaces/public/new/messageTTL", 5)
        shown = await world.get("/admin/v2/namespaces/public/new")
        assert shown["madeByOthers"] == {"x": 1}
        assert shown["message_ttl_in_seconds"] == 5
        topic = await world.topic("persistent://public/new/t")
        assert isinstance(topic, Topic)
        assert topic.dedup is not None
        assert (await world.ask("PUT", "/admin/v2/persistent/public/new/more")).status == 412


async def test_replication_is_to_this_cluster_alone() -> None:
    async with a_world() as world:
        await world.do("PUT", "/admin/v2/clusters/other", {"serviceUrl": "http://other:8080"})
        assert (await world.ask("POST", f"{ONE}/replication", ["standalone"])).status == 200
        assert (await world.ask("POST", f"{ONE}/replication", ["nosuch"])).status == 403
        assert (await world.ask("POST", f"{ONE}/replication", ["standalone", "other"])).status == 501
        assert await world.get(f"{ONE}/replication") == ["standalone"]
