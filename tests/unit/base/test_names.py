"""Names are read as the released Java code reads them, case by case."""

from __future__ import annotations

import tracemalloc

import pytest

from magnetar.base.errors import InvalidName, InvalidRange, LimitExceeded
from magnetar.base.hashes import java_string_hash
from magnetar.base.limits import NAME_BYTES_MAX, TOPIC_NAME_CHARS_MAX
from magnetar.base.names import (
    Domain,
    check_given,
    check_new_topic,
    decode,
    encode,
    forget_names,
    full_name,
    namespace_name,
    segment_name,
    topic_name,
)
from magnetar.base.ranges import HashRange
from tests.support.golden_vectors import load

VECTORS = load("names.json")
VALID = [case for case in VECTORS["parse"] if case["valid"]]
INVALID = [case for case in VECTORS["parse"] if not case["valid"]]


def raises_or_equals(case: dict, key: str, compute) -> None:
    if f"{key}_error" in case:
        with pytest.raises(InvalidName):
            compute()
    elif key in case:
        assert str(compute()) == case[key]


@pytest.mark.parametrize("case", VALID, ids=lambda case: case["input"])
def test_valid_names_have_every_derived_form(case):
    name = topic_name(case["input"])
    assert str(name) == case["name"]
    assert name.domain == case["domain"]
    assert (name.tenant, name.namespace.local_name) == (case["tenant"], case["namespace"])
    assert (name.local_name, name.encoded_local_name) == (case["local_name"], case["encoded_local_name"])
    assert name.partition_index == case["partition_index"]
    assert name.partitioned_name == case["partitioned_topic_name"]
    assert (name.is_persistent, name.is_scalable, name.is_segment) == (
        case["persistent"],
        case["scalable"],
        case["segment"],
    )
    assert name.ledger_name == case["persistence_naming_encoding"]
    assert java_string_hash(str(name)) == case["java_hash_code"]
    raises_or_equals(case, "schema_name", lambda: name.schema_name)
    raises_or_equals(case, "partition_3", lambda: name.partition(3))
    raises_or_equals(case, "to_scalable_topic", lambda: name.scalable)
    if case["segment"]:
        assert str(name.segment) == case["segment_descriptor"]
        assert (name.segment.id, name.segment.range) == (
            case["segment_id"],
            HashRange(case["hash_start"], case["hash_end"]),
        )
        assert str(name.parent) == case["parent"]


@pytest.mark.parametrize("case", INVALID, ids=lambda case: case["input"])
def test_invalid_names_are_refused(case):
    with pytest.raises(InvalidName):
        topic_name(case["input"])


@pytest.mark.parametrize("text", ["persistent:/a/b", "persistent:/a/b/c", "topic:/x", "Non-Persistent:/a/b"])
def test_domain_with_one_slash_is_refused(text):
    with pytest.raises(InvalidName, match="a slash is missing"):
        topic_name(text)


def test_name_with_colon_is_name():
    assert str(topic_name("persistent:x")) == "persistent://public/default/persistent:x"
    assert str(topic_name("a:/b/c")) == "persistent://a:/b/c"


@pytest.mark.parametrize("case", VECTORS["parse"], ids=lambda case: case["input"])
def test_names_are_completed(case):
    raises_or_equals(case, "to_full_topic_name", lambda: full_name(case["input"]))


@pytest.mark.parametrize("case", VECTORS["namespaces"], ids=lambda case: case["input"])
def test_namespaces(case):
    if not case["valid"]:
        with pytest.raises(InvalidName):
            namespace_name(case["input"])
        return
    name = namespace_name(case["input"])
    assert (str(name), name.tenant, name.local_name) == (case["name"], case["tenant"], case["local_name"])


@pytest.mark.parametrize("case", VECTORS["codec"], ids=lambda case: ascii(case["raw"]))
def test_form_encoding(case):
    assert encode(case["raw"]) == case["encoded"]
    if case["encoded"] != "%3F":  # a lone surrogate does not come back
        assert decode(case["encoded"]) == case["raw"]


