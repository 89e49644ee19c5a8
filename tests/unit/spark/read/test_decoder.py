"""Entries as Arrow columns: the rows that the client finds in them, and `Corrupt` where the client finds none."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.base.errors import BadChecksum, Corrupt, LimitExceeded, Misuse, NotBuilt
from magnetar.base.ranges import FULL, HashRange
from magnetar.client.consumer.receive.decode import open_metadata
from magnetar.client.producer.batch import Batch, Stamp
from magnetar.client.producer.fields import keyed as keyed_by
from magnetar.layout.readable_range import DONE, START, ReadPosition
from magnetar.layout.routing import Routing, segment_hash
from magnetar.spark.read import columns
from magnetar.spark.read.decoder import Decoder, record_batches
from magnetar.spark.source.tasks import SegmentSlice
from magnetar.wire import codec
from magnetar.wire import message as wire
from magnetar.wire.proto import pb
from tests.support.golden_vectors import sent_frames
from tests.unit.spark.entries import ALL, TOPIC, batch, by_client, head, keyed, rows_of, single

texts = st.text(st.characters(codec="utf-8"), max_size=6)
ascii_texts = st.text(st.characters(max_codepoint=127), max_size=8)
keys = st.one_of(
    st.just({}),
    st.builds(lambda text: {"partition_key": text, "partition_key_b64_encoded": False}, texts | st.just("a" * 200)),
    st.builds(lambda text: {"partition_key": text, "partition_key_b64_encoded": True}, ascii_texts),
    st.builds(lambda text: {"partition_key": text}, texts),
)
others = st.fixed_dictionaries(
    {},
    optional={
        "ordering_key": st.binary(max_size=5),
        "event_time": st.integers(0, 2**40),
        "sequence_id": st.integers(0, 2**40),
        "null_value": st.booleans(),
        "properties": st.dictionaries(texts, texts, max_size=2).map(
            lambda pairs: [pb.KeyValue(key=name, value=text) for name, text in pairs.items()]
        ),
    },
)
singles = st.builds(lambda one, two: {**one, **two}, keys, others)
values = st.binary(max_size=12) | st.integers(100, 400).map(bytes)
kinds = st.integers(0, 4)
entries = st.one_of(
    st.builds(lambda value, kind, fields: single(value, kind, **fields), values, kinds, singles),
    st.builds(batch, st.lists(st.tuples(singles, values), min_size=1, max_size=40), kinds),
    st.builds(
        lambda fields, value, count, kind: batch([(fields, value)] * count, kind),
        singles,
        values,
        st.integers(16, 40),
        kinds,
    ),
)


def decoded(data: list[bytes], names=ALL, **asked) -> list[dict]:
    decoder = Decoder(names, topic=TOPIC, **{"segment": 3, **asked})
    return rows_of(list(record_batches(decoder, [(5, place, one) for place, one in enumerate(data)], bytes_max=2000)))


def expected(data: list[bytes], routing: Routing = Routing.HIGH16) -> list[dict]:
    return [row for place, one in enumerate(data) for row in by_client(5, place, one, routing)]


@given(st.lists(entries, max_size=5), st.sampled_from(Routing))
@settings(max_examples=30)
def test_rows_are_those_of_client(data, routing):
    assert decoded(data, routing=routing) == expected(data, routing)


@pytest.mark.slow
@given(st.lists(entries, max_size=12), st.sampled_from(Routing))
@settings(max_examples=500)
def test_rows_are_those_of_client_over_thousands_of_topics(data, routing):
    assert decoded(data, routing=routing) == expected(data, routing)


PLAIN = [
    frame for frame in sent_frames() if "uuid" not in frame["metadata"] and "encryption_keys" not in frame["metadata"]
]


@pytest.mark.parametrize("frame", PLAIN, ids=lambda frame: frame["file"])
def test_entries_of_java_clients_are_read_as_client_reads_them(frame):
    data = frame["bytes"][8 + frame["command_size"] :]
    assert decoded([data]) == expected([data])


@pytest.mark.parametrize("size", [0, 1, 100, 127, 128, 1000, 16383, 16384])
@pytest.mark.parametrize("count", [1, 15, 16, 40])
def test_batches_of_one_shape_at_edges_of_numbers(size, count):
    values = [bytes([place % 256]) * size for place in range(count)]
    for first in (0, 120, 16_380):  # the sequence ids grow by a byte within the batch
        data = keyed(values, [b"k%06d" % place for place in range(count)], first)
        assert decoded([data]) == expected([data])


@given(st.integers(16, 60), st.integers(0, 59), st.integers(0, 40), st.integers(0, 127))
@settings(max_examples=60)
def test_single_message_of_another_shape_is_detected(count, place, at, byte):
    """A batch of one shape with one byte changed: read as the client reads it, or refused."""
    data = keyed([b"v" * 30] * count, [b"key-1"] * count)
    opened = wire.open_entry(data)
    payload = bytearray(opened.payload)
    payload[(place % count) * (len(payload) // count) + at] = byte
    changed = wire.close_entry(opened.metadata, bytes(payload))
    try:
        found = decoded([changed])
    except Corrupt:
        return
    assert found == expected([changed])


# Garbage


@given(entries, st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4), st.booleans())
@settings(max_examples=80)
def test_damaged_entries_are_corrupt_or_read_and_nothing_else(data, changes, truly):
    damaged = bytearray(data[6:] if truly else data)  # without its checksum the damage reaches the parsers
    for place, byte in changes:
        damaged[place % len(damaged)] = byte
    try:
        decoded([bytes(damaged)])
    except (Corrupt, NotBuilt):
        pass


@given(st.binary(max_size=60), st.integers(-1, 2**31 - 1), st.integers(0, 4), st.integers(0, 2**32 - 1))
@settings(max_examples=100)
def test_batch_of_garbage_is_corrupt_or_read_and_nothing_else(payload, count, kind, size):
    said = head(num_messages_in_batch=count, compression=kind, uncompressed_size=size)
    try:
        decoded([wire.close_entry(said, payload)])
    except Corrupt:
        pass


@given(
    st.lists(values, min_size=2, max_size=20), st.lists(st.integers(0, 300), max_size=20), st.sampled_from([0, 2, 4, 5])
)
@settings(max_examples=100)
def test_indexed_rows_equal_client_rows_or_are_corrupt(bodies, said, width):
    index = bytes([width]) + b"".join(size.to_bytes(width or 2, "little") for size in said)
    data = batch([({"partition_key": "k"}, body) for body in bodies], size_index=index)
    try:
        found = decoded([data])
    except Corrupt:
        return
    assert found == expected([data])


@given(st.lists(values, min_size=1, max_size=40), st.lists(st.binary(max_size=9), min_size=40, max_size=40), kinds)
@settings(max_examples=30)
def test_batch_with_its_index_is_read_as_client_reads_it(bodies, names, kind):
    gathered = Batch(0.0)
    for body, name in zip(bodies, names, strict=False):
        gathered.add(body, keyed_by(name.hex()), None)
    frame = gathered.close(Stamp(1, b"p", None, kind, 1 << 20), 7, 1000)[2]
    data = frame[8 + int.from_bytes(frame[4:8], "big") :]
    assert decoded([data]) == expected([data])


@given(st.binary(min_size=2, max_size=30), st.integers(0, 8))
@settings(max_examples=150)
def test_garbage_metadata_is_read_as_by_protobuf_or_corrupt(noise, size):
    one = noise + b"\x18" + bytes([size])
    payload = len(one).to_bytes(4, "big") + one + bytes(size)
    data = wire.close_entry(head(num_messages_in_batch=1), payload)
    try:
        found = decoded([data], ["value", "event_time"])
    except Corrupt:
        return
    message = pb.SingleMessageMetadata.FromString(one)
    shown = [] if message.compacted_out else [None if message.null_value else bytes(message.payload_size)]
    assert [row["value"] for row in found] == shown


def test_broken_checksum_is_seen_and_nothing_of_entry_is_gathered():
    decoder = Decoder(["value"])
    decoder.add(5, 0, single(b"good"))
    with pytest.raises(BadChecksum):
        decoder.add(5, 1, single(b"bad")[:-1] + b"?")
    assert rows_of([decoder.take()]) == [{"value": b"good"}]


def test_unpacking_is_bounded_before_anything_is_made():
    bomb = single(bytes(100_000), codec.ZSTD)
    with pytest.raises(Corrupt, match="exceeds the maximum size"):
        Decoder(["value"], payload_bytes_max=99_999).add(5, 0, bomb)
    assert len(decoded([bomb], ["value"], payload_bytes_max=100_000)[0]["value"]) == 100_000


def test_claim_of_many_messages_costs_nothing():
    with pytest.raises(Corrupt, match="too small for its number"):
        decoded([wire.close_entry(head(num_messages_in_batch=2**31 - 1), bytes(1000))])


def test_unsupported_encoding_is_refused_and_not_skipped():
    chunks = wire.chunks(head(), bytes(100), 60)
    secret = single(b"x", encryption_keys=[pb.EncryptionKeys(key="k", value=b"v")])
    for data in (chunks[0], secret):
        with pytest.raises(NotBuilt):
            decoded([data])


def test_entries_that_only_brokers_read_have_no_rows():
    assert decoded([single(b"", marker_type=1), single(b"x")], ["value"]) == [{"value": b"x"}]


def test_messages_that_compaction_took_out_are_not_shown():
    assert [row["value"] for row in decoded([batch([({"compacted_out": True}, b""), ({}, b"x")])])] == [b"x"]


def test_key_that_is_not_text_is_bytes_all_same():
    raw = b"\x12\x02\xff\xfe\x18\x01"
    payload = len(raw).to_bytes(4, "big") + raw + b"v"
    assert decoded([wire.close_entry(head(num_messages_in_batch=1), payload)], ["key"]) == [{"key": b"\xff\xfe"}]


def test_time_beyond_all_calendars_is_shown_as_last_one():
    decoder = Decoder(["event_time", "publish_time"])
    decoder.add(5, 0, single(b"", event_time=2**64 - 1, publish_time=2**64 - 1))
    made = decoder.take()
    assert [made.column(name).cast("int64").to_pylist()[0] > 2**62 for name in ("event_time", "publish_time")] == [
        True
    ] * 2


@pytest.mark.parametrize("flags", [b"\x30\x01", b""])
def test_row_in_another_field_order_is_read_equally(flags):
    raw = b"\x48\x01\x3a\x01o\x40\x85\x01" + flags + b"\x28\x09\x0a\x06\x0a\x01a\x12\x01b\x18\x01\x12\x04YWJj\x58\x01"
    strange = len(raw).to_bytes(4, "big") + raw + b"v"
    usual = row_bytes(pb.SingleMessageMetadata(payload_size=1, partition_key="k", sequence_id=1), b"v")
    for payload in (strange, usual + strange + usual):
        data = wire.close_entry(head(num_messages_in_batch=1 if payload == strange else 3), payload)
        assert decoded([data]) == expected([data])


def row_bytes(said: pb.SingleMessageMetadata, value: bytes) -> bytes:
    return said.ByteSize().to_bytes(4, "big") + said.SerializeToString() + value


def test_sequence_id_beyond_java_numbers_reads_as_java_would():
    for data in (single(b"", sequence_id=2**64 - 1), batch([({"sequence_id": 2**64 - 1}, b"")])):
        assert decoded([data], ["sequence_id"]) == [{"sequence_id": -1}]


# What a task wants


def test_only_columns_that_were_asked_for_in_their_order():
    decoder = Decoder(["__segment", "value"], segment=9)
    decoder.add(5, 0, single(b"x"))
    made = decoder.take()
    assert made.schema == decoder.schema == columns.schema(["__segment", "value"])
    assert made.to_pylist() == [{"__segment": 9, "value": b"x"}]


def test_nothing_gathered_is_empty_batch_of_same_columns():
    for names in (ALL, ["value"]):
        made = Decoder(names).take()
        assert (made.num_rows, made.schema) == (0, columns.schema(names))


@pytest.mark.parametrize("names", [["valu"], [], ["value", "value"]])
def test_columns_that_there_are_not_are_refused(names):
    with pytest.raises(Misuse, match="column"):
        Decoder(names)


def test_no_type_that_spark_does_not_take():
    assert not [kind for kind in columns.TYPES.values() if "large" in str(kind) or "dictionary" in str(kind)]


POSITIONS = [ReadPosition(5, entry, row) for entry in range(4) for row in range(3)]


def test_rows_outside_piece_are_left_out():
    data = [batch([({}, b"%d" % (3 * entry + row)) for row in range(3)]) for entry in range(4)]
    for start in (START, *POSITIONS[:9], ReadPosition(4, 99)):
        for end in (DONE, *POSITIONS[9:], ReadPosition(5, 2, 99)):
            found = decoded(data, ["value"], piece=SegmentSlice(3, FULL, start, end))
            wanted = [place for place, position in enumerate(POSITIONS) if start <= position < end]
            assert [int(row["value"]) for row in found] == wanted


@given(st.lists(entries, max_size=4), st.integers(0, 0xFFFF), st.booleans(), st.sampled_from(Routing))
@settings(max_examples=40)
def test_every_row_is_for_one_of_tasks_that_share_segment(data, edge, strays, routing):
    own = HashRange(0x1000, 0xEFFF)
    low = SegmentSlice(3, own, START, DONE, keys=(HashRange(0, edge),), strays=strays)
    high = SegmentSlice(
        3, own, START, DONE, keys=(HashRange(edge + 1, 0xFFFF),) if edge < 0xFFFF else (), strays=not strays
    )
    for piece in (low, high):
        found = decoded(data, piece=piece, routing=routing)
        assert found == [row for row in expected(data, routing) if piece.takes(row["__key_hash"])]


stamped = st.tuples(st.integers(0, 70_000), st.integers(0, 70_000))


@given(st.lists(entries, max_size=4), st.lists(stamped, min_size=4, max_size=4), st.integers(1, 0xFFFF))
@settings(max_examples=40)
def test_every_row_is_for_one_bucket_whatever_entries_claim(data, stamps, edge):
    claimed = []
    for one, (lowest, highest) in zip(data, stamps, strict=False):
        metadata, start = open_metadata(one)
        metadata.entry_hash_min, metadata.entry_hash_max = lowest, highest
        claimed.append(wire.close_entry(metadata, one[start:]))
    low = SegmentSlice(3, FULL, START, DONE, bucket=HashRange(0, edge - 1))
    high = SegmentSlice(3, FULL, START, DONE, bucket=HashRange(edge, 0xFFFF))
    found = [decoded(claimed, ["__position"], piece=piece) for piece in (low, high)]
    every = sorted(row["__position"] for row in decoded(claimed, ["__position"]))
    assert sorted(row["__position"] for part in found for row in part) == every


def test_rows_of_one_bucket_are_those_of_its_keys():
    keys = [b"k%d" % number for number in range(100)]
    piece = SegmentSlice(3, FULL, START, DONE, bucket=HashRange(0, 0x7FFF))
    found = decoded([keyed([b"v"] * 100, keys)], ["key"], piece=piece)
    assert [row["key"] for row in found] == [key for key in keys if segment_hash(key, Routing.LOW16) < 0x8000]


def test_entry_of_another_bucket_is_not_opened():
    broken = single(b"v", entry_hash_min=0x9000, entry_hash_max=0x9000, num_chunks_from_msg=2)
    piece = SegmentSlice(3, FULL, START, DONE, bucket=HashRange(0, 0x7FFF))
    assert decoded([broken], ["value"], piece=piece) == []


def test_single_message_that_was_read_is_not_read_again():
    piece = SegmentSlice(3, FULL, ReadPosition(5, 0, 1), DONE)
    assert decoded([single(b"old"), single(b"new")], ["value"], piece=piece) == [{"value": b"new"}]


def test_filter_works_without_column_that_shows_it():
    keys = [b"k%d" % number for number in range(100)]
    piece = SegmentSlice(3, FULL, START, DONE, keys=(HashRange(0, 0x7FFF),))
    found = decoded([keyed([b"v"] * 100, keys)], ["key"], piece=piece)
    assert [row["key"] for row in found] == [key for key in keys if segment_hash(key, Routing.HIGH16) < 0x8000]


def test_batches_are_passed_on_when_large_and_never_empty():
    data = [(5, place, batch([({}, bytes(100))] * 10)) for place in range(10)]
    assert [one.num_rows for one in record_batches(Decoder(["value"]), data, rows_max=30)] == [30, 30, 30, 10]
    assert [one.num_rows for one in record_batches(Decoder(["value"]), data, bytes_max=5000)] == [50, 50]
    nothing = SegmentSlice(3, FULL, ReadPosition(9, 0), DONE)
    assert list(record_batches(Decoder(["value"], piece=nothing), data)) == []


def test_more_than_arrow_can_count_is_not_gathered():
    decoder = Decoder(["value"])
    decoder.bytes = 1 << 30
    with pytest.raises(LimitExceeded, match="call take before adding"):
        decoder.add(5, 0, single(b"x"))
