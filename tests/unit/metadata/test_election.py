"""One leader, across resignations, lost sessions and lost answers (SC-D4)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from magnetar.base.errors import TimedOut
from magnetar.metadata.election import Election, State
from magnetar.metadata.store import MetadataStore
from magnetar.runtime.system_runtime import RealRuntime
from simulation.stores.metadata import MemoryStore, lost_answer
from tests.contract.stores import Engine, Expiring, On, until

pytestmark = pytest.mark.real_clock

PATH = "/leader"


def candidate(store: MetadataStore, value: bytes, heard: Callable[[State], None] | None = None) -> Election:
    election = Election(store, RealRuntime(), PATH, value, heard)
    election.start()
    return election


def test_only_candidate_leads_and_steps_down_at_close(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        heard: list[State] = []
        one = candidate(store, b"one", heard.append)
        assert await one.leader() == b"one"
        assert one.state is State.LEADING
        await one.close()
        assert heard == [State.LEADING, State.NO_LEADER]
        assert await store.get(PATH) is None

    on(body)


def test_leader_whose_session_expired_leads_again(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        one = candidate(store, b"one")
        await one.leader()
        for server_side in (True, False):
            await store.expire_session(server_side=server_side)
            await until(lambda: not one._running and one.state is State.LEADING)
            node = await store.get(PATH)
            assert node is not None
            assert (node.value, node.stat.mine) == (b"one", True)
        await one.close()

    on(body)


async def test_one_of_many_candidates_leads_and_another_succeeds() -> None:
    first = MemoryStore()
    stores = [first, *(first.peer() for _ in range(4))]
    candidates = [candidate(store, b"%d" % n) for n, store in enumerate(stores)]
    values = {await one.leader() for one in candidates}
    assert len(values) == 1
    while candidates:
        leading = [one for one in candidates if one.state is State.LEADING]
        assert len(leading) == 1
        candidates.remove(leading[0])
        await leading[0].close()
        await until(lambda: all(one.state is not State.NO_LEADER and not one._running for one in candidates))


async def test_leader_that_lost_its_session_to_rival_follows() -> None:
    store = MemoryStore()
    rival = store.peer()
    one = candidate(store, b"one")
    assert await one.leader() == b"one"
    store.lose_session(server_side=False)
    assert one.state is State.LEADING  # the loss alone says nothing about who leads
    await rival.delete(PATH)
    two = candidate(rival, b"two")
    store.regain_session()
    await until(lambda: not one._running and not two._running)
    assert await one.leader() == await two.leader()
    assert {one.state, two.state} == {State.LEADING, State.FOLLOWING}
    await one.close()
    await two.close()


async def test_crashed_leaders_place_is_taken() -> None:
    store = MemoryStore()
    rival = store.peer()
    one = candidate(store, b"one")
    await one.leader()
    two = candidate(rival, b"two")
    assert await two.leader() == b"one"
    store.reopen()
    await until(lambda: two.state is State.LEADING)
    assert await two.leader() == b"two"
    await two.close()


async def test_lost_answer_does_not_make_two_leaders_and_reconnecting_decides() -> None:
    store = MemoryStore()
    store.faults.extend([lost_answer(happened=False), lost_answer(happened=False)])
    one = candidate(store, b"one")
    await until(lambda: not one._running)
    assert one.state is State.NO_LEADER
    with pytest.raises(TimedOut):
        await one.leader(wait_s=0)
    while store.faults:
        store.reconnect()
        await until(lambda: not one._running)
    store.reconnect()
    assert await one.leader() == b"one"
    await one.close()
