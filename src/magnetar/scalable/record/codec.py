"""The bytes of a record: versioned JSON with Pulsar's names where Pulsar has one, and the shape that REST shows.

Fields that a newer version added to a record, a segment, an intent or the history survive a rewrite by this
one. A newer `v` means that the meaning changed: it is refused with what to do. Every byte is checked on the way in:
wrong shapes and layouts that contradict themselves are `Corrupt`. A long record is compressed. Sealed segments do not
change, so each remembers its bytes: reading and writing a long history costs little more than a short one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import zstandard

from magnetar.base import validation
from magnetar.base.errors import Corrupt, InvalidRange, LimitExceeded
from magnetar.base.ids import Epoch, Position, SegmentId, Term
from magnetar.base.limits import RECORD_BYTES_MAX, RECORD_OPEN_BYTES_MAX, RECORD_PLAIN_BYTES_MAX
from magnetar.base.ranges import HashRange
from magnetar.layout.layout import Child, Layout
from magnetar.layout.routing import Routing
from magnetar.layout.segment import NEVER, Ending, Segment, State
from magnetar.scalable.record.record import Intent, Kind, Lifecycle, Outcome, PastReshape, Record

VERSION = 1
COMPRESSED = b"MgRz"  # before a record that is compressed: JSON never begins so
_LEVEL = 3  # of zstd: a history of 5,000 segments in some 10 ms
_VALIDATED_SEGMENTS_MAX = 100  # reading back a longer record would take more time than the test
_JSON = dict[str, Any]


class _Range(msgspec.Struct):
    start: int
    end: int


class _Segment(msgspec.Struct, omit_defaults=True):
    segmentId: int
    hashRange: _Range
    state: State
    parentIds: tuple[int, ...] = ()
    childIds: tuple[int, ...] = ()
    createdAtEpoch: int = 0
    createdAtMs: int = 0
    sealedAtEpoch: int = NEVER
    sealedAtMs: int = NEVER
    sealedBy: str = ""
    end: tuple[int, int] | None = None
    messages: int = 0
    bytes: int = 0
    firstPublishMs: int = 0
    lastPublishMs: int = 0
    legacyTopicName: str = ""
    entryBucketSplits: tuple[int, ...] = ()
    mergeDepth: int = 0


class _Child(msgspec.Struct):
    segmentId: int
    hashRange: _Range


class _Intent(msgspec.Struct, omit_defaults=True):
    op: str
    kind: Kind
    parents: tuple[int, ...]
    children: tuple[_Child, ...]
    term: int
    createdAtMs: int = 0
    trigger: str = ""
    reason: str = ""
    abandoned: str = ""
    buckets: int = 0


class _PastReshape(msgspec.Struct, omit_defaults=True):
    op: str
    kind: Kind
    outcome: Outcome
    parents: tuple[int, ...]
    children: tuple[int, ...]
    epoch: int
    atMs: int
    trigger: str = ""
    reason: str = ""


class _Record(msgspec.Struct, omit_defaults=True):
    v: int
    epoch: int
    nextSegmentId: int
    incarnation: int
    lifecycle: Lifecycle
    term: int
    segments: dict[str, msgspec.Raw]
    subsGen: int = 0
    intent: msgspec.Raw = msgspec.Raw()
    routing: Routing | None = None
    fence: int = 0
    exclusive: str = ""
    createdAtMs: int = 0
    properties: dict[str, str] = {}
    autoScalePolicy: msgspec.Raw = msgspec.Raw()
    history: tuple[msgspec.Raw, ...] = ()
    generation: int | None = None


_KNOWN: dict[type[msgspec.Struct], frozenset[str]] = {
    form: frozenset(form.__struct_fields__) for form in (_Segment, _Intent, _PastReshape, _Record)
}


def encode(record: Record) -> bytes:
    """LimitExceeded: larger than a record may be. A long history is stored compressed, about twelve times smaller."""
    data = plain = _encode(record)
    size = len(plain)
    if size > RECORD_PLAIN_BYTES_MAX:
        data = COMPRESSED + zstandard.ZstdCompressor(level=_LEVEL).compress(plain)
    if len(data) > RECORD_BYTES_MAX or size > RECORD_OPEN_BYTES_MAX:
        raise LimitExceeded(
            f"the record of the topic would be too large: it has {len(record.layout)} segments from all reshapes. "
            "Create a new topic and publish to it",
            bytes=len(data),
            bytes_max=RECORD_BYTES_MAX,
        )
    if validation.enabled and len(record.layout) <= _VALIDATED_SEGMENTS_MAX:
        # `decode` keeps fields of a newer version as text, which may have other spaces: the bytes are compared.
        assert _encode(decode(data)) == plain, "a record reads back as it was written"
    return data


def text_bytes(data: bytes) -> int:
    """How long a stored record is as text, without decompressing it."""
    if not data.startswith(COMPRESSED):
        return len(data)
    size = zstandard.frame_content_size(data[len(COMPRESSED) :])
    return size if 0 <= size <= RECORD_OPEN_BYTES_MAX else RECORD_OPEN_BYTES_MAX


def decode(data: bytes, before: Record | None = None) -> Record:
    """`before`: an earlier state of the same record, whose unchanged parts are not read again."""
    try:
        if data.startswith(COMPRESSED):
            packed = data[len(COMPRESSED) :]
            data = zstandard.ZstdDecompressor().decompress(packed, max_output_size=RECORD_OPEN_BYTES_MAX)
        raw = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        version = msgspec.json.decode(raw["v"]) if "v" in raw else None
        if not isinstance(version, int):
            raise Corrupt("expected the record of a scalable topic: the version is missing")
        if version > VERSION:
            raise Corrupt(
                "the record of the topic was written by a newer version: upgrade this broker", version=version
            )
        form = msgspec.json.decode(data, type=_Record)
        return _record(form, raw, before)
    except (msgspec.DecodeError, UnicodeDecodeError, zstandard.ZstdError) as error:
        raise Corrupt("expected the record of a scalable topic", why=str(error)) from error
    except InvalidRange as error:
        raise Corrupt("the record of the topic has an invalid range", why=str(error)) from error


def rest(record: Record) -> _JSON:
    """What GET on a scalable topic answers: Pulsar's shape, with the flags that its mapper derives."""
    shown: _JSON = {
        "epoch": record.layout.shown_epoch,
        "nextSegmentId": record.layout.next_segment_id,
        "segments": {str(one.id): _rest_segment(one) for one in record.layout.segments},
        "properties": dict(record.properties),
    }
    if record.autoscale:
        shown["autoScalePolicy"] = msgspec.json.decode(record.autoscale)
    return shown


