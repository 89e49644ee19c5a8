"""Overrides that every broker follows, also after it missed something."""

from __future__ import annotations

import pytest

from magnetar.base.errors import Misuse, NotBuilt, Refused
from magnetar.policy.dynamic import PATH, Dynamic
from magnetar.policy.settings import Settings
from magnetar.runtime.system_runtime import RealRuntime
from simulation.stores.metadata import MemoryStore
from tests.contract.stores import until

pytestmark = pytest.mark.real_clock


async def test_what_one_broker_sets_another_follows_and_restart_finds() -> None:
    store = MemoryStore()
    here, there = Settings(), Settings()
    one, two = Dynamic(store, here, RealRuntime()), Dynamic(store.peer(), there, RealRuntime())
    await one.start()
    await two.start()
    await one.set("maxTopicsPerNamespace", "5")
    assert here.number("maxTopicsPerNamespace") == 5
    await until(lambda: there.number("maxTopicsPerNamespace") == 5)
    assert here.dynamic_values() == {"maxTopicsPerNamespace": "5"}
    later = Settings()
    three = Dynamic(store.peer(), later, RealRuntime())
    await three.start()
    assert later.number("maxTopicsPerNamespace") == 5
    await two.unset("maxTopicsPerNamespace")
    await until(lambda: here.number("maxTopicsPerNamespace") == 0)
    for dynamic in (one, two, three):
        await dynamic.close()


async def test_what_cannot_be_set_is_refused_and_not_stored() -> None:
    store = MemoryStore()
    dynamic = Dynamic(store, Settings(), RealRuntime())
    await dynamic.start()
    with pytest.raises(Refused, match="Can't update non-dynamic configuration"):
        await dynamic.set("clusterName", "x")
    with pytest.raises(Refused, match="Can't delete non-dynamic configuration"):
        await dynamic.unset("nosuchkey")
    with pytest.raises(Misuse):
        await dynamic.set("maxTopicsPerNamespace", "many")
    with pytest.raises(NotBuilt, match="dispatcherMaxReadBatchSize"):
        await dynamic.set("dispatcherMaxReadBatchSize", "7")
    assert await store.get(PATH) is None
    await dynamic.close()


async def test_change_missed_while_session_was_lost_is_followed_afterwards() -> None:
    store = MemoryStore()
    settings = Settings()
    dynamic = Dynamic(store, settings, RealRuntime())
    await dynamic.start()
    store.lose_session(server_side=True)
    store.regain_session()
    await store.peer().put(PATH, b'{"defaultNumPartitions":"3"}')
    await until(lambda: settings.number("defaultNumPartitions") == 3)
    await store.put(PATH, b"not json")
    store.reconnect()
    assert settings.number("defaultNumPartitions") == 3
    await dynamic.close()
