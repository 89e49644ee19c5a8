"""Ownership by locks: one acquisition whoever asks, lost answers, earlier lives, rivals, and ends that do not hang."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from magnetar.base.bundles import Bundle
from magnetar.base.errors import Conflict, NotReady
from magnetar.base.limits import REGISTRATION_WAIT_S
from magnetar.base.names import NamespaceName, namespace_name
from magnetar.cluster.lock_ownership import LockOwnership
from magnetar.cluster.ownership import Broker, Candidate, Urls
from magnetar.cluster.registration import owner_of, owner_value
from magnetar.metadata import paths
from simulation.environment.inline_runtime import InlineRuntime
from simulation.stores.metadata import MemoryStore, lost_answer
from tests.unit.clock import pass_s, settle
from tests.unit.topic.world import HeldStore, NoFiles

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
        self.runtime = InlineRuntime(files)
        self.lost: list[tuple[NamespaceName, Bundle]] = []
        self.locked = LockOwnership(
            store, self.runtime, self.me, lost=lambda namespace, bundle: self.lost.append((namespace, bundle))
        )

    async def start(self) -> Party:
        await self.locked.start(self.me)
        return self

    async def take(self) -> None:
        assert await self.locked.owner(*PLACE, authoritative=True) == self.me


@asynccontextmanager
async def parties() -> AsyncIterator[tuple[Party, Party]]:
    files: Any = NoFiles()
    store = HeldStore(InlineRuntime(files))
    one = await Party(1, store).start()
    two = await Party(2, HeldStore(one.runtime, content=store.content)).start()
    yield one, two
    for party in (one, two):
        party.store.release()
        await party.locked.leave()
        await party.locked.close()


async def nothing() -> None:
    return None


async def test_all_who_ask_at_once_wait_for_one_acquisition() -> None:
    async with parties() as (one, _):
        puts = one.store.puts
        asked = [one.locked.owner(*PLACE, authoritative=True) for _ in range(5)]
        assert await asyncio.gather(*asked) == [one.me] * 5
        assert one.store.puts - puts == 1


async def test_of_two_who_are_asked_with_authority_at_once_one_has_it() -> None:
    async with parties() as (one, two):
        found = await asyncio.gather(*(party.locked.owner(*PLACE, authoritative=True) for party in (one, two)))
        assert found[0] == found[1]
        assert sorted(len(party.locked.held()) for party in (one, two)) == [0, 1]


async def test_without_authority_only_the_candidate_takes_it() -> None:
    async with parties() as (one, two):
        answers = [await party.locked.owner(*PLACE) for party in (one, two)]
        again = [await party.locked.owner(*PLACE) for party in (one, two)]
        assert again[0] == again[1]
        assert isinstance(again[0], Broker)
        for found in answers:
            assert (found.broker if isinstance(found, Candidate) else found) == again[0]


async def test_known_takes_nothing() -> None:
    async with parties() as (one, two):
        assert await one.locked.known(*PLACE) is None
        assert await two.locked.known(*PLACE) is None
        assert await one.store.get(PATH) is None
        await one.take()
        assert await two.locked.known(*PLACE) == one.me
        assert await one.locked.known(*PLACE) == one.me


@pytest.mark.parametrize("happened", [True, False])
async def test_a_lost_answer_to_the_acquisition_leaves_nobody_without_an_owner(happened: bool) -> None:
    async with parties() as (one, two):
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


async def test_the_record_of_an_earlier_life_is_taken_over_at_once() -> None:
    async with parties() as (one, two):
        await MemoryStore(content=one.store.content).put(PATH, owner_value(one.me), ephemeral=True)
        await settle()
        assert await two.locked.owner(*PLACE) == one.me
        assert await one.locked.owns(*PLACE)
        node = await one.store.get(PATH)
        assert node is not None
        assert node.stat.mine


async def test_a_broker_that_is_not_the_owner_may_load_nothing() -> None:
    async with parties() as (one, two):
        assert not await one.locked.owns(*PLACE)
        await two.take()
        assert not await one.locked.owns(*PLACE)


async def test_a_lock_that_went_unnoticed_is_found_out_before_a_load() -> None:
    async with parties() as (one, two):
        await one.take()
        one.store._listeners.clear()
        one.store.content.end_session(one.store.session_id)
        await settle()
        await two.take()
        assert await one.locked.owner(*PLACE) == one.me  # it does not know
        assert not await one.locked.owns(*PLACE)
        assert one.lost == [PLACE]
        assert await one.locked.owner(*PLACE) == two.me


async def test_while_it_is_released_it_is_neither_loaded_nor_promised() -> None:
    async with parties() as (one, two):
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


async def test_a_release_whose_answer_was_lost_frees_the_bundle_all_the_same() -> None:
    async with parties() as (one, two):
        await one.take()
        one.store.faults.append(lost_answer(happened=False))
        await one.locked.release(*PLACE, nothing)
        assert one.locked.held() == []
        # The record still names it: a lookup elsewhere sends clients there, and there it is taken again.
        assert await two.locked.owner(*PLACE) == one.me
        assert await one.locked.owns(*PLACE)


async def test_a_broker_that_leaves_is_no_candidate_and_takes_nothing() -> None:
    async with parties() as (one, two):
        await one.locked.leave()
        await settle()
        assert [broker.id for broker in await two.locked.brokers()] == [two.me.id]
        with pytest.raises(NotReady):
            await one.locked.owner(*PLACE, authoritative=True)
        assert await two.locked.owner(*PLACE) == two.me


async def test_closing_does_not_wait_for_a_store_that_is_silent() -> None:
    async with parties() as (one, _):
        await one.take()
        one.store.hold()
        closing = asyncio.get_running_loop().create_task(one.locked.close())
        await pass_s(30)
        assert closing.done()


async def test_a_second_broker_under_the_same_id_does_not_start() -> None:
    async with parties() as (one, _):
        rival = Party(1, HeldStore(one.runtime, content=one.store.content))
        starting = asyncio.get_running_loop().create_task(rival.locked.start(a_broker(1, port=7000)))
        await pass_s(REGISTRATION_WAIT_S + 1)
        with pytest.raises(Conflict, match="advertisedAddress"):
            await starting
        await rival.locked.close()


async def test_a_broker_started_again_waits_for_its_earlier_life_to_end() -> None:
    async with parties() as (one, two):
        again = Party(1, HeldStore(one.runtime, content=one.store.content))
        starting = asyncio.get_running_loop().create_task(again.locked.start(a_broker(1, port=7000)))
        await pass_s(1)
        assert not starting.done()
        one.store._listeners.clear()
        one.store.content.end_session(one.store.session_id)
        await pass_s(REGISTRATION_WAIT_S / 2)
        await starting
        assert again.me.id in [broker.id for broker in await two.locked.brokers()]
        await again.locked.close()


async def test_what_a_record_says_of_its_owner_is_what_lookups_answer() -> None:
    async with parties() as (one, two):
        await one.take()
        node = await two.store.get(PATH)
        assert node is not None
        assert node.stat.ephemeral
        assert owner_of(node.value) == await two.locked.owner(*PLACE) == one.me
