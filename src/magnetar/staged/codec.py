"""The bytes of a sink's record, and the names that stages go by: `<sink>-<life>-<number>`, where `<sink>` is a digest
of the topic and the sink's own name.

Versioned JSON; fields that a newer version added survive a rewrite by this one, a newer `v` is refused with what to do.
Every byte is checked on the way in.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

import msgspec

from magnetar.base import validation
from magnetar.base.errors import Corrupt, InvalidName, LimitExceeded
from magnetar.base.limits import RECORD_BYTES_MAX, SINK_NAME_BYTES_MAX
from magnetar.base.names import SINK_PREFIX, STAGE_PREFIX, Domain, TopicName, topic_name
from magnetar.staged.machine import Sink

VERSION = 1

_ID = re.compile(r"([0-9a-f]{20})-([0-9a-f]{8})-(\d{1,18})")
_FIELDS = frozenset(Sink.__struct_encode_fields__) - {"extra"}


class StageId(msgspec.Struct, frozen=True):
    sink: str  # the digest
    life: str
    number: int

    def __str__(self) -> str:
        return f"{self.sink}-{self.life}-{self.number}"


def digest(topic: str, name: str) -> str:
    """Of a sink. InvalidName: it has no name, or one that is too long."""
    data = name.encode("utf-8", "surrogatepass")
    if not 0 < len(data) <= SINK_NAME_BYTES_MAX:
        raise InvalidName(f"the name of a sink must have 1 to {SINK_NAME_BYTES_MAX} bytes", sink=name[:64])
    return sha256(topic.encode() + b"\n" + data).hexdigest()[:20]


def stage_id(text: str) -> StageId:
    match = _ID.fullmatch(text)
    if match is None:
        raise InvalidName("expected a stage id, as the broker returned it when the stage was begun", stage=text[:64])
    return StageId(match[1], match[2], int(match[3]))


def stage_topic(target: TopicName, id: StageId) -> TopicName:
    """In the namespace of the topic that it is for."""
    return topic_name(f"{Domain.PERSISTENT}://{target.namespace}/{STAGE_PREFIX}{id}")


def stage_of(name: TopicName) -> StageId | None:
    """The stage of this topic; None: another topic with the prefix."""
    match = _ID.fullmatch(name.local_name.removeprefix(STAGE_PREFIX))
    return None if match is None else StageId(match[1], match[2], int(match[3]))


def producer(sink: Sink, number: int) -> str:
    return f"{SINK_PREFIX}{digest(sink.topic, sink.name)}-{sink.life}-{number}"


def encode(sink: Sink) -> bytes:
    body: dict[str, Any] = {"v": VERSION, **dict(sink.extra), **msgspec.to_builtins(sink)}
    body.pop("extra", None)
    data = msgspec.json.encode(body)
    if len(data) > RECORD_BYTES_MAX:
        raise LimitExceeded(
            "the record of the sink is too large: use fewer tasks in a batch", sink=sink.name, bytes=len(data)
        )
    if validation.enabled:
        assert decode(data) == sink, "a sink reads back as it was written"
    return data


def decode(data: bytes) -> Sink:
    try:
        body = msgspec.json.decode(data, type=dict[str, Any])
        version = body.pop("v", None)
        if isinstance(version, int) and version > VERSION:
            raise Corrupt(
                f"a newer Magnetar wrote the record of this sink (v{version}): use that version, or delete the sink"
            )
        extra = tuple((key, body[key]) for key in sorted(body.keys() - _FIELDS))
        fields = {key: value for key, value in body.items() if key in _FIELDS}
        sink = msgspec.convert(fields, Sink)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"the record of a sink cannot be read: {error}") from None
    _check(sink)
    return msgspec.structs.replace(sink, extra=extra)


def _check(sink: Sink) -> None:
    numbers = [one.number for one in sink.stages] + [one.number for one in sink.chosen] + list(sink.dropped)
    if len(set(numbers)) != len(numbers) or any(not 0 <= number < sink.issued for number in numbers):
        raise Corrupt("a sink lists a stage twice, or a stage that it never issued", sink=sink.name)
    for chosen in sink.chosen:
        number, messages = len(sink.sequences), chosen.first + chosen.messages
        if not 0 <= chosen.producer < number or messages > sink.sequences[chosen.producer]:
            raise Corrupt("a committed stage has a producer or sequence ids that were never allocated", sink=sink.name)
