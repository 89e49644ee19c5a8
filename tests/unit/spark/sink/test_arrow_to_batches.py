"""Columns as batches: byte for byte what the client writes for the same rows one by one, each where its key goes."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow is missing: pip install 'magnetar[spark]'")

from magnetar.base.errors import Misuse  # noqa: E402
from magnetar.base.hashes import low16, murmur3  # noqa: E402
from magnetar.client.producer.batch import Batch, Stamp  # noqa: E402
from magnetar.client.producer.prebuilt_batch import BatchingPlan, PrebuiltBatch, by_segments  # noqa: E402
from magnetar.client.producer.router import routing_key  # noqa: E402
from magnetar.client.producer.scalable.segment_queue import BatchLimits  # noqa: E402
from magnetar.layout.layout import initial  # noqa: E402
from magnetar.layout.routing import Routing, segment_hash  # noqa: E402
from magnetar.spark.sink.arrow_to_batches import sheaves  # noqa: E402
from magnetar.spark.sink.arrow_to_messages import messages  # noqa: E402

STAMP = Stamp(7, b"p-seg-1", b"v1", 0, 1 << 20)
LAYOUT = initial(4, now_ms=0, buckets=3)
PLAIN = BatchingPlan(40, 1000, 128 * 1024)


def table(rows: int, *, seed: int = 0, keys: str = "some", more: bool = False) -> Any:
    rng = Random(seed)

    def key() -> Any:
        if keys == "text":
            return f"key-{rng.randrange(50)}"
        if keys == "some":
            return rng.choice([None, b"", b"k" * rng.randrange(200), b"%d" % rng.randrange(40)])
        return rng.choice([None, b"\xff\xfe%d" % rng.randrange(9), b"text-%d" % rng.randrange(9)])

    columns = {
        "key": pa.array([key() for _ in range(rows)], pa.string() if keys == "text" else pa.binary()),
        "value": pa.array([rng.choice([None, rng.randbytes(rng.randrange(300))]) for _ in range(rows)], pa.binary()),
    }
    if more:
        pairs = [rng.choice([None, [], [("a", "b"), ("é", None)]]) for _ in range(rows)]
        columns["properties"] = pa.array(pairs, pa.map_(pa.string(), pa.string()))
        times = [rng.choice([None, 0, 1, 1_800_000_000_123_456]) for _ in range(rows)]
        columns["event_time"] = pa.array(times, pa.timestamp("us", "UTC"))
    return pa.record_batch(list(columns.values()), names=list(columns))


def cut(batch: Any, cutting: BatchingPlan) -> list[PrebuiltBatch]:
    return list(sheaves(batch, batch.schema.names, cutting))


def one_by_one(sheaf: PrebuiltBatch) -> bytes:
    """The same messages as the client would write them."""
    batch = Batch(0.0)
    singles = list(sheaf.singles())
    batch.fill([payload for payload, _, _ in singles], [fields for _, fields, _ in singles])
    batch.hashes = sheaf.hashes
    return batch.close(STAMP, sheaf.sequence, 99)[2]


def values(found: list[PrebuiltBatch]) -> list[tuple[Any, bytes]]:
    return [(None if fields is None else fields.key, payload) for one in found for payload, fields, _ in one.singles()]


@pytest.mark.parametrize("keys", ["text", "some", "bytes"])
@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize("cutting", [PLAIN, by_segments(LAYOUT, Routing.HIGH16, BatchLimits(60, 9000), 1 << 40)])
def test_bytes_are_those_of_same_rows_one_by_one(keys: str, more: bool, cutting: BatchingPlan) -> None:
    batch = table(400, keys=keys, more=more)
    found = cut(batch, cutting)
    for one in found:
        if one.count > 1:
            assert one.frame(STAMP, 99) == one_by_one(one)
        assert len(one) == sum(len(payload) for payload, _, _ in one.singles())
        assert one.count <= cutting.messages_max
        assert len(one.payload) <= cutting.bytes_max
    expected = [(None if fields is None else fields.key, one) for one, fields in messages(batch, batch.schema.names)]
    assert sorted(values(found), key=repr) == sorted(expected, key=repr)
    assert [one.sequence for one in found] == [
        cutting.sequence + sum(one.count for one in found[:place]) for place in range(len(found))
    ]


def test_keys_go_to_segment_and_bucket_in_row_order() -> None:
    cutting = by_segments(LAYOUT, Routing.LOW16, BatchLimits(50, 1 << 20), 0)
    assert cutting is not None
    batch = table(2000, keys="text")
    found = cut(batch, cutting)
    rows: dict[str, list[bytes]] = {}
    for key, payload in values([*found]):
        rows.setdefault(key, []).append(payload)
    for key in rows:
        sent = [one for one, fields in messages(batch, batch.schema.names) if fields is not None and fields.key == key]
        assert rows[key] == sent
    for one in found:
        segments, stamped = set(), []
        for _, fields, route in one.singles():
            assert fields is not None
            key = routing_key(fields)
            assert key is not None
            assert route.slot == segment_hash(key, Routing.LOW16)
            assert route.hash == murmur3(key)
            segments.add(LAYOUT.route(route.slot).id)
            stamped.append(low16(murmur3(key)))
        assert len(segments) == 1
        assert one.hashes == (min(stamped), max(stamped))
        (splits,) = {LAYOUT.segment(id).bucket_splits for id in segments}
        assert len({sum(hash >= split for split in splits) for hash in stamped}) == 1


def test_rows_without_keys_go_round_entry_at_time() -> None:
    cutting = by_segments(LAYOUT, Routing.HIGH16, BatchLimits(100, 1 << 20), 0)
    assert cutting is not None
    batch = pa.record_batch([pa.array([b"%d" % row for row in range(1000)])], names=["value"])
    found = cut(batch, cutting)
    assert {LAYOUT.route(one.route.slot).id for one in found} == {segment.id for segment in LAYOUT.active}
    for one in found:
        assert one.hashes is not None
        assert len({route for _, _, route in one.singles()}) == 1
        assert one.frame(STAMP, 99) == one_by_one(one)


def test_row_larger_than_entry_is_alone() -> None:
    batch = pa.record_batch([pa.array([b"a", b"b" * 5000, b"c"])], names=["value"])
    assert [one.count for one in cut(batch, BatchingPlan(0, 1000, 4096))] == [1, 1, 1]


def test_entries_of_one_destination_are_about_alike() -> None:
    batch = pa.record_batch([pa.array([b"a"] * 1001)], names=["value"])
    assert [one.count for one in cut(batch, BatchingPlan(0, 1000, 1 << 20))] == [501, 500]


def test_slice_of_batch_is_its_own_rows() -> None:
    whole = table(90, more=True)
    batch = whole.slice(31, 40)
    (found,) = cut(batch, PLAIN)
    assert found.frame(STAMP, 99) == one_by_one(found)
    assert values([found]) == values(cut(whole, PLAIN))[31:71]


def test_batch_too_large_to_be_copied_is_written_in_parts() -> None:
    batch = table(100, keys="text")
    whole = values(cut(batch, PLAIN))
    found = list(sheaves(batch, batch.schema.names, PLAIN, bytes_max=batch.nbytes // 3))
    assert len(found) > 2
    assert values(found) == whole
    assert [one.sequence for one in found] == [40 + sum(one.count for one in found[:at]) for at in range(len(found))]


def test_nothing_makes_nothing() -> None:
    assert cut(table(0), PLAIN) == []


def test_time_before_all_times_is_refused() -> None:
    batch = pa.record_batch(
        [pa.array([b"a", b"b"]), pa.array([-5_000_000, 1], pa.timestamp("us"))], names=["value", "event_time"]
    )
    with pytest.raises(Misuse, match="column event_time"):
        cut(batch, PLAIN)
