"""Routes over segments: a key goes where every other client sends it, and a resend goes where the first one went."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import Misuse
from magnetar.base.hashes import high16, low16, masked
from magnetar.base.ids import SegmentId
from magnetar.base.limits import ROUTES_CACHED_MAX
from magnetar.client.producer.batch import Stamp, single_frame
from magnetar.client.producer.fields import MessageFields, fields_of
from magnetar.client.producer.router import KeyRoute, Router, SegmentRouter, learned, partitions_of
from magnetar.layout.layout import initial
from magnetar.layout.plain_layout import migrated, synthetic
from magnetar.layout.routing import Routing, segment_hash
from magnetar.wire import codec
from magnetar.wire.entry import key_hash
from tests.support.golden_vectors import load

FOUR = initial(4, now_ms=0)


def fields(key: str | bytes | None = None, ordering_key: bytes | None = None) -> MessageFields:
    return fields_of(
        key=key,
        ordering_key=ordering_key,
        properties=None,
        event_time_ms=None,
        deliver_at_ms=None,
        sequence_id=None,
        replicate_to=None,
        null_value=False,
    )


@pytest.mark.parametrize(
    ("key", "high", "low", "partition"),
    [("a", 0x3C25, 0x69B2, 2), ("hello", 0x248B, 0xFA47, 3), ("key-1", 0x98B1, 0x15A0, 0), ("", 0, 0, 0)],
)
def test_key_goes_where_other_clients_send_it(key, high, low, partition):
    assert SegmentRouter(Routing.HIGH16).route(fields(key), 0, FOUR).slot == high
    route = SegmentRouter(Routing.LOW16).route(fields(key), 0, FOUR)
    assert route.slot == low
    assert masked(route.hash) % 4 == partition


def test_released_client_finds_its_vectors():
    router = SegmentRouter(Routing.LOW16)
    for case in load("layouts.json")["key_routing"]:
        assert router.route(fields(case["key"]), 0, FOUR).slot == case["m1_hash"]


@given(st.text(max_size=20), st.sampled_from(["java", "murmur3"]), st.integers(1, 9))
def test_partitions_take_key_as_router_of_partitions_does(key, hashing, partitions):
    route = SegmentRouter(Routing.HIGH16, hashing=hashing).route(fields(key), 0, FOUR)
    assert masked(route.hash) % partitions == Router("single", hashing, 0).choose(key, partitions)


@given(
    st.none() | st.text(max_size=20) | st.binary(max_size=20),
    st.none() | st.binary(min_size=1, max_size=20),
    st.integers(0, 2**40),
)
def test_owner_finds_in_entry_what_was_hashed(key, ordering_key, sequence):
    said = fields(key, ordering_key)
    stamp = Stamp(1, b"the producer", None, codec.NONE, 1 << 20)
    seen = key_hash(_entry(single_frame(stamp, b"payload", said, sequence, 0)))
    for pinned, half in ((Routing.HIGH16, high16), (Routing.LOW16, low16)):
        router = SegmentRouter(pinned, producer="the producer", deduplicated=True)
        assert router.route(said, sequence, FOUR).slot == half(seen)


def _entry(frame: bytes) -> bytes:
    """What follows the command of a SEND."""
    command_bytes = int.from_bytes(frame[4:8], "big")
    return frame[8 + command_bytes :]


def test_without_key_messages_go_round_batch_at_time():
    router = SegmentRouter(Routing.HIGH16, start=2)
    chosen = []
    for _ in range(5):
        chosen += [FOUR.route(router.route(None, 0, FOUR).slot).id for _ in range(3)]
        router.advance()
    assert chosen == [2, 2, 2, 3, 3, 3, 0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_what_goes_round_is_shared_by_both_halves_of_split():
    router = SegmentRouter(Routing.HIGH16)
    routes = [router.route(None, 0, FOUR) for _ in range(100)]
    split = FOUR.split(SegmentId(0), now_ms=1)
    counts = [sum(split.route(route.slot).id == child for route in routes) for child in (4, 5)]
    assert sum(counts) == 100
    assert min(counts) > 20


def test_with_deduplication_resend_without_key_goes_where_first_one_went():
    first = SegmentRouter(Routing.HIGH16, producer="p", deduplicated=True, start=0)
    after_a_restart = SegmentRouter(Routing.HIGH16, producer="p", deduplicated=True, start=3)
    slots = [first.route(None, sequence, FOUR) for sequence in range(50)]
    assert slots == [after_a_restart.route(None, sequence, FOUR) for sequence in range(50)]
    assert len({FOUR.route(route.slot).id for route in slots}) == 4


def test_only_layout_of_plain_topics_has_partitions():
    topics = ["persistent://p/n/t-partition-0", "persistent://p/n/t-partition-1"]
    assert partitions_of(synthetic(topics)) == 2
    assert partitions_of(migrated(topics, now_ms=0)) == partitions_of(FOUR) == 0


@pytest.mark.parametrize(
    ("extension", "version", "routing"),
    [
        ("low16", "Magnetar 1.0", Routing.LOW16),
        ("high16", "Pulsar Server5.0.0-M1", Routing.HIGH16),
        (None, "Pulsar Server5.0.0-M1", Routing.LOW16),
        (None, "Pulsar Server5.0.0-M10", Routing.HIGH16),
        (None, "Pulsar Server5.0.0", Routing.HIGH16),
    ],
)
def test_routing_is_what_broker_says_else_what_its_release_does(extension, version, routing):
    assert learned(extension, version) is routing


def test_misuse_is_said():
    with pytest.raises(Misuse):
        learned("middle16", "")
    with pytest.raises(Misuse):
        SegmentRouter(Routing.HIGH16, deduplicated=True)
    with pytest.raises(Misuse):
        SegmentRouter(Routing.HIGH16, hashing="md5")  # type: ignore[arg-type]


def test_cached_key_route_is_renewed_when_routing_changes():
    layout = initial(4, now_ms=0)
    router = SegmentRouter(Routing.HIGH16)
    said = MessageFields()
    said.key = "user-42"
    first = router.route(said, 0, layout)
    assert router.route(said, 1, layout) == first == KeyRoute(segment_hash("user-42", Routing.HIGH16), first.hash)
    router.repin(Routing.LOW16)
    assert router.route(said, 2, layout).slot == segment_hash("user-42", Routing.LOW16) != first.slot
    said.ordering_key = b"other"
    assert router.route(said, 3, layout).slot == segment_hash(b"other", Routing.LOW16)


def test_keys_without_number_are_not_all_remembered():
    layout = initial(1, now_ms=0)
    router = SegmentRouter(Routing.HIGH16)
    said = MessageFields()
    for number in range(ROUTES_CACHED_MAX + 2):
        said.key = f"k{number}"
        router.route(said, number, layout)
    assert len(router._known) <= ROUTES_CACHED_MAX
