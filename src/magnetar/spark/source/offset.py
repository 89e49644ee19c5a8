"""Where a query stands in a scalable topic: the offset that Spark keeps in its checkpoint.

A frontier names, for every segment that is being read or waited for, the next position, or DONE; all that lies above
it in the graph is read. Its text is compared by Spark byte by byte, so one place has one form: keys sorted, numbers
plain, nothing optional written when it says nothing. The first batch's end says `from` where it started, because the
start itself is not in the checkpoint; `init` marks such a start; `gap` says what the batch skipped because it was gone,
so that a replay does not ask for it again; `cut` says where tasks of the batch begin inside a segment, so that a replay
has the same ones. Text is a user's file: what is not exactly such a form is refused.
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
Cuts = Mapping[SegmentId, tuple[ReadPosition, ...]]  # where a segment is cut for tasks, in order


@dataclass(frozen=True, slots=True)
class SourceOffset:
    epoch: Epoch
    places: Places
    origin: Places | None = None  # of the first batch's end: where that batch started
    gaps: Gaps = field(default_factory=dict)  # of the batch that ends here
    initial: bool = False  # made by initialOffset: no batch has ended here
    life: int = 0  # the topic's incarnation (H-C4); 0 where the server does not tell
    topic: str = ""
    cuts: Cuts = field(default_factory=dict)  # of the batch that ends here

    @property
    def text(self) -> str:
        return json.dumps(self.document(), separators=(",", ":"), sort_keys=True)

    def document(self) -> dict[str, Any]:
        """As PySpark takes it: a dict whose own order is that of the text."""
        said: dict[str, Any] = {}
        if self.cuts:
            said["cut"] = {str(id): [str(one) for one in self.cuts[id]] for id in _sorted(self.cuts)}
        said["epoch"] = self.epoch
        if self.origin is not None:
            said["from"] = _written(self.origin)
        if self.gaps:
            said["gap"] = {str(id): [str(one) for one in self.gaps[id]] for id in _sorted(self.gaps)}
        if self.initial:
            said["init"] = True
        if self.life:
            said["life"] = self.life
        said["seg"] = _written(self.places)
        if self.topic:
            said["topic"] = self.topic
        said["v"] = VERSION
        return said

    def belongs(self, *, topic: str, life: int) -> None:
        """`Misuse` if this is the offset of another topic, or of another life of this one (H-C1, H-C4)."""
        if self.topic and topic and self.topic != topic:
            raise Misuse(
                "the checkpoint belongs to another topic: give the query a new checkpointLocation, or the topic it had",
                checkpoint=self.topic,
                topic=topic,
            )
        if self.life and life and self.life != life:
            raise Misuse(
                "the topic was deleted and made again since the checkpoint was written: start with a new "
                "checkpointLocation",
                topic=topic or self.topic,
                checkpoint=self.life,
                now=life,
            )

    def grows_to(self, end: SourceOffset) -> bool:
        """May a batch lead from here to there, as far as the two alone can tell? Spark itself does not ask."""
        end.belongs(topic=self.topic, life=self.life)
        return end.epoch >= self.epoch and all(
            place <= end.places[id] for id, place in self.places.items() if id in end.places
        )


def parse(text: str) -> SourceOffset:
    return from_document(document_of(text))


def document_of(text: str) -> object:
    if len(text) > SPARK_OFFSET_BYTES_MAX:
        raise Corrupt("an offset is longer than any topic needs", characters=len(text))
    try:
        said: object = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        raise Corrupt("an offset is not JSON: is it one of this source?", text=text[:80]) from None
    return said


def from_document(said: object) -> SourceOffset:
    """As PySpark hands it back."""
    if not isinstance(said, dict):
        raise Corrupt("an offset is a JSON object", text=str(said)[:80])
    version = said.get("v")
    if type(version) is int and version > VERSION:
        raise Misuse(
            "a newer version of magnetar wrote the offset: install that one, or start with a new checkpointLocation",
            offset=version,
            known=VERSION,
        )
    if version != VERSION or type(version) is not int:
        raise Corrupt("an offset says no version that there is: is it one of this source?", v=str(version)[:20])
    strange = sorted(str(name) for name in said.keys() - _FIELDS)
    if strange:
        raise Corrupt("an offset has fields that this version does not know", fields=", ".join(strange)[:80])
    initial, topic = said.get("init", False), said.get("topic", "")
    if type(initial) is not bool or (not initial and "init" in said):
        raise Corrupt("init is true or absent", init=str(initial)[:20])
    if not isinstance(topic, str) or (not topic and "topic" in said):
        raise Corrupt("an offset's topic is a name", topic=str(topic)[:80])
    life = _number(said.get("life", 0), "life")
    if not life and "life" in said:
        raise Corrupt("an offset's life is counted from one")
    return SourceOffset(
        Epoch(_number(said.get("epoch"), "epoch")),
        _read(said.get("seg"), "seg"),
        _read(said["from"], "from") if "from" in said else None,
        _gaps(said["gap"]) if "gap" in said else {},
        initial,
        life,
        topic,
        _cuts(said["cut"]) if "cut" in said else {},
    )


def position(text: object) -> ReadPosition:
    """The one form of a position: `ledger:entry`, `ledger:entry:index` inside a batch, `-1:-1` before all, DONE."""
    if text == "DONE":
        return DONE
    if text == "-1:-1":
        return START
    found = _POSITION.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise Corrupt("not a position: ledger:entry, ledger:entry:index or DONE", text=str(text)[:60])
    numbers = [int(part) for part in found.groups("0")]
    if max(numbers) >= NUMBER_MAX:
        raise Corrupt("a position beyond all positions", text=str(text)[:60])
    return ReadPosition(*numbers)


def _read(said: object, name: str) -> Places:
    if not isinstance(said, dict):
        raise Corrupt(f"an offset's {name} is an object from segments to positions", found=str(said)[:60])
    return {_segment(id): position(place) for id, place in said.items()}


def _gaps(said: object) -> Gaps:
    if not isinstance(said, dict) or not said:
        raise Corrupt("an offset's gap is an object from segments to pairs of positions", found=str(said)[:60])
    found: dict[SegmentId, tuple[ReadPosition, ReadPosition]] = {}
    for id, pair in said.items():
        if not isinstance(pair, list) or len(pair) != 2:
            raise Corrupt("a gap is a pair of positions", segment=str(id)[:20], found=str(pair)[:60])
        first, last = position(pair[0]), position(pair[1])
        if first >= last:
            raise Corrupt("a gap ends after it starts", segment=str(id)[:20], found=str(pair)[:60])
        found[_segment(id)] = (first, last)
    return found


def _cuts(said: object) -> Cuts:
    if not isinstance(said, dict) or not said:
        raise Corrupt("an offset's cut is an object from segments to positions", found=str(said)[:60])
    found: dict[SegmentId, tuple[ReadPosition, ...]] = {}
    for id, places in said.items():
        if not isinstance(places, list) or not places:
            raise Corrupt("a cut is a list of positions", segment=str(id)[:20], found=str(places)[:60])
        cuts = tuple(map(position, places))
        if any(one >= other for one, other in pairwise(cuts)):
            raise Corrupt("the cuts of a segment grow", segment=str(id)[:20], found=str(places)[:60])
        found[_segment(id)] = cuts
    return found


def _segment(text: object) -> SegmentId:
    if not isinstance(text, str) or _SEGMENT.fullmatch(text) is None or int(text) > NUMBER_MAX:
        raise Corrupt("a segment is a plain number", segment=str(text)[:40])
    return SegmentId(int(text))


def _number(value: object, name: str) -> int:
    if type(value) is not int or not 0 <= value <= NUMBER_MAX:
        raise Corrupt(f"an offset's {name} is a number", found=str(value)[:40])
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise Corrupt("an offset says something twice", fields=", ".join(name for name, _ in pairs)[:80])
    return made


def _sorted(ids: Iterable[SegmentId]) -> list[SegmentId]:
    return sorted(ids, key=str)  # as json sorts keys


def _written(places: Places) -> dict[str, str]:
    return {str(id): str(places[id]) for id in _sorted(places)}
