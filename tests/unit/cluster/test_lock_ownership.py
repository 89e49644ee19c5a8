"""Ownership by locks: one acquisition whoever asks, lost answers, earlier lives, rivals, and ends that do not hang."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from magnetar.base.bundles import Bundle
from magnetar.base.errors import Conflict, NotReady, SessionLost
from magnetar.base.limits import SESSION_S
from magnetar.base.names import NamespaceName, namespace_name
from magnetar.cluster.lock_ownership import LockOwnership
from magnetar.cluster.ownership import Broker, Candidate, Urls
from magnetar.cluster.registration import owner_of, owner_value
from magnetar.cluster.session_keeper import SessionKeeper
from magnetar.cluster.session_state import SessionPolicy
from magnetar.metadata import paths
from simulation.environment.inline_runtime import InlineRuntime
from simulation.stores.metadata import MemoryStore, lost_answer
from tests.support.virtual_clock import pass_s, run_on_clock, settle
from tests.unit.topic.world import HeldStore, NoFiles

SEEDS = itertools.count(1)
PLACE = namespace_name("public/default"), Bundle(0, 0x40000000)
PATH = paths.ownership(PLACE[0], str(PLACE[1]))


def a_broker(number: int, port: int = 6650) -> Broker:
    host = f"broker-{number}"
    return Broker(f"{host}:8080", Urls(f"pulsar://{host}:{port}", "", f"http://{host}:8080"))


class Party:
    """One broker's ownership on its own handle of the store."""

    def __init__(self, number: int, store: HeldStore) -> None:
        files: Any = NoFiles()
        self.me = a_broker(number)
        self.store = store
        self.runtime = InlineRuntime(files, seed=next(SEEDS))
        self.ended: list[SessionLost] = []
        self.keeper = SessionKeeper(
            store, self.runtime, policy=SessionPolicy.RECONNECT, attempts_max=3, ended=self.ended.append
        )
        self.lost: list[tuple[NamespaceName, Bundle]] = []
        self.locked = LockOwnership(
            store,
            self.runtime,
            self.me,
            lost=lambda namespace, bundle: self.lost.append((namespace, bundle)),
            keeper=self.keeper,
        )

    async def start(self) -> Party:
        await self.locked.start(self.me)
        return self

    async def take(self) -> None:
        assert await self.locked.owner(*PLACE, authoritative=True) == self.me


