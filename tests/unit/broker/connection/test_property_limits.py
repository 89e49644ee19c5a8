"""Names and properties that clients make a broker keep are bounded, each and in sum (D5)."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.base.errors import LimitExceeded
from magnetar.base.limits import (
    CLIENT_VERSION_CHARS_MAX,
    CONNECTION_KEPT_BYTES_MAX,
    GIVEN_PROPERTIES_BYTES_MAX,
    GIVEN_PROPERTIES_MAX,
    STORED_PROPERTIES_BYTES_MAX,
)
from magnetar.broker.connection.property_limits import Account, StoredProperties
from magnetar.wire.proto import pb
from tests.unit.broker.world import Client, World, settle

_T = pb.BaseCommand


def of_size(size: int) -> list[dict[str, str]]:
    """One property that has so many bytes on the wire, from 200 on."""
    return [{"key": "k", "value": "v" * (size - 3 - (3 if size < 16_384 + 7 else 4))}]


async def asked(client: Client, what: str, **fields: Any) -> pb.BaseCommand:
    return await (client.produce(1, **fields) if what == "producer" else client.subscribe(1, **fields))


@pytest.mark.parametrize("what", ["producer", "consumer"])
async def test_properties_beyond_limit_are_refused_naming_it(world: World, what: str) -> None:
    client = world.client()
    for size in (GIVEN_PROPERTIES_BYTES_MAX + 1, 1_000_000):
        answer = (await asked(client, what, metadata=of_size(size))).error
        assert answer.error == pb.NotAllowedError
        assert str(GIVEN_PROPERTIES_BYTES_MAX) in answer.message
    many = [{"key": str(number), "value": ""} for number in range(GIVEN_PROPERTIES_MAX + 1)]
    answer = (await asked(client, what, metadata=many)).error
    assert str(GIVEN_PROPERTIES_MAX) in answer.message
    assert world.loaded() is None
    assert not (await asked(client, what, metadata=of_size(GIVEN_PROPERTIES_BYTES_MAX))).HasField("error")
    assert not (await asked(world.client(), "consumer", metadata=many[:-1])).HasField("error")


async def test_properties_of_subscription_beyond_limit_are_refused(world: World) -> None:
    client = world.client()
    answer = (await client.subscribe(1, subscription_properties=of_size(STORED_PROPERTIES_BYTES_MAX + 1))).error
    assert str(STORED_PROPERTIES_BYTES_MAX) in answer.message
    given = of_size(STORED_PROPERTIES_BYTES_MAX)
    assert not (await client.subscribe(1, subscription_properties=given)).HasField("error")


async def test_long_client_version_is_refused_naming_limit(world: World) -> None:
    client = world.client(client_version="v" * (CLIENT_VERSION_CHARS_MAX + 1))
    [answer] = client.heard.of(_T.ERROR)
    assert str(CLIENT_VERSION_CHARS_MAX) in answer.error.message
    assert client.wire.closing
    assert world.client(client_version="v" * CLIENT_VERSION_CHARS_MAX).heard.kinds == ["CONNECTED"]


async def test_bytes_are_given_back_when_producers_and_consumers_leave(world: World) -> None:
    client = world.client()
    kept, account = client.connection.kept, world.node.kept
    await client.produce(1, metadata=of_size(1_000), producer_name="p" * 50)
    await client.produce(2, metadata=of_size(1_000))
    await client.subscribe(1, metadata=of_size(1_000), consumer_name="c" * 49)
    assert kept.bytes == account.bytes == 3_100
    await client.ask("CLOSE_PRODUCER", producer_id=1)
    await client.ask("CLOSE_CONSUMER", consumer_id=1)
    assert kept.bytes == account.bytes == 1_000
    client.lose()
    await settle()
    assert kept.bytes == account.bytes == 0


def test_sum_of_connection_is_bounded_by_its_limit() -> None:
    kept = StoredProperties(Account())
    item = pb.CommandProducer(metadata=[pb.KeyValue(key="k", value="v" * 4_000)])
    for made in range(CONNECTION_KEPT_BYTES_MAX // 4_010):
        kept.add("producer", made, kept.check(item, "producer", "name"))
    with pytest.raises(LimitExceeded, match=str(CONNECTION_KEPT_BYTES_MAX)):
        kept.check(item, "producer", "name")
    assert kept.bytes <= CONNECTION_KEPT_BYTES_MAX < kept.bytes + 5_000
    kept.remove("producer", 0)
    kept.add("producer", 0, kept.check(item, "producer", "name"))


def test_ten_thousand_ordinary_producers_fit_one_connection() -> None:
    kept = StoredProperties(Account())
    item = pb.CommandProducer(metadata=[pb.KeyValue(key=f"key-{n}", value="v" * 100) for n in range(10)])
    for made in range(10_000):
        kept.add("producer", made, kept.check(item, "producer", "n" * 100))


def test_sum_of_all_connections_is_bounded() -> None:
    account = Account(bytes_max=10_000)
    first, second = StoredProperties(account), StoredProperties(account)
    item = pb.CommandProducer(metadata=[pb.KeyValue(key="k", value="v" * 4_000)])
    for id in range(2):
        first.add("producer", id, first.check(item, "producer"))
    with pytest.raises(LimitExceeded, match="10000"):
        second.check(item, "producer")
    first.clear()
    second.check(item, "producer")
