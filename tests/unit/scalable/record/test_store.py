"""Records are read anew every time, and decoded anew only when they have changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.base.limits import RECORDS_DECODED_MAX
from magnetar.base.names import TopicName, topic_name
from magnetar.metadata.store import ABSENT
from magnetar.scalable.record.record import created
from magnetar.scalable.record.store import RecordStore
from simulation.stores.metadata import MemoryStore

pytestmark = pytest.mark.real_clock


def named(number: int) -> TopicName:
    return topic_name(f"topic://public/default/t{number}")


async def test_same_bytes_are_the_same_record_and_another_write_is_seen_at_once() -> None:
    store = MemoryStore()
    records, others = RecordStore(store), RecordStore(store)
    made = created(None, 4, now_ms=1)
    version = await records.write(named(0), made, ABSENT)
    first, _ = await records.fresh(named(0))
    again, _ = await records.fresh(named(0))
    assert first == made
    assert again is first
    version = await others.write(named(0), replace(made, subs_gen=7), version)
    assert await records.fresh(named(0)) == (replace(made, subs_gen=7), version)
    await others.write(named(0), made, version)
    back, _ = await records.fresh(named(0))
    assert back == made


async def test_what_is_kept_is_bounded_and_the_one_used_last_stays() -> None:
    records = RecordStore(MemoryStore())
    for number in range(RECORDS_DECODED_MAX):
        await records.write(named(number), created(None, 1, now_ms=number), ABSENT)
        await records.fresh(named(number))
    kept, _ = await records.fresh(named(0))
    await records.write(named(-1), created(None, 1, now_ms=0), ABSENT)
    await records.fresh(named(-1))
    assert (await records.fresh(named(0)))[0] is kept
    assert len(records._decoded) == RECORDS_DECODED_MAX