def run(body: Callable[[Party, Party], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        files: Any = NoFiles()
        store = HeldStore(InlineRuntime(files))
        one = await Party(1, store).start()
        two = await Party(2, HeldStore(one.runtime, content=store.content)).start()
        await body(one, two)
        for party in (one, two):
            party.store.release()
            await party.locked.leave()
            await party.locked.close()

    run_on_clock(main)


async def nothing() -> None:
    return None


def test_all_who_ask_at_once_wait_for_one_acquisition() -> None:
    async def body(one: Party, two: Party) -> None:
        await settle()  # the election of a leader writes too
        puts = one.store.puts
        asked = [one.locked.owner(*PLACE, authoritative=True) for _ in range(5)]
        assert await asyncio.gather(*asked) == [one.me] * 5
        assert one.store.puts - puts == 1

    run(body)


def test_both_brokers_name_first_as_leader_until_it_leaves() -> None:
    async def body(one: Party, two: Party) -> None:
        assert [(await party.locked.leader()).id for party in (one, two)] == [one.me.id] * 2
        await one.locked.leave()
        await settle()
        leader = await two.locked.leader()
        assert (leader.id, leader.urls.http) == (two.me.id, two.me.urls.http)
        with pytest.raises(NotReady, match="starting or stopping"):
            await one.locked.leader()

    run(body)


def test_bundle_that_another_broker_owned_counts_as_taken_over() -> None:
    async def body(one: Party, two: Party) -> None:
        await one.take()
        assert await two.locked.owner(*PLACE) == one.me
        await one.locked.release(*PLACE, nothing)
        await two.take()
        assert [party.locked.bundles_acquired for party in (one, two)] == [1, 1]
        assert [party.locked.bundles_taken_over for party in (one, two)] == [0, 1]

    run(body)


def test_one_of_two_brokers_asked_with_authority_acquires_bundle() -> None:
    async def body(one: Party, two: Party) -> None:
        found = await asyncio.gather(*(party.locked.owner(*PLACE, authoritative=True) for party in (one, two)))
        assert found[0] == found[1]
        assert sorted(len(party.locked.held()) for party in (one, two)) == [0, 1]

    run(body)


def test_without_authority_only_candidate_takes_it() -> None:
    async def body(one: Party, two: Party) -> None:
        answers = [await party.locked.owner(*PLACE) for party in (one, two)]
        again = [await party.locked.owner(*PLACE) for party in (one, two)]
        assert again[0] == again[1]
        assert isinstance(again[0], Broker)
        for found in answers:
            assert (found.broker if isinstance(found, Candidate) else found) == again[0]

    run(body)


def test_known_takes_nothing() -> None:
    async def body(one: Party, two: Party) -> None:
        assert await one.locked.known(*PLACE) is None
        assert await two.locked.known(*PLACE) is None
        assert await one.store.get(PATH) is None
        await one.take()
        assert await two.locked.known(*PLACE) == one.me
        assert await one.locked.known(*PLACE) == one.me

    run(body)


@pytest.mark.parametrize("happened", [True, False])
def test_lost_answer_to_acquisition_leaves_nobody_without_owner(happened: bool) -> None:
    async def body(one: Party, two: Party) -> None:
        await one.locked.known(*PLACE)
        await two.locked.known(*PLACE)
        one.store.faults.extend([lost_answer(happened=happened)] * 3)
        with pytest.raises(NotReady, match="Failed to acquire ownership"):
            await one.locked.owner(*PLACE, authoritative=True)
        one.store.faults.clear()
        # The record may name a broker that does not know it: whoever is sent there makes it take the bundle.
        found = await two.locked.owner(*PLACE)
        if found == one.me:
            assert happened
            assert await one.locked.owns(*PLACE)
        else:
            assert not await one.locked.owns(*PLACE) or found == Candidate(one.me)

    run(body)


def test_record_of_another_process_is_foreign_until_session_ends() -> None:
    async def body(one: Party, two: Party) -> None:
        earlier = MemoryStore(content=one.store.content)
        await earlier.put(PATH, owner_value(one.me), ephemeral=True)
        await settle()
        assert await two.locked.owner(*PLACE) == one.me
        with pytest.raises(NotReady):
            await one.locked.owns(*PLACE)
        one.store.content.end_session(earlier.session_id)
        await settle()
        await one.take()
        node = await one.store.get(PATH)
        assert node is not None
        assert node.stat.mine

    run(body)


def test_record_of_old_session_is_waited_for_and_then_replaced() -> None:
    async def body(one: Party, two: Party) -> None:
        await one.take()
        before = one.store.session_id
        await one.store.expire_session(server_side=False)
        await pass_s(SESSION_S / 3 - 1)
        node = await one.store.get(PATH)
        assert node is not None
        assert not node.stat.mine  # the server may still end the old session
        assert one.locked.held() == [PLACE]
        await pass_s(2)
        node = await one.store.get(PATH)
        assert node is not None
        assert node.stat.mine
        assert one.store.session_id != before
        assert one.lost == []
        assert one.locked.validated_s == pytest.approx(SESSION_S / 3, abs=1)

    run(body)


def test_end_of_old_session_at_server_ends_wait() -> None:
    async def body(one: Party, two: Party) -> None:
        await one.take()
        await one.store.expire_session(server_side=False)
        await pass_s(1)
        one.store.forget_sessions()
        await settle()
        node = await one.store.get(PATH)
        assert node is not None
        assert node.stat.mine
        assert one.lost == []

    run(body)


def test_hundreds_of_bundles_are_validated_concurrently() -> None:
    async def body(one: Party, two: Party) -> None:
        bundles = [Bundle(number * 1000, (number + 1) * 1000) for number in range(300)]
        for bundle in bundles:
            await one.locked.owner(PLACE[0], bundle, authoritative=True)
        await one.store.expire_session(server_side=False)
        await pass_s(SESSION_S / 3 + 1)
        assert len(one.locked.held()) == 300
        for bundle in bundles:
            node = await one.store.get(paths.ownership(PLACE[0], str(bundle)))
            assert node is not None
            assert node.stat.mine

    run(body)


def test_broker_that_is_not_owner_may_load_nothing() -> None:
    async def body(one: Party, two: Party) -> None:
        assert not await one.locked.owns(*PLACE)
        await two.take()
        assert not await one.locked.owns(*PLACE)

    run(body)


def test_lock_that_went_unnoticed_is_found_out_before_load() -> None:
    async def body(one: Party, two: Party) -> None:
        await one.take()
        one.store._listeners.clear()
        one.store.content.end_session(one.store.session_id)
        await settle()
        await two.take()
        assert await one.locked.owner(*PLACE) == one.me  # it does not know
        assert not await one.locked.owns(*PLACE)
        assert one.lost == [PLACE]
        assert await one.locked.owner(*PLACE) == two.me

    run(body)


def test_while_it_is_released_it_is_neither_loaded_nor_promised() -> None:
    async def body(one: Party, two: Party) -> None:
        await one.take()
        emptied = asyncio.Event()

        async def empty() -> None:
            await emptied.wait()

        releasing = asyncio.get_running_loop().create_task(one.locked.release(*PLACE, empty))
        await settle()
        for asked in (one.locked.owner(*PLACE), one.locked.owns(*PLACE)):
            with pytest.raises(NotReady, match="is being unloaded"):
                await asked
        releasing.cancel()  # whoever asked for it is gone: it is done all the same
        await settle()
        emptied.set()
        await settle()
        assert one.locked.held() == []
        assert await one.store.get(PATH) is None
        await two.take()

    run(body)


def test_release_whose_answer_was_lost_frees_bundle_all_same() -> None:
    async def body(one: Party, two: Party) -> None:
        await one.take()
        one.store.faults.append(lost_answer(happened=False))
        await one.locked.release(*PLACE, nothing)
        assert one.locked.held() == []
        # The record still names it: a lookup elsewhere sends clients there, and there it is taken again.
        assert await two.locked.owner(*PLACE) == one.me
        assert await one.locked.owns(*PLACE)

    run(body)


def test_broker_that_leaves_is_no_candidate_and_takes_nothing() -> None:
    async def body(one: Party, two: Party) -> None:
        await one.locked.leave()
        await settle()
        assert [broker.id for broker in await two.locked.brokers()] == [two.me.id]
        with pytest.raises(NotReady):
            await one.locked.owner(*PLACE, authoritative=True)
        assert await two.locked.owner(*PLACE) == two.me

    run(body)


def test_closing_does_not_wait_for_store_that_is_silent() -> None:
    async def body(one: Party, two: Party) -> None:
        await one.take()
        one.store.hold()
        closing = asyncio.get_running_loop().create_task(one.locked.close())
        await pass_s(30)
        assert closing.done()

    run(body)


def test_second_broker_under_same_id_does_not_start() -> None:
    async def body(one: Party, two: Party) -> None:
        rival = Party(1, HeldStore(one.runtime, content=one.store.content))
        starting = asyncio.get_running_loop().create_task(rival.locked.start(a_broker(1)))
        await pass_s(SESSION_S * 2)
        with pytest.raises(Conflict, match=r"process .*, started .* it is alive: stop it"):
            await starting
        assert one.me.id in [broker.id for broker in await two.locked.brokers()]
        await rival.locked.close()

    run(body)


def test_broker_started_again_waits_for_its_earlier_life_to_end() -> None:
    async def body(one: Party, two: Party) -> None:
        again = Party(1, HeldStore(one.runtime, content=one.store.content))
        starting = asyncio.get_running_loop().create_task(again.locked.start(a_broker(1)))
        await pass_s(1)
        assert not starting.done()
        one.store._listeners.clear()
        one.store.content.end_session(one.store.session_id)
        await pass_s(SESSION_S)
        await starting
        assert again.me.id in [broker.id for broker in await two.locked.brokers()]
        await again.locked.close()

    run(body)


def test_what_record_says_of_its_owner_is_what_lookups_answer() -> None:
    async def body(one: Party, two: Party) -> None:
        await one.take()
        node = await two.store.get(PATH)
        assert node is not None
        assert node.stat.ephemeral
        assert owner_of(node.value) == await two.locked.owner(*PLACE) == one.me

    run(body)
