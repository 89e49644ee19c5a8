"""What hostile bytes are thrown at. A target takes any bytes and returns; an exception is a finding.

A reader may refuse with the one error it promises and nothing else; whatever it accepts must agree with protobuf, or
with its own inverse. A new target is one line in `TARGETS`, and gets hypothesis, coverage-guided fuzzing and seeds
without further work.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from magnetar.base import bundles, names, ranges
from magnetar.base.errors import BadFrame, Corrupt, InvalidName, InvalidRange, Misuse
from magnetar.wire import codec, entry, frames, ids, message, metadata, send_reader
from magnetar.wire.proto import pb
from magnetar.wire.scalable import checkpoint
from tests.fuzz import journal, reference, snapshots, zookeeper
from tests.support.golden_vectors import load, sent_frames

FRAME_BYTES_MAX = 1 << 20
INFLATED_BYTES_MAX = 1 << 16


def commands(data: bytes) -> None:
    """SEND, ACK, FLOW and the type of a command, inside a larger buffer that misleads whoever reads beyond its part."""
    buffer = b"\x80" * 12 + data + b"\x01" * 12
    start, end = 12, 12 + len(data)
    assert reference.outcome(frames.read_send, buffer, start, end) == reference.send(data)
    assert reference.outcome(frames.read_ack, buffer, start, end) == reference.ack(data)
    assert reference.outcome(frames.read_flow, buffer, start, end) == reference.flow(data)
    kind = reference.outcome(frames.command_type, buffer, start, end)
    assert reference.kind(data) in (kind, reference.REFUSED)  # only its reader looks inside, and refuses
    with suppress(BadFrame):
        frames.decode_command(data, 0, len(data))


def cutting(data: bytes) -> None:
    """A whole read: split, then gathered as a broker does it."""
    try:
        found, consumed = frames.split(data, 0, FRAME_BYTES_MAX)
    except BadFrame:
        return
    assert consumed == (found[-1][2] if found else 0)
    index = 0
    while index < len(found):
        start, middle, end = found[index]
        assert start <= middle <= end
        if reference.outcome(frames.command_type, data, start, middle) != frames.SEND:
            index += 1
            continue
        try:
            run = send_reader.gather_sends(data, found, index)
        except BadFrame:
            assert reference.send(data[start:middle]) == reference.REFUSED
            index += 1
            continue
        check_run(data, found, index, run)
        index = max(run.stop, index + 1) if run.bad < 0 else run.bad + 1


def check_run(data: bytes, found: list[frames.Frame], index: int, run: send_reader.SendRun) -> None:
    taken = found[index : run.stop]
    assert len(run) == len(taken) == len(run.counts) == len(run.highest_ids) == len(run.offsets) - 1
    for place, (start, middle, end) in enumerate(taken):
        send = reference.send(data[start:middle])
        assert (run.producer_id, run.sequence_ids[place]) == send[:2]
        assert send[5:] == (False, -1, -1, None)  # plain ones only
        assert run.counts[place] == max(send[2], 1)
        assert run.highest_ids[place] == max(send[3], send[1])
        assert (False if run.chunks is None else run.chunks[place]) == send[4]
        body = run.body[run.offsets[place] : run.offsets[place + 1]]
        assert body == data[middle:end]
        assert entry.verify(body)
    assert run.messages == sum(run.counts)
    if run.bad >= 0:
        assert run.bad == run.stop


def entries(data: bytes) -> None:
    """Stored bytes, and the same bytes as the metadata of an otherwise sound entry."""
    ask(data)
    sound = len(data).to_bytes(4, "big") + data
    ask(sound)
    try:
        expected = metadata.by_protobuf(sound, 4, len(sound))
    except Corrupt:
        return
    found = entry.read(sound)
    for name in reference.METADATA_FIELDS:
        assert getattr(found, name) == getattr(expected, name), name
    assert entry.counts(sound) == max(expected.messages, 1)
    assert entry.is_batch(sound) == (expected.messages != -1)
    assert entry.deliver_at(sound) == expected.deliver_at
    assert entry.marker(sound) == expected.marker
    assert entry.is_null(sound) == expected.null_value
    assert entry.sticky_key(sound) == metadata.key_of(expected)
    assert entry.key_hash(sound) == entry.key_hash(b"x" + sound, 1)
    stamped = expected.hash_min >= 0 and expected.hash_max >= 0
    assert entry.stamps(sound) == ((expected.hash_min, expected.hash_max) if stamped else None)


QUESTIONS: tuple[Callable[[bytes], object], ...] = (
    entry.read,
    entry.counts,
    entry.is_batch,
    entry.publish_time,
    entry.deliver_at,
    entry.marker,
    entry.is_null,
    entry.sticky_key,
    entry.key_hash,
    entry.stamps,
    entry.producer_and_sequence,
    entry.chunk,
    entry.verify,
)


def ask(data: bytes) -> None:
    for question in QUESTIONS:
        with suppress(Corrupt):
            question(data)
    with suppress(Corrupt):
        opened = message.open_entry(data)
        value = message.inflate(opened.metadata, opened.payload, INFLATED_BYTES_MAX)
        if opened.is_batch:
            message.split_batch(value, opened.metadata.num_messages_in_batch)


def batches(data: bytes) -> None:
    """The first byte says how many messages and which compression, the rest is a payload."""
    if not data:
        return
    kind, count, payload = data[0] % 6, data[0] // 6, data[1:]
    with suppress(Corrupt):
        items = message.split_batch(payload, count)
        assert len(items) == count
        assert sum(len(value) for _, value in items) <= len(payload)
    size = int.from_bytes(payload[:2], "big")
    with suppress(Corrupt):
        value = codec.decompress(kind, payload[2:], size, INFLATED_BYTES_MAX)
        assert kind == codec.NONE or len(value) == size


def message_ids(data: bytes) -> None:
    try:
        found = ids.from_bytes(data)
    except Corrupt:
        return
    if found.first_chunk is None or found.first_chunk.first_chunk is None:
        assert ids.from_bytes(ids.to_bytes(found)) == found
    if data[:1] == b"\x08":  # else it is of a scalable topic, and may look like half a classic one
        assert pb.MessageIdData.FromString(data).IsInitialized()


def checkpoints(data: bytes) -> None:
    try:
        found = checkpoint.from_bytes(data)
    except (Corrupt, Misuse):  # of a newer version: refused with what to do
        return
    assert checkpoint.from_bytes(checkpoint.to_bytes(found)) == found


def topic_names(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    with suppress(InvalidName):
        names.namespace_name(text)
    with suppress(InvalidName):
        names.full_name(text)
    with suppress(InvalidRange):
        assert ranges.slot_from_hex(text) >= 0
    with suppress(InvalidRange):
        assert str(bundles.bundle_from_text(text)) == text.lower()
    with suppress(InvalidName):
        names.decode(text)
    if max(text, default="") < "\udc80" or min(text, default="") > "\udcff":
        assert names.decode(names.encode(text)) == text
    with suppress(InvalidName):
        check_topic(names.topic_name(text))


def check_topic(name: names.TopicName) -> None:
    assert names.topic_name(str(name)) == names.topic_name(name.canonical) == name
    assert name.local_name
    if all(not "\ud800" <= character <= "\udfff" for character in name.local_name):
        assert "/" not in name.encoded_local_name
    if not name.is_partition and not name.is_segment:
        with suppress(InvalidName):  # the suffix may make it too long
            part = name.partition(7)
            assert part.partition_index == 7
            assert part.partitioned == name
    if name.segment is not None:
        with suppress(InvalidName):
            assert names.segment_name(name.parent, name.segment.range, name.segment.id) == name
    with suppress(InvalidName):
        assert name.schema_name


TARGETS: dict[str, Callable[[bytes], None]] = {
    "commands": commands,
    "cutting": cutting,
    "entries": entries,
    "batches": batches,
    "message_ids": message_ids,
    "checkpoints": checkpoints,
    "topic_names": topic_names,
    "journal_damage": journal.journal_damage,
    "journal_files": journal.journal_files,
    "snapshot_files": snapshots.snapshot_files,
    "acknowledgements": snapshots.acknowledgements,
    "records": snapshots.records,
    "zookeeper": zookeeper.zookeeper,
}


def framed(command: bytes, payload: bytes = b"") -> bytes:
    sizes = (4 + len(command) + len(payload)).to_bytes(4, "big") + len(command).to_bytes(4, "big")
    return sizes + command + payload


def frame_seeds() -> list[bytes]:
    return [frame["bytes"] for frame in sent_frames() if len(frame["bytes"]) < 4096]


def command_seeds() -> list[bytes]:
    sent = [bytes.fromhex(frame["command_hex"]) for frame in sent_frames()]
    made = [bytes.fromhex(frame["frame_hex"])[8:] for frame in load("entries/producers.json")["frames"]]
    ack_ids = [pb.MessageIdData(ledgerId=5, entryId=9, ack_set=[-1, 7]), pb.MessageIdData(ledgerId=5, entryId=300)]
    acks = [
        pb.BaseCommand(type=10, ack=pb.CommandAck(consumer_id=1, ack_type=0, message_id=ack_ids)),
        pb.BaseCommand(type=10, ack=pb.CommandAck(consumer_id=1, ack_type=1, message_id=ack_ids[:1], request_id=5)),
        pb.BaseCommand(type=11, flow=pb.CommandFlow(consumer_id=1, messagePermits=1000)),
    ]
    return sent + made + [command.SerializeToString() for command in acks]


def entry_seeds() -> list[bytes]:
    whole = [frame["bytes"][8 + frame["command_size"] :] for frame in sent_frames()]
    return [data for data in whole if len(data) < 4096] + [
        bytes.fromhex(frame["metadata_hex"]) for frame in sent_frames()
    ]


def batch_seeds() -> list[bytes]:
    return [bytes((len(data) % 256,)) + data for data in entry_seeds()]


def id_seeds() -> list[bytes]:
    return [bytes.fromhex(case["bytes"]) for case in load("message-ids.json")["classic"]]


def checkpoint_seeds() -> list[bytes]:
    cases = load("message-ids.json")
    theirs = [bytes.fromhex(case["bytes"]) for case in (*cases["checkpoints"], *cases["checkpoints_malformed"])]
    return theirs + [checkpoint.from_bytes(data).to_bytes() for data in theirs[:6]]


def name_seeds() -> list[bytes]:
    return [case["input"].encode("utf-8", "surrogatepass") for case in load("names.json")["parse"]]


# Where a search starts: recorded bytes get it past the first checks. A target without seeds starts from nothing.
SEEDS: dict[str, Callable[[], list[bytes]]] = {
    "commands": command_seeds,
    "cutting": frame_seeds,
    "entries": entry_seeds,
    "batches": batch_seeds,
    "message_ids": id_seeds,
    "checkpoints": checkpoint_seeds,
    "topic_names": name_seeds,
    "journal_damage": journal.damage_seeds,
    "journal_files": journal.file_seeds,
    "snapshot_files": snapshots.snapshot_seeds,
    "acknowledgements": snapshots.acknowledgement_seeds,
    "records": snapshots.record_seeds,
    "zookeeper": zookeeper.seeds,
}
