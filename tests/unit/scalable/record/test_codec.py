"""Records survive their bytes, and what this version does not know survives a rewrite."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import pytest

from magnetar.base.errors import Corrupt, LimitExceeded
from magnetar.base.ids import Position, SegmentId
from magnetar.base.limits import RECORD_BYTES_MAX
from magnetar.layout.layout import initial
from magnetar.layout.plain_layout import migrated
from magnetar.layout.routing import Routing
from magnetar.layout.segment import Ending
from magnetar.scalable.record.codec import COMPRESSED, decode, encode, rest
from magnetar.scalable.record.record import Intent, Kind, Record, created
from tests.support.golden_vectors import load
from tests.unit.scalable.record.test_record import split, splitting

REST = [case for case in load("layouts.json")["rest"] if case["request"].startswith("GET") and case["status"] == 200]
RECORDS = [
    (case["case"], json.loads(case["response_text"]))
    for case in REST
    if case.get("response_text", "").startswith('{"epoch"') and "nextSegmentId" in case["response_text"]
]


def rich() -> Record:
    record = created(None, 2, now_ms=7, properties=[("b", "2"), ("a", "1")], routing=Routing.LOW16, buckets=4)
    record = replace(split(record.claimed()), autoscale='{"enabled":false}', subs_gen=3)
    return splitting(record, "op-2").abandoned("no room")


@pytest.mark.parametrize("record", [created(None, 1, now_ms=0), rich(), rich().deleting().buried()])
def test_record_comes_back_as_it_was(record):
    assert decode(encode(record)) == record


@pytest.mark.parametrize(("name", "shown"), RECORDS, ids=lambda one: one if isinstance(one, str) else "")
def test_rest_shows_what_running_pulsar_showed(name, shown):
    if name.startswith("migrate"):
        topics = [one["legacyTopicName"] for one in shown["segments"].values() if one["legacy"]]
        layout = migrated(topics, now_ms=shown["segments"]["0"]["createdAtMs"])
    else:
        layout = rebuilt(shown)
    record = Record(layout, incarnation=1, properties=tuple(sorted(shown["properties"].items())))
    ours = rest(record)
    for one in ours["segments"].values():
        one.pop("entryBucketSplits", None)  # newer than the recorded broker
    assert ours == shown


def rebuilt(shown: dict):
    """The same layout made by our own splits and merges, at the times of the recorded one."""
    segments = sorted(shown["segments"].values(), key=lambda one: one["segmentId"])
    roots = [one for one in segments if not one["parentIds"]]
    layout = initial(len(roots), now_ms=roots[0]["createdAtMs"])
    while layout.epoch < shown["epoch"]:
        born = [one for one in segments if one["createdAtEpoch"] == layout.epoch + 1]
        parents = [SegmentId(id) for id in born[0]["parentIds"]]
        now_ms = born[0]["createdAtMs"]
        layout = layout.split(parents[0], now_ms=now_ms) if len(born) > 1 else layout.merge(parents, now_ms=now_ms)
    return layout


def test_rest_shows_deleted_segment_sealed_and_policy_as_json():
    record = rich()
    record = replace(record, layout=record.layout.pruning([SegmentId(0)]))
    assert rest(record)["segments"]["0"]["state"] == "SEALED"
    assert rest(record)["autoScalePolicy"] == {"enabled": False}


def test_fields_of_newer_version_survive_rewrite_at_every_depth():
    body = json.loads(encode(rich()))
    body["later"] = {"x": [1, 2]}
    body["segments"]["0"]["heat"] = 7
    body["intent"]["weight"] = "w"
    body["history"][0]["by"] = "admin"
    after = json.loads(encode(decode(json.dumps(body).encode()).claimed()))
    assert after["later"] == {"x": [1, 2]}
    assert after["segments"]["0"]["heat"] == 7
    assert after["intent"]["weight"] == "w"
    assert after["history"][0]["by"] == "admin"
    assert after["term"] == body["term"] + 1


def test_what_is_unknown_about_segment_stays_when_it_is_sealed():
    body = json.loads(encode(created(None, 1, now_ms=0)))
    body["segments"]["0"]["heat"] = 7
    after = split(decode(json.dumps(body).encode()))
    assert json.loads(encode(after))["segments"]["0"]["heat"] == 7


def test_newer_version_is_refused_with_what_to_do():
    body = json.loads(encode(created(None, 1, now_ms=0)))
    body["v"] = 2
    with pytest.raises(Corrupt, match="upgrade this broker"):
        decode(json.dumps(body).encode())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'{"v":"1"}',
        b'{"v":1}',
        encode(created(None, 1, now_ms=0)).replace(b'"end":65535', b'"end":65534'),
        encode(created(None, 1, now_ms=0)).replace(b'"end":65535', b'"end":65536'),
        encode(created(None, 1, now_ms=0)).replace(b'"0":{', b'"1":{'),
        encode(created(None, 1, now_ms=0)).replace(b'"ACTIVE"', b'"LAZY"'),
    ],
)
def test_bytes_that_are_no_record_are_corrupt(data):
    with pytest.raises(Corrupt):
        decode(data)


def test_oversized_record_is_refused_before_write_h_a9():
    record = created(None, 1, now_ms=0)
    intent = Intent("op", Kind.SPLIT, (SegmentId(0),), (), record.term, reason=Random(1).randbytes(600_000).hex())
    with pytest.raises(LimitExceeded):
        encode(replace(record, intent=intent))


def test_thousand_segments_of_history_fit_and_come_back():
    layout = initial(1, now_ms=1_700_000_000_000)
    while len(layout) < 1000:
        layout = layout.split(layout.active[0].id, now_ms=1_700_000_000_000)
        layout = layout.merge([one.id for one in layout.active][:2], now_ms=1_700_000_000_000)
    record = Record(layout, incarnation=1)
    assert decode(encode(record)) == record


def reshapes(count: int) -> Record:
    record = created(None, 1, now_ms=0)
    for number in range(count):
        active = [one.id for one in record.layout.active]
        kind = Kind.SPLIT if len(active) < 4 else Kind.MERGE
        parents = tuple(active[:1] if kind is Kind.SPLIT else active[:2])
        layout = record.layout
        ranges = layout.split_ranges(parents[0]) if kind is Kind.SPLIT else (layout.merge_range(parents),)
        layout, children = layout.burned(ranges)
        op = f"split-{number:08x}-{number * 7919:016x}"
        record = record.intended(Intent(op, kind, parents, children, record.term), layout)
        endings = {id: Ending(Position(number, 7), 7, 700, number, number + 1) for id in parents}
        record = record.committed(endings, fence=0, now_ms=1_700_000_000_000 + number)
    return record


def test_record_of_two_thousand_reshapes_fills_fifth() -> None:
    record = reshapes(2_000)
    data = encode(record)
    assert len(data) < RECORD_BYTES_MAX / 5
    assert decode(data) == record


def test_unchanged_segments_are_not_read_again() -> None:
    record = reshapes(300)
    before = decode(encode(record))
    after = decode(encode(record.claimed()), before)
    assert after == record.claimed()
    assert all(one is other for one, other in zip(before.layout.segments, after.layout.segments, strict=True))
    changed = replace(record, layout=record.layout.split(record.layout.active[0].id, now_ms=9))
    assert decode(encode(changed), after) == changed


def test_compressed_record_that_is_torn_is_corrupt() -> None:
    data = encode(reshapes(300))
    assert data.startswith(COMPRESSED)
    for torn in (data[:-1], data[: len(data) // 2], data[:5], COMPRESSED):
        with pytest.raises(Corrupt):
            decode(torn)
