"""One function says where a key goes, in both generations of clients."""

from __future__ import annotations

import pytest

from magnetar.layout.routing import Routing, routing_of, segment_hash, shares_by_buckets
from tests.support.golden_vectors import load


@pytest.mark.parametrize(
    ("key", "high", "low"),
    [
        ("", 0x0000, 0x0000),
        ("a", 0x3C25, 0x69B2),
        ("hello", 0x248B, 0xFA47),
        ("key-0", 0xE337, 0xF8BF),
        ("key-1", 0x98B1, 0x15A0),
        ("user-42", 0xB972, 0xDAD0),
        ("pulsar", 0x8054, 0x7BBB),
    ],
)
def test_both_halves_of_hash(key, high, low):
    assert segment_hash(key, Routing.HIGH16) == high
    assert segment_hash(key.encode(), Routing.LOW16) == low


def test_released_client_takes_low_half():
    for case in load("layouts.json")["key_routing"]:
        assert segment_hash(case["key"], Routing.LOW16) == case["m1_hash"]


@pytest.mark.parametrize(
    ("version", "routing"),
    [
        ("Pulsar-Java-v5.0.0-M1", Routing.LOW16),
        ("Pulsar-Java-v5.0.0-M1-SNAPSHOT", Routing.LOW16),
        ("Pulsar-Java-v5.0.0-M10", Routing.HIGH16),
        ("Pulsar-Java-v5.0.0-M2", Routing.HIGH16),
        ("Magnetar-0.1", Routing.HIGH16),
        ("", Routing.HIGH16),
    ],
)
def test_version_of_client_tells_its_half_h_e12(version, routing):
    assert routing_of(version) is routing


@pytest.mark.parametrize(
    ("version", "knows"),
    [
        ("Pulsar-Java-v5.0.0-M1", False),
        ("Pulsar-Java-v5.0.0-M2", True),
        ("Pulsar-Java-v5.0.0", True),
        ("Pulsar-Java-v4.1.0", False),
        ("Pulsar-Java-v10.0.0", True),
        ("Pulsar-CPP-v5.0.0", False),
        ("", False),
    ],
)
def test_version_of_pulsar_client_tells_support_of_buckets(version, knows):
    assert shares_by_buckets(version) is knows
