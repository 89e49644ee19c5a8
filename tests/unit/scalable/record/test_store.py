"""Records are read anew every time, and decoded anew only when they have changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.base.errors import BadVersion, TopicNotFound
from magnetar.base.limits import RECORDS_DECODED_MAX
from magnetar.base.names import TopicName, topic_name
from magnetar.metadata import paths
from magnetar.metadata.store import ABSENT
from magnetar.scalable.machines.effects import RecordOvertaken, SubscriptionOvertaken, WriteRecord, WriteSubscription
from magnetar.scalable.record import codec
from magnetar.scalable.record.record import Record, created
from magnetar.scalable.record.store import RecordStore
from magnetar.scalable.record.subscription import Subscription, Type
from simulation.stores.metadata import MemoryStore
from simulation.stores.metadata_faults import FaultRates

pytestmark = pytest.mark.real_clock


def named(number: int) -> TopicName:
    return topic_name(f"topic://public/default/t{number}")


async def test_equal_bytes_are_equal_record_and_writes_are_seen() -> None:
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


async def test_what_is_kept_is_bounded_and_one_used_last_stays() -> None:
    records = RecordStore(MemoryStore())
    for number in range(RECORDS_DECODED_MAX):
        await records.write(named(number), created(None, 1, now_ms=number), ABSENT)
        await records.fresh(named(number))
    kept, _ = await records.fresh(named(0))
    await records.write(named(-1), created(None, 1, now_ms=0), ABSENT)
    await records.fresh(named(-1))
    assert (await records.fresh(named(0)))[0] is kept
    assert len(records._decoded) == RECORDS_DECODED_MAX


async def test_read_for_decision_is_fresh_on_lagging_follower_h_b8() -> None:
    store = MemoryStore()
    lagging = MemoryStore(content=store.content, fault_rates=FaultRates(stale=1.0, lag_s=60.0))
    records, readers = RecordStore(store), RecordStore(lagging)
    record = created(None, 1, now_ms=1)
    version = await records.write(named(0), record, ABSENT)
    assert await readers.fresh(named(0)) == (record, version)
    for term in range(1, 4):
        record = record.claimed()
        version = await records.write(named(0), record, version)
        behind = await lagging.get(paths.scalable(named(0)))
        assert behind is not None
        assert codec.decode(behind.value).term < term, "the follower must lag for this test"
        assert await readers.fresh(named(0)) == (record, version)


async def test_decision_over_outdated_read_is_made_again_h_b8() -> None:
    store = MemoryStore()
    records, others = RecordStore(store), RecordStore(store)
    await records.write(named(0), created(None, 1, now_ms=1), ABSENT)
    before, version = await records.fresh(named(0))
    assert before is not None
    await others.change(named(0), Record.claimed)
    late = WriteRecord("op", version, replace(before, subs_gen=7))
    assert await records.call(named(0), late) == RecordOvertaken("op")
    after = await records.change(named(0), lambda record: replace(record, subs_gen=record.subs_gen + 1))
    assert (after.term, after.subs_gen) == (before.term + 1, before.subs_gen + 1), "both changes are in the record"


async def test_update_never_creates_deleted_record_h_h5() -> None:
    store = MemoryStore()
    records, leader = RecordStore(store), RecordStore(store)
    name, record = named(0), created(None, 1, now_ms=1).claimed()
    version = await leader.write(name, record, ABSENT)
    billing = Subscription("billing", Type.STREAM, life=1, incarnation=record.incarnation)
    billing_version = await leader.write_subscription(name, billing, ABSENT)

    marked = record.deleting()
    buried = await records.write(name, marked.buried(), await records.write(name, marked, version))
    await store.delete(paths.scalable_subscription(name, "billing"), expected=billing_version)
    before = dict(store.content.records)

    with pytest.raises(BadVersion):
        await leader.write(name, replace(record, subs_gen=7), version)
    with pytest.raises(TopicNotFound):
        await leader.change(name, Record.claimed)
    with pytest.raises(TopicNotFound):
        await leader.change(named(1), Record.claimed)
    late = WriteSubscription("op", billing_version, billing)
    assert await leader.call(name, late) == SubscriptionOvertaken("op")
    assert store.content.records == before
    assert await records.fresh(name) == (marked.buried(), buried), "the tombstone stands in place of the record"
