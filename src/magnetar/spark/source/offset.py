"""The position of a query in a scalable topic: the offset in Spark's checkpoint.

A frontier names, for every segment that is being read or waits, the next position, or DONE. All segments above it in
the graph have been read. Spark compares the text byte by byte, so each position has one form: sorted keys, plain
numbers, and optional fields only if set. The end of the first batch contains its start as `from`, because the
checkpoint does not store the start itself. `init` marks such a start. `gap` lists ranges that the batch skipped because
they were deleted, so that a replay does not request them. `cut` lists the task boundaries inside a segment, so that a
replay makes the same tasks. The text is a user's file: any other form is rejected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from magnetar.base.errors import Corrupt, Misuse
from magnetar.base.ids import Epoch, SegmentId
from magnetar.base.limits import SPARK_OFFSET_BYTES_MAX
from magnetar.layout.readable_range import DONE, NUMBER_MAX, START, Places, ReadPosition

VERSION = 1

_NUMBER = r"(0|[1-9][0-9]{0,18})"
_POSITION = re.compile(rf"{_NUMBER}:{_NUMBER}(?::([1-9][0-9]{{0,18}}))?")
_SEGMENT = re.compile(_NUMBER)
_FIELDS = {"v", "cut", "epoch", "seg", "from", "gap", "init", "life", "topic"}

Gaps = Mapping[SegmentId, tuple[ReadPosition, ReadPosition]]  # skipped: from, up to
Cuts = Mapping[SegmentId, tuple[ReadPosition, ...]]  # task boundaries in a segment, in order


@dataclass(frozen=True, slots=True)
class SourceOffset:
    epoch: Epoch
    places: Places
    origin: Places | None = None  # only at the end of the first batch: its start
    gaps: Gaps = field(default_factory=dict)  # of the batch that ends here
    initial: bool = False  # created by initialOffset: not the end of a batch
    life: int = 0  # the topic's incarnation (H-C4); 0 if the server does not report it
    topic: str = ""
    cuts: Cuts = field(default_factory=dict)  # of the batch that ends here

    @property
    def text(self) -> str:
        return json.dumps(self.document(), separators=(",", ":"), sort_keys=True)

    def document(self) -> dict[str, Any]:
        """The dict for PySpark; its order is that of the text."""
        fields: dict[str, Any] = {}
        if self.cuts:
            fields["cut"] = {str(id): [str(one) for one in self.cuts[id]] for id in _sorted(self.cuts)}
        fields["epoch"] = self.epoch
        if self.origin is not None:
            fields["from"] = _written(self.origin)
        if self.gaps:
            fields["gap"] = {str(id): [str(one) for one in self.gaps[id]] for id in _sorted(self.gaps)}
        if self.initial:
            fields["init"] = True
        if self.life:
            fields["life"] = self.life
        fields["seg"] = _written(self.places)
        if self.topic:
            fields["topic"] = self.topic
        fields["v"] = VERSION
        return fields

    def belongs(self, *, topic: str, life: int) -> None:
        """`Misuse` if the offset belongs to another topic or to another incarnation of this one (H-C1, H-C4)."""
        if self.topic and topic and self.topic != topic:
            raise Misuse(
                "the checkpoint belongs to another topic: set a new checkpointLocation, or read that topic",
                checkpoint=self.topic,
                topic=topic,
            )
        if self.life and life and self.life != life:
            raise Misuse(
                "the topic was deleted and recreated after the checkpoint was written: set a new checkpointLocation",
                topic=topic or self.topic,
                checkpoint=self.life,
                now=life,
            )

    def grows_to(self, end: SourceOffset) -> bool:
        """Whether the two offsets allow a batch from here to `end`. Spark itself does not check."""
        end.belongs(topic=self.topic, life=self.life)
        return end.epoch >= self.epoch and all(
            place <= end.places[id] for id, place in self.places.items() if id in end.places
        )


def parse(text: str) -> SourceOffset:
    return from_document(document_of(text))


def document_of(text: str) -> object:
    if len(text) > SPARK_OFFSET_BYTES_MAX:
        raise Corrupt("an offset exceeds the maximum length", characters=len(text))
    try:
        document: object = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        raise Corrupt("an offset must be JSON: check that it belongs to this source", text=text[:80]) from None
    return document


def from_document(document: object) -> SourceOffset:
    """The offset that PySpark returns."""
    if not isinstance(document, dict):
        raise Corrupt("an offset must be a JSON object", text=str(document)[:80])
    version = document.get("v")
    if type(version) is int and version > VERSION:
        raise Misuse(
            "a newer version of magnetar wrote the offset: install that version, or set a new checkpointLocation",
            offset=version,
            known=VERSION,
        )
    if version != VERSION or type(version) is not int:
        raise Corrupt("the version of the offset is unknown: check that it belongs to this source", v=str(version)[:20])
    strange = sorted(str(name) for name in document.keys() - _FIELDS)
    if strange:
        raise Corrupt("an offset has fields that this version does not support", fields=", ".join(strange)[:80])
    initial, topic = document.get("init", False), document.get("topic", "")
    if type(initial) is not bool or (not initial and "init" in document):
        raise Corrupt("init must be true or absent", init=str(initial)[:20])
    if not isinstance(topic, str) or (not topic and "topic" in document):
        raise Corrupt("an offset's topic must be a name", topic=str(topic)[:80])
    life = _number(document.get("life", 0), "life")
    if not life and "life" in document:
        raise Corrupt("an offset's incarnation must be at least 1")
    return SourceOffset(
        Epoch(_number(document.get("epoch"), "epoch")),
        _read(document.get("seg"), "seg"),
        _read(document["from"], "from") if "from" in document else None,
        _gaps(document["gap"]) if "gap" in document else {},
        initial,
        life,
        topic,
        _cuts(document["cut"]) if "cut" in document else {},
    )


def position(text: object) -> ReadPosition:
    """The only form of a position: `ledger:entry`, `ledger:entry:index` inside a batch, `-1:-1` before all, DONE."""
    if text == "DONE":
        return DONE
    if text == "-1:-1":
        return START
    match = _POSITION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise Corrupt("a position must be ledger:entry, ledger:entry:index or DONE", text=str(text)[:60])
    numbers = [int(part) for part in match.groups("0")]
    if max(numbers) >= NUMBER_MAX:
        raise Corrupt("a position exceeds the largest position", text=str(text)[:60])
    return ReadPosition(*numbers)


def _read(document: object, name: str) -> Places:
    if not isinstance(document, dict):
        raise Corrupt(f"an offset's {name} must be an object from segments to positions", found=str(document)[:60])
    return {_segment(id): position(place) for id, place in document.items()}


def _gaps(document: object) -> Gaps:
    if not isinstance(document, dict) or not document:
        raise Corrupt("an offset's gap must be an object from segments to pairs of positions", found=str(document)[:60])
    gaps: dict[SegmentId, tuple[ReadPosition, ReadPosition]] = {}
    for id, pair in document.items():
        if not isinstance(pair, list) or len(pair) != 2:
            raise Corrupt("a gap must be a pair of positions", segment=str(id)[:20], found=str(pair)[:60])
        first, last = position(pair[0]), position(pair[1])
        if first >= last:
            raise Corrupt("a gap must end after its start", segment=str(id)[:20], found=str(pair)[:60])
        gaps[_segment(id)] = (first, last)
    return gaps


def _cuts(document: object) -> Cuts:
    if not isinstance(document, dict) or not document:
        raise Corrupt("an offset's cut must be an object from segments to positions", found=str(document)[:60])
    by_segment: dict[SegmentId, tuple[ReadPosition, ...]] = {}
    for id, places in document.items():
        if not isinstance(places, list) or not places:
            raise Corrupt("a cut must be a list of positions", segment=str(id)[:20], found=str(places)[:60])
        cuts = tuple(map(position, places))
        if any(one >= other for one, other in pairwise(cuts)):
            raise Corrupt("the cuts of a segment must increase", segment=str(id)[:20], found=str(places)[:60])
        by_segment[_segment(id)] = cuts
    return by_segment


def _segment(text: object) -> SegmentId:
    if not isinstance(text, str) or _SEGMENT.fullmatch(text) is None or int(text) > NUMBER_MAX:
        raise Corrupt("a segment must be a plain number", segment=str(text)[:40])
    return SegmentId(int(text))


def _number(value: object, name: str) -> int:
    if type(value) is not int or not 0 <= value <= NUMBER_MAX:
        raise Corrupt(f"an offset's {name} must be a number", found=str(value)[:40])
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise Corrupt("an offset must not repeat a field", fields=", ".join(name for name, _ in pairs)[:80])
    return mapping


def _sorted(ids: Iterable[SegmentId]) -> list[SegmentId]:
    return sorted(ids, key=str)  # as json sorts keys


def _written(places: Places) -> dict[str, str]:
    return {str(id): str(places[id]) for id in _sorted(places)}
