"""Hashes are those of the released Java code, whatever script a key is written in."""

from __future__ import annotations

import pytest

from magnetar.base import hashes
from tests.support.golden_vectors import load

CASES = load("hashes.json")["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: ascii(case.get("key", case.get("bytes_hex"))))
def test_keys(case):
    if "key" in case:
        data = hashes.utf8(case["key"])
        assert data.hex() == case["utf8_hex"]
        assert hashes.java_string_hash(case["key"]) == case["java_string_hash"]
        assert hashes.masked(case["java_string_hash"]) == case["java_string_hash_masked"]
    else:
        data = bytes.fromhex(case["bytes_hex"])
    murmur = hashes.murmur3(data)
    assert f"{murmur:08x}" == case["murmur3_32_unsigned_hex"]
    assert hashes.masked(murmur) == hashes.masked(case["murmur3_32_signed"]) == case["murmur3_32_masked"]
    assert (hashes.low16(murmur), hashes.high16(murmur)) == (case["low16"], case["high16"])
    assert hashes.key_shared_slot(murmur) == case["key_shared_slot_range"]
    assert hashes.key_shared_slot_consistent(murmur) == case["key_shared_slot_consistent"]


def test_partition_routers_stand_on_masked_hash():
    for case in load("partition-router.json")["cases"]:
        java = hashes.masked(hashes.java_string_hash(case["key"]))
        murmur = hashes.masked(hashes.murmur3(hashes.utf8(case["key"])))
        assert [java % count for count in range(1, 18)] == case["JavaStringHash"]
        assert [murmur % count for count in range(1, 18)] == case["Murmur3_32Hash"]


@pytest.mark.parametrize("case", load("topic-buckets.json")["cases"], ids=lambda case: ascii(case["local_name"]))
def test_topic_buckets(case):
    assert hashes.java_string_hash(case["local_name"]) == case["java_string_hash"]
    for buckets, bucket in case["bucket"].items():
        assert hashes.topic_bucket(case["local_name"], int(buckets)) == bucket


@pytest.mark.parametrize("case", load("topic-list-hash.json")["hashes"], ids=lambda case: case["hash"])
def test_topic_list_hashes(case):
    assert hashes.topics_hash(case["topics"]) == case["hash"]


def test_topic_list_hash_of_protocols_own_example():
    names = [f"persistent://my-property/my-ns/pattern-topic-{index}" for index in (1, 2, 3)]
    assert hashes.topics_hash(reversed(names)) == "90d4a04a"
    assert hashes.topics_hash(names[:1]) == "0d0602ed"


def test_checksum_in_python_counts_as_slow():
    assert hashes.has_fast_crc()
    assert not hashes.has_fast_crc("python")
