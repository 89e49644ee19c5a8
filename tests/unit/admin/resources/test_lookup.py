"""HTTP lookup as the stock client needs it: the field without which it dies, and 404 where nothing can come to be."""

from __future__ import annotations

import pytest

from tests.unit.admin.world import a_world

pytestmark = pytest.mark.real_clock

ONE = "/lookup/v2/topic/persistent/public/default/t"


async def test_answer_has_every_url_even_those_that_are_not_there() -> None:
    async with a_world() as world:
        found = await world.get(ONE)
        assert found["brokerUrl"] == found["nativeUrl"] == world.node.addresses.url
        assert found["httpUrl"] == world.node.addresses.http_url
        assert found["brokerUrlTls"] == found["httpUrlTls"] == ""


async def test_named_listener_is_answered_and_unknown_one_is_not() -> None:
    async with a_world(advertisedListeners="outside:pulsar://far:7000") as world:
        assert (await world.get(f"{ONE}?listenerName=outside"))["brokerUrl"] == "pulsar://far:7000"
        assert (await world.ask("GET", f"{ONE}?listenerName=nosuch")).status == 404


async def test_topic_that_nothing_could_make_is_not_found() -> None:
    async with a_world() as world:
        await world.do("PUT", "/admin/v2/persistent/public/default/parts/partitions", 2)
        policy = {"allowAutoTopicCreation": False}
        await world.do("POST", "/admin/v2/namespaces/public/default/autoTopicCreation", policy)
        assert (await world.ask("GET", ONE)).status == 404
        parts = "/lookup/v2/topic/persistent/public/default/parts"
        statuses = [(await world.ask("GET", parts + tail)).status for tail in ("", "-partition-1", "-partition-2")]
        assert statuses == [200, 200, 404]
        assert (await world.ask("GET", "/lookup/v2/topic/persistent/public/nosuch/t")).status == 404
