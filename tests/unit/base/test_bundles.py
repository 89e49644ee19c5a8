"""Bundles begin, end and split where the released Java code says."""

from __future__ import annotations

import pytest

from magnetar.base.bundles import HASH_MAX, Bundle, Bundles, boundary_text, bundle_from_text, equal_bundles
from magnetar.base.errors import InvalidRange
from magnetar.base.hashes import bundle_hash
from tests.support.golden_vectors import load

VECTORS = load("bundles.json")


@pytest.mark.parametrize("case", VECTORS["boundaries"], ids=lambda case: str(case["num_bundles"]))
def test_boundaries(case):
    bundles = equal_bundles(case["num_bundles"])
    assert [boundary_text(edge) for edge in bundles.boundaries] == case["boundaries"]
    assert len(bundles) == case["num_bundles"]
    if "bundle_names" in case:
        assert [f"{VECTORS['namespace']}/{bundle}" for bundle in bundles.all] == case["bundle_names"]


@pytest.mark.parametrize("case", VECTORS["topics"], ids=lambda case: ascii(case["topic"]))
def test_bundle_of_topic(case):
    assert bundle_hash(case["topic"]) == case["crc32"] == int(case["crc32_hex"], 16)
    for count in (4, 16, 64):
        assert str(equal_bundles(count).find(case["topic"])) == case[f"bundle_of_{count}"]


@pytest.mark.parametrize("case", VECTORS["splits"], ids=lambda case: f"{case['split']} in {case['into']}")
def test_splits(case):
    before = equal_bundles(case["num_bundles"])
    bundle = bundle_from_text(case["split"])
    after = before.split(bundle, case["into"])
    assert [boundary_text(edge) for edge in after.boundaries] == case["boundaries_after"]
    assert [str(part) for part in after.all if bundle.low <= part.low < bundle.high] == case["children"]


def test_last_bundle_includes_its_end():
    bundles = equal_bundles(4)
    assert bundles.at(HASH_MAX) == bundles.all[-1]
    assert bundles.at(0) == bundles.all[0]
    assert bundles.at(0x40000000) == bundles.all[1]


def test_bundle_too_narrow_or_unknown_is_not_split():
    narrow = Bundles((0, 1, HASH_MAX))
    with pytest.raises(InvalidRange):
        narrow.split(Bundle(0, 1))
    with pytest.raises(InvalidRange):
        narrow.split(Bundle(0, 5))
    with pytest.raises(InvalidRange):
        narrow.split(Bundle(1, HASH_MAX), 1)
    with pytest.raises(InvalidRange):
        narrow.split_at(Bundle(1, HASH_MAX), [1])


@pytest.mark.parametrize("edges", [(), (0,), (0, 5), (1, HASH_MAX), (0, 5, 5, HASH_MAX), (0, 9, 5, HASH_MAX)])
def test_boundaries_that_are_none_are_refused(edges):
    with pytest.raises(InvalidRange):
        Bundles(edges)


@pytest.mark.parametrize("count", [0, -1, 2**32])
def test_namespace_has_at_least_one_bundle(count):
    with pytest.raises(InvalidRange):
        equal_bundles(count)


@pytest.mark.parametrize(
    "text", ["", "0x0_0x1", "0x00000000", "0x00000000_0x00000000", "0x00000005_0x00000001", "00000000_ffffffff", "x_y"]
)
def test_text_that_is_no_bundle_is_refused(text):
    with pytest.raises(InvalidRange):
        bundle_from_text(text)
