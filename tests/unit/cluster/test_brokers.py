"""The brokers that live, as the store has them."""

from __future__ import annotations

import pytest

from magnetar.cluster.brokers import Brokers
from magnetar.cluster.ownership import Broker, Urls
from magnetar.cluster.registration import member_value
from magnetar.metadata import paths
from simulation.stores.metadata import MemoryStore

pytestmark = pytest.mark.real_clock


def a_broker(number: int) -> Broker:
    host = f"broker-{number}"
    return Broker(f"{host}:8080", Urls(f"pulsar://{host}:6650", "", f"http://{host}:8080"))


async def register(store: MemoryStore, broker: Broker) -> None:
    await store.put(paths.broker(broker.id), member_value(broker), ephemeral=True)


async def test_who_comes_and_goes_is_seen() -> None:
    store = MemoryStore()
    other = store.peer()
    brokers = Brokers(store)
    assert await brokers.live() == {}
    await register(other, a_broker(2))
    await register(store, a_broker(1))
    assert await brokers.live() == {broker.id: broker for broker in (a_broker(1), a_broker(2))}
    assert list(await brokers.live()) == sorted(await brokers.live())
    await other.close()
    assert list(await brokers.live()) == ["broker-1:8080"]
    brokers.close()


async def test_list_is_reread_only_after_change_gap_or_session() -> None:
    store = MemoryStore()
    brokers = Brokers(store)
    await register(store, a_broker(1))
    first = await brokers.live()
    assert await brokers.live() is first
    store.resync()
    again = await brokers.live()
    assert again is not first
    await store.expire_session(server_side=True)
    assert await brokers.live() == {}
    brokers.close()


async def test_registration_that_cannot_be_read_hides_no_other() -> None:
    store = MemoryStore()
    brokers = Brokers(store)
    await store.put(paths.broker("broken:8080"), b"\xff", ephemeral=True)
    await register(store, a_broker(1))
    assert list(await brokers.live()) == ["broker-1:8080"]
    brokers.close()