def _rest_segment(segment: Segment) -> _JSON:
    shown: _JSON = {
        "segmentId": segment.id,
        "hashRange": {"start": segment.range.start, "end": segment.range.end},
        "state": str(State.ACTIVE if segment.is_active else State.SEALED),
        "parentIds": list(segment.parents),
        "childIds": list(segment.children),
        "createdAtEpoch": segment.created_epoch,
        "sealedAtEpoch": segment.sealed_epoch,
        "createdAtMs": segment.created_ms,
        "sealedAtMs": segment.sealed_ms,
        "sealed": not segment.is_active,
        "active": segment.is_active,
        "root": not segment.parents,
        "leaf": not segment.children,
        "legacy": bool(segment.legacy_topic),
    }
    if segment.legacy_topic:
        shown["legacyTopicName"] = segment.legacy_topic
    if segment.bucket_splits:
        shown["entryBucketSplits"] = list(segment.bucket_splits)
    return shown


def field_names() -> dict[str, frozenset[str]]:
    """What this version stores, of a record and of a segment."""
    return {"record": _KNOWN[_Record], "segment": _KNOWN[_Segment]}


# Out


def _encode(record: Record) -> bytes:
    form = _Record(
        v=VERSION,
        epoch=record.epoch,
        nextSegmentId=record.layout.next_segment_id,
        incarnation=record.incarnation,
        lifecycle=record.lifecycle,
        term=record.term,
        segments={},
        subsGen=record.subs_gen,
        routing=record.routing,
        fence=record.fence,
        exclusive=record.exclusive,
        createdAtMs=record.created_ms,
        properties=dict(record.properties),
        generation=record.layout.generation,
    )
    body = _joined(form, record.unknown)
    body["segments"] = {str(one.id): msgspec.Raw(one.form or _kept(one)) for one in record.layout.segments}
    if record.intent is not None:
        body["intent"] = _joined(_intent_form(record.intent), record.intent.unknown)
    if record.autoscale:
        body["autoScalePolicy"] = msgspec.Raw(record.autoscale.encode())
    if record.history:
        body["history"] = [msgspec.Raw(past.form or _kept_past(past)) for past in record.history]
    return msgspec.json.encode(body)


def _kept(segment: Segment) -> bytes:
    return segment.keep(msgspec.json.encode(_joined(_segment_form(segment), segment.unknown)))


def _kept_past(past: PastReshape) -> bytes:
    return past.keep(msgspec.json.encode(_joined(_past_form(past), past.unknown)))


def _joined(form: msgspec.Struct, unknown: str) -> _JSON:
    fields: _JSON = msgspec.to_builtins(form)
    return {**msgspec.json.decode(unknown), **fields} if unknown else fields


def _segment_form(segment: Segment) -> _Segment:
    ending = segment.ending
    return _Segment(
        segmentId=segment.id,
        hashRange=_Range(segment.range.start, segment.range.end),
        state=segment.state,
        parentIds=segment.parents,
        childIds=segment.children,
        createdAtEpoch=segment.created_epoch,
        createdAtMs=segment.created_ms,
        sealedAtEpoch=segment.sealed_epoch,
        sealedAtMs=segment.sealed_ms,
        sealedBy=segment.sealed_by,
        end=(ending.end.ledger, ending.end.entry) if ending else None,
        messages=ending.messages if ending else 0,
        bytes=ending.bytes if ending else 0,
        firstPublishMs=ending.first_publish_ms if ending else 0,
        lastPublishMs=ending.last_publish_ms if ending else 0,
        legacyTopicName=segment.legacy_topic,
        entryBucketSplits=segment.bucket_splits,
        mergeDepth=segment.merge_depth,
    )


