"""Automatic scaling over REST: layers of the policy, pauses, explanations, and scaling on request."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.admin.monitoring.test_samples import scraped, value
from tests.unit.admin.resources.scalable.test_topics import X, a_world

pytestmark = pytest.mark.real_clock

TOPIC = f"{X}/autoScalePolicy"
NAMESPACE = "/admin/v2/namespaces/public/default/scalableTopicAutoScalePolicy"


async def effective(world: Any) -> dict[str, Any]:
    policy: dict[str, Any] = (await world.get(f"{X}/autoScale"))["policy"]
    return policy


async def test_topic_wins_over_namespace_and_namespace_over_broker() -> None:
    async with a_world(scalableTopicAutoScaleEnabled="true") as world:
        await world.do("PUT", X)
        assert (await effective(world))["maxSegments"] == 64
        await world.do("POST", "/admin/v2/brokers/configuration/scalableTopicMaxSegments/32")
        assert (await effective(world))["maxSegments"] == 32
        await world.do("POST", NAMESPACE, {"maxSegments": 16, "enabled": False})
        await world.do("POST", TOPIC, {"maxSegments": 8})
        report = await world.get(f"{X}/autoScale")
        assert (report["policy"]["maxSegments"], report["policy"]["enabled"]) == (8, False)
        assert report["layers"] == ["topic", "namespace", "broker"]
        assert report["cause"] == "automatic scaling is disabled by the policy"
        assert await world.get(TOPIC) == {"maxSegments": 8}
        assert (await world.get(X))["autoScalePolicy"] == {"maxSegments": 8}
        assert await world.get(NAMESPACE) == {"maxSegments": 16, "enabled": False}
        await world.do("DELETE", TOPIC)
        await world.do("DELETE", NAMESPACE)
        assert [(await world.ask("GET", path)).body for path in (TOPIC, NAMESPACE)] == [b"", b""]
        assert (await effective(world))["enabled"] is True


@pytest.mark.parametrize("path", [TOPIC, NAMESPACE])
@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"maxSegments": -1}, 412),
        ({"splitMsgRateInThreshold": 10}, 412),
        ({"maxSegmets": 4}, 400),
        ({"maxSegments": "many"}, 400),
    ],
)
async def test_invalid_policy_is_refused_and_not_stored(path: str, body: dict[str, Any], status: int) -> None:
    async with a_world(scalableTopicAutoScaleEnabled="true") as world:
        await world.do("PUT", X)
        assert (await world.ask("POST", path, body)).status == status
        assert (await world.ask("GET", path)).body == b""


async def test_topic_policy_is_checked_together_with_namespace() -> None:
    async with a_world(scalableTopicAutoScaleEnabled="true") as world:
        await world.do("PUT", X)
        await world.do("POST", NAMESPACE, {"maxSegments": 4})
        answer = await world.ask("POST", TOPIC, {"minSegments": 5})
        assert (answer.status, answer.reason) == (
            412,
            "Invalid auto split/merge configuration: maxSegments must be >= minSegments",
        )


async def test_policy_of_missing_topic_is_not_found() -> None:
    async with a_world(scalableTopicAutoScaleEnabled="true") as world:
        for method, path in (("GET", TOPIC), ("DELETE", TOPIC), ("GET", f"{X}/autoScale"), ("POST", f"{X}/scale")):
            assert (await world.ask(method, f"{path}?segments=2")).status == 404


async def test_paused_topic_keeps_its_policy() -> None:
    async with a_world(scalableTopicAutoScaleEnabled="true") as world:
        await world.do("PUT", X)
        await world.do("POST", TOPIC, {"maxSegments": 8})
        await world.do("POST", f"{X}/autoScale/pause")
        report = await world.get(f"{X}/autoScale")
        assert (report["cause"], report["policy"]["maxSegments"]) == ("automatic scaling of this topic is paused", 8)
        await world.do("POST", f"{X}/autoScale/resume")
        assert await world.get(TOPIC) == {"maxSegments": 8}


async def test_topic_is_scaled_on_request_and_held() -> None:
    async with a_world(scalableTopicAutoScaleEnabled="true") as world:
        await world.do("PUT", X)
        done = (await world.ask("POST", f"{X}/scale?segments=6&holdSeconds=3600")).document
        assert (done["before"], done["after"]) == (1, 6)
        assert done["heldUntilMs"] > world.node.runtime.wall()
        policy = await effective(world)
        assert (policy["heldSegments"], policy["heldUntilMs"]) == (6, done["heldUntilMs"])
        operations = await world.get(f"{X}/operations")
        assert [(one["kind"], one["trigger"]) for one in operations] == [("SPLIT", "manual")]
        again = (await world.ask("POST", f"{X}/scale?segments=4")).document
        assert (again["before"], again["after"], again["heldUntilMs"]) == (6, 6, 0)
        assert (await effective(world)).get("heldSegments", 0) == 0


@pytest.mark.parametrize("query", ["segments=0", "segments=1025", "segments=2&holdSeconds=9999999"])
async def test_scaling_out_of_bounds_is_refused(query: str) -> None:
    async with a_world(scalableTopicAutoScaleEnabled="true") as world:
        await world.do("PUT", X)
        assert (await world.ask("POST", f"{X}/scale?{query}")).status == 412
        assert len((await world.get(X))["segments"]) == 1


async def test_wanted_consumers_are_shown_for_deployments() -> None:
    async with a_world(scalableTopicAutoScaleEnabled="true") as world:
        await world.do("PUT", f"{X}?numInitialSegments=2")
        await world.do("PUT", f"{X}/subscriptions/s")
        assert await world.get(f"{X}/subscriptions/s/wantedConsumers") == {"wantedConsumers": 1, "consumers": 0}
        assert (await world.ask("GET", f"{X}/subscriptions/nosuch/wantedConsumers")).status == 404


async def test_decisions_are_kept_with_inputs_and_counted() -> None:
    async with a_world(scalableTopicAutoScaleEnabled="true") as world:
        await world.do("PUT", f"{X}?numInitialSegments=2")
        scaler = world.node.autoscaler
        [name] = await world.node.scalable.names("public/default")
        for _ in range(3):
            await scaler.evaluate(name)
        [decision] = await world.get(f"{X}/autoScale/history")
        assert (decision["kind"], decision["reason"], decision["times"]) == ("MERGE", "merge-window", 3)
        assert decision["segmentIds"] == [0, 1]
        assert decision["eligibleMs"] > decision["atMs"]
        assert decision["thresholds"]["merge msgRateIn"] == 1000


async def test_metrics_show_decisions_and_wanted_consumers() -> None:
    async with a_world(scalableTopicAutoScaleEnabled="true") as world:
        await world.do("PUT", f"{X}?numInitialSegments=2")
        await world.do("PUT", f"{X}/subscriptions/s")
        await world.do("POST", TOPIC, {"maxDagDepth": 0})
        [name] = await world.node.scalable.names("public/default")
        await world.node.autoscaler.evaluate(name)
        await world.publish_batches("segment://public/default/x/0000-7fff-0", [3])
        await world.node.autoscaler.evaluate(name)
        found = await scraped(world)
        assert value(found, "pulsar_scalable_topic_merge_suppressed_max_depth_total", topic=str(name)) >= 1
        assert value(found, "pulsar_scalable_topic_auto_splits_total", topic=str(name)) == 0
        assert value(found, "pulsar_subscription_wanted_consumers", topic=str(name), subscription="s") >= 1
        assert value(found, "pulsar_segment_rate_in", topic=str(name), segment="0") > 0
        suppressed = {"kind": "MERGE", "taken": "false", "reason": "max-depth"}
        assert value(found, "magnetar_scalable_topic_decisions_total", topic=str(name), **suppressed) >= 1


async def test_bounds_are_checked_again_when_reshape_is_announced() -> None:
    async with a_world(scalableTopicAutoScaleEnabled="true") as world:
        await world.do("PUT", f"{X}?numInitialSegments=2")
        [name] = await world.node.scalable.names("public/default")
        await world.do("POST", TOPIC, {"mergeWindowSeconds": 0, "mergeCooldownSeconds": 0})
        record = await world.node.scalable.read(name)
        _, evaluation = await world.node.autoscaler.look(name, record)
        assert [action.kind for action in evaluation.actions] == ["MERGE"]
        policy, _ = await world.node.autoscaler.policy(name, record)
        await world.do("POST", f"{X}/merge/0/1")  # an operator is faster
        await world.do("POST", f"{X}/split/2")
        await world.node.autoscaler._act(name, evaluation, policy)
        assert [one["kind"] for one in await world.get(f"{X}/operations")] == ["SPLIT", "MERGE"]
