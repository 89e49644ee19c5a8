"""Lookups follow redirects to an end, and hosts that do not answer are passed over."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import Misuse, NotBuilt, NotReady, TopicNotFound, Unreachable
from magnetar.client.connection.address import address, addresses
from magnetar.client.connection.lookup import Lookup, Route
from magnetar.client.connection.pool import Pool
from magnetar.runtime.system_runtime import RealRuntime
from magnetar.wire import commands
from magnetar.wire.proto import pb
from tests.unit.client.world import Link, a_broker, a_lookup

pytestmark = pytest.mark.real_clock

K = pb.BaseCommand


async def test_redirect_is_followed_with_its_authority() -> None:
    async with a_broker() as first, a_broker() as second, a_lookup(first) as lookup:
        first.handlers[K.LOOKUP] = lambda link, command: (
            link.write(commands.lookup_redirect(command.lookupTopic.request_id, second.url)) or True
        )
        assert await lookup.broker("persistent://public/default/t") == Route(second.url)
        assert second.kinds(K.LOOKUP)[0].lookupTopic.authoritative


async def test_brokers_that_point_at_each_other_are_given_up() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        broker.handlers[K.LOOKUP] = lambda link, command: (
            link.write(commands.lookup_redirect(command.lookupTopic.request_id, broker.url)) or True
        )
        with pytest.raises(NotReady):
            await lookup.broker("persistent://public/default/t")
        assert len(broker.kinds(K.LOOKUP)) == 21


async def test_proxy_is_told_broker() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:

        def through(link: Link, command: pb.BaseCommand) -> bool:
            link.write(
                commands.lookup_connect(command.lookupTopic.request_id, "pulsar://inner:7000", through_service_url=True)
            )
            return True

        broker.handlers[K.LOOKUP] = through
        route = await lookup.broker("persistent://public/default/t")
        assert route == Route(broker.url, "inner:7000")
        await lookup.pool.get(route.url, proxied=route.proxied)
        assert broker.kinds(K.CONNECT)[1].connect.proxy_to_broker_url == "inner:7000"


async def test_failures_inside_answers_are_raised() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        broker.handlers[K.PARTITIONED_METADATA] = lambda link, command: (
            link.write(commands.partitions_failed(command.partitionMetadata.request_id, 11, "no namespace")) or True
        )
        with pytest.raises(TopicNotFound, match="no namespace"):
            await lookup.partitions("persistent://nobody/default/t")
        broker.handlers[K.GET_SCHEMA] = lambda link, command: (
            link.write(commands.schema_failed(command.getSchema.request_id, 11, "no schema")) or True
        )
        with pytest.raises(TopicNotFound, match="no schema"):
            await lookup.schema("persistent://public/default/t", b"\0" * 8)


async def test_topics_are_listed_with_their_hash() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:

        def listed(link: Link, command: pb.BaseCommand) -> bool:
            asked = command.getTopicsOfNamespace
            assert (asked.mode, asked.topics_pattern) == (pb.CommandGetTopicsOfNamespace.ALL, "a.*")
            link.write(commands.topics_of_namespace(asked.request_id, ["t"], topics_hash="ab", filtered=True))
            return True

        broker.handlers[K.GET_TOPICS_OF_NAMESPACE] = listed
        found = await lookup.topics("public/default", "ALL", pattern="a.*")
        assert (found.names, found.hash, found.filtered, found.changed) == (["t"], "ab", True, True)


async def test_host_that_does_not_answer_is_passed_over() -> None:
    async with a_broker() as broker:
        pool = Pool(RealRuntime())
        lookup = Lookup(pool, f"pulsar://127.0.0.1:1,{broker.url.removeprefix('pulsar://')}")
        broker.partitions = 3
        assert await lookup.partitions("persistent://public/default/t") == 3
        await pool.close()


async def test_host_that_is_not_ready_is_left_for_next_one() -> None:
    async with a_broker() as first, a_broker() as second:
        for broker in (first, second):
            broker.partitions = 3
            broker.handlers[K.LOOKUP] = lambda link, command: (
                link.write(commands.lookup_connect(command.lookupTopic.request_id, "pulsar://owner:6650")) or True
            )
        pool = Pool(RealRuntime())
        lookup = Lookup(pool, f"{first.url},{second.url.removeprefix('pulsar://')}")
        asked = (await lookup.service()).url
        hurt, sound = (first, second) if asked == first.url else (second, first)
        hurt.handlers[K.LOOKUP] = lambda link, command: (
            link.write(commands.lookup_failed(command.lookupTopic.request_id, pb.ServiceNotReady, "no store")) or True
        )
        with pytest.raises(NotReady):
            await lookup.broker("persistent://public/default/t")
        assert (await lookup.service()).url == sound.url
        assert await lookup.broker("persistent://public/default/t") == Route("pulsar://owner:6650")
        await pool.close()


async def test_clients_of_one_url_spread_over_its_hosts() -> None:
    first: set[str] = set()
    for _ in range(50):
        pool = Pool(RealRuntime())
        first.add(Lookup(pool, "pulsar://a:1,b:2,c:3")._services[0])
        await pool.close()
    assert first == {"pulsar://a:1", "pulsar://b:2", "pulsar://c:3"}


async def test_hosts_that_all_refuse_are_unreachable_with_whole_url() -> None:
    pool = Pool(RealRuntime())
    lookup = Lookup(pool, "pulsar://127.0.0.1:1,127.0.0.1:2")
    with pytest.raises(Unreachable) as caught:
        await lookup.service()
    assert caught.value.facts["url"] == "pulsar://127.0.0.1:1,127.0.0.1:2"
    await pool.close()


async def test_host_that_does_not_refuse_is_not_unreachable() -> None:
    async with a_broker() as broker:
        broker.handlers[K.CONNECT] = lambda link, command: link.cut() or True
        pool = Pool(RealRuntime())
        lookup = Lookup(pool, f"{broker.url},127.0.0.1:1")
        with pytest.raises(NotReady) as caught:
            await lookup.service()
        assert not isinstance(caught.value, Unreachable)
        await pool.close()


async def test_two_that_ask_at_once_share_connection() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        found = await asyncio.gather(*(lookup.pool.get(broker.url) for _ in range(5)))
        assert len(set(found)) == 1
        assert len(broker.links) == 1


async def test_host_that_refuses_is_not_ready() -> None:
    pool = Pool(RealRuntime())
    with pytest.raises(NotReady):
        await pool.get("pulsar://127.0.0.1:1")
    await pool.close()


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("pulsar://localhost:6650", ["localhost:6650"]),
        ("pulsar://a:1,b:2/", ["a:1", "b:2"]),
        ("pulsar://a", ["a:6650"]),
        ("pulsar://[::1]:7", ["[::1]:7"]),
    ],
)
def test_urls(url, hosts):
    assert [str(found) for found in addresses(url)] == hosts
    assert address(url).url == f"pulsar://{hosts[0]}"


@pytest.mark.parametrize("url", ["localhost:6650", "pulsar://", "pulsar://a:b", "pulsar://a:0", "pulsar://:1"])
def test_urls_that_cannot_be(url):
    with pytest.raises(Misuse):
        addresses(url)


@pytest.mark.parametrize("url", ["pulsar+ssl://a:1", "http://a:1"])
def test_urls_of_another_kind_are_not_built(url):
    with pytest.raises(NotBuilt):
        addresses(url)
