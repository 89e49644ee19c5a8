"""Where things are kept: Pulsar's layout, and seed 000's buckets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import InvalidName, InvalidRange, Misuse
from magnetar.base.names import Domain, TopicName, namespace_name, segment_name, topic_name
from magnetar.base.ranges import HashRange
from magnetar.metadata import paths
from magnetar.metadata.path_checks import check_path

VECTORS = Path(__file__).parents[2] / "vectors"
BUCKETS = json.loads((VECTORS / "topic-buckets.json").read_text())["cases"]
NAMES = json.loads((VECTORS / "names.json").read_text())["parse"]

local_names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/"), min_size=1, max_size=40).filter(
    lambda text: not text.isspace() and "://" not in text and text not in (".", "..")
)


def a_topic(local_name: str) -> TopicName:
    return topic_name(f"persistent://tenant/namespace/{local_name}")


def test_six_topics_of_proposal_are_in_exactly_its_buckets() -> None:
    parent = "/managed-ledgers/tenant/namespace/persistent"
    expected = {
        "ptopic-partition-0": "$0",
        "ptopic-partition-3": "$0",
        "nptopic2": "$1",
        "ptopic-partition-1": "$1",
        "nptopic1": "$2",
        "ptopic-partition-2": "$2",
    }
    for local_name, node in expected.items():
        assert paths.topic(a_topic(local_name), 3) == f"{parent}/{node}/{local_name}"
        assert paths.topic(a_topic(local_name), 1) == f"{parent}/{local_name}"
    namespace = namespace_name("tenant/namespace")
    assert paths.bucket_parents(namespace, Domain.PERSISTENT, 3) == [f"{parent}/$0", f"{parent}/$1", f"{parent}/$2"]
    assert paths.bucket_parents(namespace, Domain.PERSISTENT, 1) == [parent]


@pytest.mark.parametrize("case", [case for case in BUCKETS if case["local_name"] and "/" not in case["local_name"]])
def test_bucket_is_as_vectors_have_it(case: dict[str, object]) -> None:
    name = a_topic(str(case["local_name"]))
    assert isinstance(case["bucket"], dict)
    for count, number in case["bucket"].items():
        assert paths.bucket(name, int(count)) == number
        assert f"/${number}/" in paths.topic(name, int(count))


@pytest.mark.parametrize(
    "case", [case for case in NAMES if case["valid"] and case["domain"] != "topic"], ids=lambda case: case["input"]
)
def test_flat_path_is_managed_ledgers_name(case: dict[str, str]) -> None:
    path = paths.topic(topic_name(case["input"]), 1)
    assert path == "/managed-ledgers/" + case["persistence_naming_encoding"]
    if path.endswith(("/.", "/..")):  # Pulsar takes such names, and no store can keep them
        with pytest.raises(InvalidName):
            check_path(path)
    else:
        check_path(path)


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_subscription_without_possible_path_is_refused(name: str) -> None:
    with pytest.raises(InvalidName, match="subscription name"):
        paths.cursor("/managed-ledgers/t/n/persistent/x", name)
    with pytest.raises(InvalidName, match="subscription name"):
        paths.scalable_subscription(topic_name("topic://t/n/x"), name)


def test_segments_share_bucket_of_their_topics_name() -> None:
    parent = topic_name("topic://tenant/namespace/ptopic-partition-1")
    for number, (low, high) in enumerate([(0, 0x7FFF), (0x8000, 0xFFFF)]):
        segment = segment_name(parent, HashRange(low, high), number)
        path = paths.topic(segment, 3)
        assert path == f"/managed-ledgers/tenant/namespace/segment/$1/ptopic-partition-1/{segment.segment}"
        assert paths.topic_of(path) == segment
        assert paths.bucket(segment, 64) == paths.bucket(a_topic("ptopic-partition-1"), 64)
    assert paths.scalable(parent) == "/topics/tenant/namespace/ptopic-partition-1"
    with pytest.raises(Misuse):
        paths.topic(parent, 1)
    with pytest.raises(Misuse):
        paths.scalable(a_topic("x"))


@given(local_names, st.integers(1, 100))
def test_path_leads_back_to_its_topic(local_name: str, buckets: int) -> None:
    name = a_topic(local_name)
    path = paths.topic(name, buckets)
    check_path(path)
    assert paths.topic_of(path) == name
    parents = paths.bucket_parents(name.namespace, name.domain, buckets)
    assert path.rpartition("/")[0] == parents[paths.bucket(name, buckets)]


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40).filter(lambda name: name.strip(".")))
def test_cursors_path_is_one_part_below_its_topic(name: str) -> None:
    topic = paths.topic(a_topic("t"), 1)
    path = paths.cursor(topic, name)
    check_path(path)
    parent, _, last = path.rpartition("/")
    assert parent == topic
    assert paths.cursor_name(last) == name


@pytest.mark.parametrize(
    "path",
    [
        "/managed-ledgers/t/n/persistent",
        "/managed-ledgers/t/n/persistent/a/cursor",
        "/managed-ledgers/t/n/elsewhere/a",
        "/managed-ledgers/t/n/segment/a",
        "/other",
    ],
)
def test_what_is_no_topics_path_is_refused(path: str) -> None:
    with pytest.raises(InvalidName):
        paths.topic_of(path)


@pytest.mark.parametrize(
    ("built", "expected"),
    [
        (paths.cluster("standalone"), "/admin/clusters/standalone"),
        (paths.tenant("public"), "/admin/policies/public"),
        (paths.policies(namespace_name("public/default")), "/admin/policies/public/default"),
        (paths.local_policies(namespace_name("public/default")), "/admin/local-policies/public/default"),
        (
            paths.partitioned(topic_name("persistent://t/n/a b")),
            "/admin/partitioned-topics/t/n/persistent/a+b",
        ),
        (paths.schema(topic_name("persistent://t/n/a-partition-3").schema_name), "/schemas/t/n/a"),
        (paths.ledger(7), "/ledgers/00/0000/L0007"),
        (paths.ledger(1234567890), "/ledgers/12/3456/L7890"),
        (paths.ledger(2**31), "/ledgers/000/0000/0021/4748/L3648"),
    ],
)
def test_layout_is_pulsars(built: str, expected: str) -> None:
    assert built == expected


def test_nonsense_is_refused() -> None:
    with pytest.raises(InvalidRange):
        paths.bucket(a_topic("t"), 0)
    with pytest.raises(InvalidRange):
        paths.ledger(-1)
    with pytest.raises(InvalidName):
        paths.cursor("/x", "")
    with pytest.raises(Misuse):
        paths.partitioned(a_topic("t-partition-0"))
