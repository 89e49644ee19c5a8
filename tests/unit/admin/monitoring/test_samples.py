"""What a scrape shows of topics in memory, of topics that left it with a backlog, and of whole scalable topics."""

from __future__ import annotations

import re
from typing import Any

import pytest

from magnetar.base.limits import RATE_INTERVAL_S
from tests.support.virtual_clock import settle
from tests.unit.admin.world import World, a_world
from tests.unit.broker.world import Client

pytestmark = pytest.mark.real_clock

NAME = "persistent://public/default/t"
ONE = "/admin/v2/persistent/public/default/t"
X = "topic://public/default/x"


async def scraped(world: World) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Samples by family, without the label of the cluster."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for line in (await world.ask("GET", "/metrics")).body.decode().splitlines():
        if not line.startswith("#"):
            name, labels, value = re.fullmatch(r"(\w+)\{(.*)\} (\S+)", line).groups()  # type: ignore[union-attr]
            pairs = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            del pairs["cluster"]
            found.setdefault(name, []).append((pairs, float(value)))
    return found


def value(found: dict[str, list[tuple[dict[str, str], float]]], family: str, **labels: str) -> Any:
    """Of the one sample that has these labels; None: there is none."""
    some = [number for pairs, number in found.get(family, []) if labels.items() <= pairs.items()]
    assert len(some) <= 1, (family, some)
    return some[0] if some else None


async def test_backlog_of_unloaded_topic_stays_until_it_is_gone() -> None:
    async with a_world() as world:
        await world.do("PUT", ONE)
        await world.do("PUT", f"{ONE}/subscription/s", "earliest")
        await world.publish_batches(NAME, [3, 4])
        for _ in range(2):
            found = await scraped(world)
            assert value(found, "pulsar_msg_backlog", topic=NAME) == 2
            assert value(found, "pulsar_subscription_back_log", topic=NAME, subscription="s") == 2
            assert value(found, "magnetar_subscription_lag_messages", topic=NAME, subscription="s") == 7
            assert value(found, "magnetar_subscription_lag_seconds", topic=NAME, subscription="s") > 1000
            assert value(found, "pulsar_storage_backlog_size", topic=NAME) > 0
            assert value(found, "pulsar_in_messages_total", topic=NAME) == 7
            assert value(found, "pulsar_producers_count", topic=NAME) == 0
            await world.do("PUT", f"{ONE}/unload")
        assert value(found, "pulsar_broker_topics_count") == 0
        assert value(found, "magnetar_topics_unloaded_with_backlog") == 1
        assert value(found, "pulsar_topics_count", namespace="public/default") == 1
        await world.do("POST", f"{ONE}/subscription/s/skip_all")
        assert value(await scraped(world), "magnetar_subscription_lag_messages", topic=NAME) == 0
        await world.do("PUT", f"{ONE}/unload")
        assert value(await scraped(world), "pulsar_msg_backlog", topic=NAME) is None
        assert value(await scraped(world), "magnetar_topics_unloaded_with_backlog") == 0


async def test_deleted_topic_leaves_no_sample() -> None:
    async with a_world() as world:
        await world.do("PUT", ONE)
        await world.do("PUT", f"{ONE}/subscription/s", "earliest")
        await world.publish(NAME, b"1")
        await world.do("PUT", f"{ONE}/unload")
        await world.do("DELETE", f"{ONE}?force=true")
        assert value(await scraped(world), "pulsar_msg_backlog", topic=NAME) is None


async def test_counters_go_on_after_unload() -> None:
    async with a_world() as world:
        await world.publish(NAME, b"1", b"2")
        consumer, _ = await world.consume(NAME, "s")
        sent = consumer.messages_out
        since = (await world.get(f"{ONE}/stats"))["countersSinceTimestamp"]
        await world.do("PUT", f"{ONE}/unload")
        world.runtime.later_s += 5
        await world.publish(NAME, b"3")
        found = await scraped(world)
        assert value(found, "pulsar_in_messages_total", topic=NAME) == 3
        assert value(found, "pulsar_out_messages_total", topic=NAME) == sent
        assert (await world.get(f"{ONE}/stats"))["countersSinceTimestamp"] == since


async def test_write_latency_and_entry_size_are_recorded_by_entry() -> None:
    async with a_world() as world:
        client = Client(world.node).connect()
        await client.produce(1, topic=NAME)
        await scraped(world)
        for number in range(3):
            client.send(number)
        await settle()
        world.runtime.later_s += RATE_INTERVAL_S
        found = await scraped(world)
        assert value(found, "pulsar_storage_write_latency_count", topic=NAME) == 3
        assert sum(value(found, f"pulsar_entry_size_{end}", topic=NAME) for end in ("le_128", "le_512")) == 3
        assert value(found, "magnetar_storage_write_latency_seconds_bucket", le="+Inf") == 3
        assert value(found, "pulsar_broker_publish_latency", quantile="0.99") >= 0
        world.runtime.later_s += RATE_INTERVAL_S
        assert value(await scraped(world), "pulsar_storage_write_latency_count", topic=NAME) == 0
        await world.do("PUT", f"{ONE}/unload")
        assert value(await scraped(world), "magnetar_storage_write_latency_seconds_count") == 3


async def test_scalable_topic_has_sums_segments_splits_and_waiting_ones() -> None:
    async with a_world() as world:
        rest = "/admin/v2/scalable/public/default/x"
        await world.do("PUT", rest)
        await world.do("PUT", f"{rest}/subscriptions/s")
        await world.publish_batches("segment://public/default/x/0000-ffff-0", [5])
        await world.do("POST", f"{rest}/split/0")
        await world.publish_batches("segment://public/default/x/0000-7fff-1", [2])
        await world.node.handlers.holds.expiry.look()
        found = await scraped(world)
        assert value(found, "pulsar_scalable_topic_active_segments", topic=X) == 2
        assert value(found, "pulsar_scalable_topic_sealed_segments", topic=X) == 1
        assert value(found, "pulsar_scalable_topic_splits_total", topic=X) == 1
        assert value(found, "pulsar_scalable_topic_merges_total", topic=X) == 0
        assert value(found, "pulsar_scalable_topic_controller_leader", topic=X) == 1
        assert value(found, "pulsar_scalable_topic_in_messages_total", topic=X) == 7
        assert value(found, "magnetar_scalable_subscription_lag_messages", topic=X, subscription="s") == 7
        assert value(found, "magnetar_scalable_subscription_waiting_segments", topic=X, subscription="s") == 2
        await world.do("DELETE", f"{rest}?force=true")
        await world.node.handlers.holds.expiry.look()
        assert value(await scraped(world), "pulsar_scalable_topic_active_segments", topic=X) is None