@pytest.mark.parametrize("case", VECTORS["segment_from_parent"], ids=lambda case: str(case["segment_id"]))
def test_segments_of_scalable_topic(case):
    if "error" in case:
        with pytest.raises((InvalidName, InvalidRange)):
            segment_name(
                topic_name(case["parent"]), HashRange(case["hash_start"], case["hash_end"]), case["segment_id"]
            )
        return
    made = segment_name(topic_name(case["parent"]), HashRange(case["hash_start"], case["hash_end"]), case["segment_id"])
    assert str(made) == case["segment"]
    assert made.domain is Domain.SEGMENT


def test_two_spellings_of_one_topic_are_equal():
    assert topic_name("Persistent://t/n/x") == topic_name("persistent://t/n/x") == topic_name("t/n/x")
    assert len({topic_name("PERSISTENT://t/n/x"), topic_name("t/n/x")}) == 1
    assert topic_name("t/n/x") != topic_name("topic://t/n/x")


def test_names_are_parsed_once():
    assert topic_name("persistent://t/n/once") is topic_name("persistent://t/n/once")


def test_names_longer_than_anybody_needs_are_refused():
    assert topic_name("x" * (TOPIC_NAME_CHARS_MAX - 100))
    for parse in (topic_name, namespace_name):
        with pytest.raises(InvalidName):
            parse("t/" * 1 + "x" * TOPIC_NAME_CHARS_MAX)


@pytest.mark.parametrize("character", ["x", "\u00e9", "\U0001f600"])
def test_new_name_has_its_size_in_bytes(character):
    prefix = "persistent://public/default/"
    room = NAME_BYTES_MAX - len(prefix)
    local = character * (room // len(character.encode())) + "x" * (room % len(character.encode()))
    check_new_topic(topic_name(prefix + local))
    check_new_topic(topic_name(prefix + local).partition(2**31 - 1))
    with pytest.raises(InvalidName, match=f"{NAME_BYTES_MAX} bytes: choose a shorter one"):
        check_new_topic(topic_name(f"{prefix}{local}x"))


def test_suffix_of_segment_does_not_count_in_names_of_clients():
    assert check_given("n" * NAME_BYTES_MAX, "consumer")
    assert check_given("n" * NAME_BYTES_MAX + "-seg-17", "consumer")
    for name in ("n" * (NAME_BYTES_MAX + 1), "n" * (NAME_BYTES_MAX + 1) + "-seg-17", "n" * NAME_BYTES_MAX + "-seg-x"):
        with pytest.raises(LimitExceeded, match=f"consumer must have at most {NAME_BYTES_MAX} bytes"):
            check_given(name, "consumer")


def test_name_of_earlier_version_is_still_parsed():
    assert topic_name("persistent://public/default/" + "x" * (TOPIC_NAME_CHARS_MAX - 28))


@pytest.mark.parametrize("text", ["%", "a%2", "%g0", "a%%20"])
def test_broken_escapes_are_refused(text):
    with pytest.raises(InvalidName):
        decode(text)


def test_partition_of_partition_and_negative_partitions_are_refused():
    name = topic_name("x-partition-1")
    assert (name.is_partition, str(name.partitioned)) == (True, "persistent://public/default/x")
    with pytest.raises(InvalidName):
        name.partition(0)
    with pytest.raises(InvalidName):
        topic_name("x").partition(-1)
    with pytest.raises(InvalidName):
        topic_name("x").parent  # noqa: B018


@pytest.mark.parametrize("character", ["x", "\U0001f600"])
def test_names_of_any_length_keep_bounded_memory(character):
    """D15: 10,000 long names took 388 MB."""
    forget_names()
    tracemalloc.start()
    try:
        for number in range(2_000):
            topic_name(f"persistent://public/default/{number}{character * 4_000}")
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < 1 << 20


@pytest.mark.parametrize("text", ["persistent://public/default/orders", "тема", "a" * 200])
def test_ordinary_names_are_parsed_once(text):
    assert topic_name(text) is topic_name(text)