def _intent_form(intent: Intent) -> _Intent:
    return _Intent(
        op=intent.op,
        kind=intent.kind,
        parents=intent.parents,
        children=tuple(_Child(one.id, _Range(one.range.start, one.range.end)) for one in intent.children),
        term=intent.term,
        createdAtMs=intent.created_ms,
        trigger=intent.trigger,
        reason=intent.reason,
        abandoned=intent.abandoned,
        buckets=intent.buckets,
    )


def _past_form(past: PastReshape) -> _PastReshape:
    return _PastReshape(
        past.op, past.kind, past.outcome, past.parents, past.children, past.epoch, past.at_ms, past.trigger, past.reason
    )


# In


def _record(form: _Record, raw: Mapping[str, msgspec.Raw], before: Record | None) -> Record:
    kept = {} if before is None else {one.form: one for one in before.layout.segments if one.form}
    segments = [kept.get(part) or _segment(key, part) for key, part in _parts(form)]
    segments.sort(key=lambda one: one.id)
    if any(key != str(one.id) for key, one in zip(sorted(form.segments, key=int), segments, strict=True)):
        raise Corrupt("the record lists a segment under the id of another one")
    history = {} if before is None else {past.form: past for past in before.history if past.form}
    past = [bytes(one) for one in form.history]
    return Record(
        layout=Layout(Epoch(form.epoch), SegmentId(form.nextSegmentId), tuple(segments), form.generation),
        incarnation=form.incarnation,
        lifecycle=form.lifecycle,
        term=Term(form.term),
        subs_gen=form.subsGen,
        intent=_intent(bytes(form.intent)) if bytes(form.intent) not in (b"", b"null") else None,
        routing=form.routing,
        fence=form.fence,
        exclusive=form.exclusive,
        created_ms=form.createdAtMs,
        properties=tuple(sorted(form.properties.items())),
        autoscale=bytes(form.autoScalePolicy).decode(),
        history=tuple(history.get(one) or _past(one) for one in past),
        unknown=_unknown(raw, _Record),
    )


def _parts(form: _Record) -> Iterator[tuple[str, bytes]]:
    for key, part in form.segments.items():
        if not key.isascii() or not key.isdecimal():
            raise Corrupt("the record lists a segment under the id of another one", key=key)
        yield key, bytes(part)


def _segment(key: str, data: bytes) -> Segment:
    form = msgspec.json.decode(data, type=_Segment)
    raw = msgspec.json.decode(data)
    if key != str(form.segmentId):
        raise Corrupt("the record lists a segment under the id of another one", key=key, id=form.segmentId)
    ending = None
    if form.end is not None:
        ending = Ending(Position(*form.end), form.messages, form.bytes, form.firstPublishMs, form.lastPublishMs)
    segment = Segment(
        id=SegmentId(form.segmentId),
        range=HashRange(form.hashRange.start, form.hashRange.end),
        state=form.state,
        parents=_ids(form.parentIds),
        children=_ids(form.childIds),
        created_epoch=Epoch(form.createdAtEpoch),
        created_ms=form.createdAtMs,
        sealed_epoch=Epoch(form.sealedAtEpoch),
        sealed_ms=form.sealedAtMs,
        sealed_by=form.sealedBy,
        ending=ending,
        legacy_topic=form.legacyTopicName,
        bucket_splits=form.entryBucketSplits,
        merge_depth=form.mergeDepth,
        unknown=_unknown(raw, _Segment),
    )
    segment.keep(data)
    return segment


def _intent(data: bytes) -> Intent:
    form = msgspec.json.decode(data, type=_Intent)
    raw = msgspec.json.decode(data)
    return Intent(
        op=form.op,
        kind=form.kind,
        parents=_ids(form.parents),
        children=tuple(
            Child(SegmentId(one.segmentId), HashRange(one.hashRange.start, one.hashRange.end)) for one in form.children
        ),
        term=Term(form.term),
        created_ms=form.createdAtMs,
        trigger=form.trigger,
        reason=form.reason,
        abandoned=form.abandoned,
        buckets=form.buckets,
        unknown=_unknown(raw, _Intent),
    )


def _past(data: bytes) -> PastReshape:
    form = msgspec.json.decode(data, type=_PastReshape)
    past = PastReshape(
        form.op,
        form.kind,
        form.outcome,
        _ids(form.parents),
        _ids(form.children),
        Epoch(form.epoch),
        form.atMs,
        form.trigger,
        form.reason,
        unknown=_unknown(msgspec.json.decode(data), _PastReshape),
    )
    past.keep(data)
    return past


def _ids(ids: tuple[int, ...]) -> tuple[SegmentId, ...]:
    return tuple(SegmentId(id) for id in ids)


def _unknown(raw: Mapping[str, Any], form: type[msgspec.Struct]) -> str:
    names = raw.keys() - _KNOWN[form]
    if not names:
        return ""
    return msgspec.json.encode({name: raw[name] for name in names}, order="deterministic").decode()
