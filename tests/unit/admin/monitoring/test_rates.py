"""Rates are counted over an interval, and a scrape shows every loaded topic in the names dashboards know."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from magnetar.admin.monitoring.rates import observe
from magnetar.base.limits import RATE_INTERVAL_S
from magnetar.broker.standalone import open_node
from magnetar.observe.families import EXTRA_LABELS, FAMILIES
from magnetar.policy.settings import Settings
from magnetar.runtime.system_runtime import RealRuntime
from tests.unit.admin.world import World, a_world

pytestmark = pytest.mark.real_clock

NAME = "persistent://public/default/t"


async def test_rate_covers_last_interval_and_falls_to_zero() -> None:
    async with a_world() as world:
        topic = await world.topic(NAME)
        rates = observe(world.node)
        assert rates.of(topic).messages_in == 0
        await world.publish(NAME, *[b"x"] * 50)
        assert rates.of(topic).messages_in == 0  # the interval is not over
        world.runtime.later_s += RATE_INTERVAL_S
        found = rates.of(topic).messages_in
        assert 0 < found <= 50 / RATE_INTERVAL_S
        assert rates.of(topic).messages_in == found
        world.runtime.later_s += RATE_INTERVAL_S
        assert rates.of(topic).messages_in == 0


async def test_scrape_shows_topics_and_subscriptions() -> None:
    async with a_world() as world:
        await world.publish(NAME, b"1", b"2")
        await world.produce(NAME, "p")
        await world.consume(NAME, "s")
        text = (await world.ask("GET", "/metrics")).body.decode()
        labels = f'cluster="standalone",namespace="public/default",topic="{NAME}"'
        for sample in (
            f"pulsar_in_messages_total{{{labels}}} 2",
            f"pulsar_producers_count{{{labels}}} 1",
            f"pulsar_consumers_count{{{labels}}} 1",
            f"pulsar_subscriptions_count{{{labels}}} 1",
            f"pulsar_msg_backlog{{{labels}}} 2",
            f'pulsar_subscription_back_log{{{labels},subscription="s"}} 2',
            'pulsar_topics_count{cluster="standalone",namespace="public/default"} 1',
        ):
            assert sample + "\n" in text
        assert (await world.ask("GET", "/metrics")).body.decode().count("pulsar_in_messages_total{") == 1


async def test_journal_of_broker_with_disk_is_shown(tmp_path: Path) -> None:
    runtime = RealRuntime()
    node, lock = await open_node(str(tmp_path), Settings(None, {}), runtime)
    await node.start("127.0.0.1", 0, host_shown="localhost")
    await node.serve(8080)
    world = World(node, runtime)  # type: ignore[arg-type]
    await world.publish(NAME, b"1", b"2")
    text = (await world.ask("GET", "/metrics")).body.decode()
    [entries] = re.findall(r'magnetar_journal_entries_total{cluster="standalone"} (\d+)', text)
    assert int(entries) >= 2
    await node.stop()
    lock.release()
    runtime.close()


async def test_every_family_has_help_type_and_labels_of_table() -> None:
    async with a_world() as world:
        await world.publish('persistent://public/default/quo"te', b"1")
        await world.consume(NAME, "s")
        answer = await world.ask("GET", "/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        sample = re.compile(r'[a-zA-Z_:][a-zA-Z0-9_:]*(\{(\w+="([^"\\\n]|\\.)*",?)*\})? (-?[0-9.e+-]+|NaN)')
        helped, typed = [], []
        for line in answer.body.decode().splitlines():
            if line.startswith("# HELP "):
                helped.append(line.split()[2])
            elif line.startswith("# TYPE "):
                typed.append(line.split()[2])
            else:
                assert sample.fullmatch(line), line
                assert line.startswith(typed[-1])  # a family stands together
        assert helped == typed
        assert len(set(typed)) == len(typed)
        for family in text_string_to_metric_families(answer.body.decode()):
            for one in family.samples:
                known = FAMILIES.get(one.name) or FAMILIES[re.sub("_(bucket|sum|count)$", "", one.name)]
                wanted = {"cluster", *known.labels, *EXTRA_LABELS.get(known.name, ())}
                assert set(one.labels) - {"le"} in (wanted, wanted - {"quantile"}), one
