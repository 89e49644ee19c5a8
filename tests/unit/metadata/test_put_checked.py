"""An answer that never came: put_checked finds out what happened, or says that it cannot."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import BadVersion, NotReady, Unknown
from magnetar.base.limits import METADATA_CHECKED_TRIES_MAX
from magnetar.metadata.put_checked import put_checked
from magnetar.metadata.store import ABSENT
from simulation.stores.metadata import InjectedFault, MemoryStore, lost_answer

pytestmark = pytest.mark.real_clock


@pytest.mark.parametrize("happened", [True, False])
async def test_lost_answer_ends_with_value_there_once(happened: bool) -> None:
    store = MemoryStore()
    store.faults.append(lost_answer(happened=happened))
    stat = await put_checked(store, "/a", b"mine", expected=ABSENT)
    node = await store.get("/a")
    assert node is not None
    assert (node.value, node.stat) == (b"mine", stat)
    assert stat.first_version


async def test_lost_answer_to_retry_is_found_too() -> None:
    store = MemoryStore()
    old = await store.put("/a", b"old")
    store.faults.extend([lost_answer(happened=False), lost_answer(happened=False), lost_answer(happened=True)])
    stat = await put_checked(store, "/a", b"mine", expected=old.version)
    assert stat.version != old.version
    node = await store.get("/a")
    assert node is not None
    assert node.value == b"mine"


async def test_rival_after_lost_answer_is_neither_loss_nor_win() -> None:
    store = MemoryStore()
    rival = store.peer()
    store.faults.append(lost_answer(happened=True))
    task = asyncio.get_running_loop().create_task(put_checked(store, "/a", b"mine", expected=ABSENT))
    await asyncio.sleep(0)
    await rival.put("/a", b"theirs")
    with pytest.raises(Unknown):
        await task
    node = await rival.get("/a")
    assert node is not None
    assert node.value == b"theirs"


async def test_rival_that_was_there_before_is_plain_bad_version() -> None:
    store = MemoryStore()
    await store.put("/a", b"theirs")
    with pytest.raises(BadVersion):
        await put_checked(store, "/a", b"mine", expected=ABSENT)


async def test_store_that_stays_silent_ends_as_unknown() -> None:
    store = MemoryStore()
    store.faults.extend([lost_answer(happened=False)] * (METADATA_CHECKED_TRIES_MAX * 3))
    with pytest.raises(Unknown):
        await put_checked(store, "/a", b"mine", expected=ABSENT)
    assert store.puts == 0


@pytest.mark.parametrize("answered", [0, 2])
async def test_refusal_after_lost_answer_is_not_called_definite(answered: int) -> None:
    store = MemoryStore()
    refusal = InjectedFault(NotReady("no quorum"), happened=False)
    store.faults.extend([lost_answer(happened=True), *[lost_answer(happened=False)] * answered, refusal])
    with pytest.raises(Unknown):
        await put_checked(store, "/a", b"mine", expected=ABSENT)
    store.faults.clear()
    assert await store.get("/a") is not None
