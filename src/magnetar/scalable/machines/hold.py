"""A hold keeps the messages after some positions of a topic, for a reader that commits rarely, until it expires.

It is part of the record of a subscription of type CHECKPOINT. Positions move forward only; a position before the
present one is ignored. Data that begins before a position and extends beyond it, such as a message in chunks, is kept
too (H-G13). A hold is valid until a leader has written that it expired. That is never written unless the record
announced it some time before: a clock that jumps, or an outage of all brokers, expires nothing unannounced (H-H6).
This module only decides; the owner of a segment asks it which messages to keep (`floor`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import msgspec

from magnetar.base.errors import Corrupt, Misuse
from magnetar.base.ids import AFTER_ALL, BEFORE_ALL, Position, SegmentId
from magnetar.base.limits import HOLD_EXPIRED_KEPT_S, HOLD_EXPIRES_S_MAX, HOLD_NOTICE_S_MAX
from magnetar.layout.layout import Layout
from magnetar.layout.readable_range import DONE, START, Around, Places, ReadPosition, ahead, shortened, stands

NOTICE_SHARE = 10  # a hold that lives an hour is announced six minutes before


@dataclass(frozen=True, slots=True)
class StoredHold:
    """`until_ms`: unless the reader comes before that. `warned_ms`, `expired_ms`: when that was written, or 0."""

    places: tuple[tuple[SegmentId, ReadPosition], ...]  # by segment; none at all keeps everything
    expires_s: int
    until_ms: int
    moved_ms: int
    owner: str = ""
    warned_ms: int = 0
    expired_ms: int = 0
    around: tuple[tuple[SegmentId, tuple[int, int]], ...] = ()

    @property
    def keeps(self) -> bool:
        return not self.expired_ms

    @property
    def notice_s(self) -> float:
        """How long before its end it is announced."""
        return min(HOLD_NOTICE_S_MAX, self.expires_s / NOTICE_SHARE)


class Due(Enum):
    NOTHING = "its end is far away, or it has expired"
    WARN = "its end is near and was not announced"
    EXPIRE = "its time has passed, and its end was announced early enough"
    REMOVE = "it expired so long ago that no reader asks for it any more"


def moved(
    held: StoredHold | None,
    layout: Layout,
    places: Places,
    *,
    now_ms: int,
    expires_s: int,
    owner: str,
    around: Around | None = None,
) -> tuple[StoredHold, bool]:
    """The reader has come: its hold lives on, at these places where they are ahead. And whether it moved, or is new."""
    if not 1 <= expires_s <= HOLD_EXPIRES_S_MAX:
        raise Misuse(f"the expiry of a hold must be 1 to {HOLD_EXPIRES_S_MAX:.0f} seconds", expires_s=expires_s)
    for id, place in places.items():
        if place == DONE and id in layout and layout.segment(id).is_active:
            raise Misuse("the position must not be the end of an active segment: it has no end yet", segment=id)
    before = dict(held.places) if held is not None else {}
    kept = {id: place for id, place in places.items() if id in layout}
    after = shortened(layout, ahead(layout, _listed(before, layout), kept))
    anew = held is None or stands(layout, _listed(before, layout)) != stands(layout, after)
    return (
        StoredHold(
            places=tuple(sorted(after.items())) if anew else tuple(sorted(before.items())),
            expires_s=expires_s,
            until_ms=now_ms + expires_s * 1000,
            moved_ms=now_ms if anew or held is None else held.moved_ms,
            owner=owner or (held.owner if held is not None else ""),
            around=_around(after, (before, {} if held is None else dict(held.around)), (kept, around or {})),
        ),
        anew,
    )


def place_in(held: StoredHold, layout: Layout, segment: SegmentId) -> ReadPosition:
    """From where on a segment is kept; one that the layout does not list yet is kept whole."""
    return stands(layout, _listed(dict(held.places), layout)).get(segment, START)


def floor(held: StoredHold, layout: Layout, segment: SegmentId) -> Position:
    """The last entry of a segment that may go."""
    place = DONE if not held.keeps else place_in(held, layout, segment)
    if place == DONE:
        return AFTER_ALL
    ledger, entry = dict(held.around).get(segment, place[:2])
    return BEFORE_ALL if place == START else Position(ledger, entry - 1)


def due(held: StoredHold, now_ms: int, announced_for_s: float) -> Due:
    """What is to be written. `announced_for_s`: how long the one who asks has seen it announced, by its own clock."""
    if held.expired_ms:
        return Due.REMOVE if now_ms - held.expired_ms >= HOLD_EXPIRED_KEPT_S * 1000 else Due.NOTHING
    if not held.warned_ms:
        return Due.WARN if now_ms >= held.until_ms - held.notice_s * 1000 else Due.NOTHING
    return Due.EXPIRE if now_ms >= held.until_ms and announced_for_s >= held.notice_s else Due.NOTHING


def due_in_s(held: StoredHold, now_ms: int, announced_for_s: float) -> float:
    """How long until something is, if its reader does not come and the clock does not jump."""
    if held.expired_ms:
        return HOLD_EXPIRED_KEPT_S - (now_ms - held.expired_ms) / 1000
    left_s = (held.until_ms - now_ms) / 1000
    return max(left_s, held.notice_s - announced_for_s) if held.warned_ms else left_s - held.notice_s


def warned(held: StoredHold, now_ms: int) -> StoredHold:
    return replace(held, warned_ms=max(1, now_ms))


def expired(held: StoredHold, now_ms: int) -> StoredHold:
    return replace(held, expired_ms=max(1, now_ms))


def _around(places: Places, *sources: tuple[Places, Around]) -> tuple[tuple[SegmentId, tuple[int, int]], ...]:
    """What was said of the places that hold now."""
    merged: dict[SegmentId, tuple[int, int]] = {}
    for source, around in sources:
        merged |= {id: at for id, at in around.items() if id in places and at < places[id] == source.get(id)}
    return tuple(sorted(merged.items()))


def _listed(places: Places, layout: Layout) -> dict[SegmentId, ReadPosition]:
    return {id: place for id, place in places.items() if id in layout}


class Form(msgspec.Struct, omit_defaults=True):
    """As it is written."""

    places: dict[str, ReadPosition] = {}
    expires_s: int = 0
    until_ms: int = 0
    moved_ms: int = 0
    owner: str = ""
    warned_ms: int = 0
    expired_ms: int = 0
    around: dict[str, tuple[int, int]] = {}


def encode(held: StoredHold) -> Form:
    return Form(
        places={str(id): place for id, place in held.places},
        expires_s=held.expires_s,
        until_ms=held.until_ms,
        moved_ms=held.moved_ms,
        owner=held.owner,
        warned_ms=held.warned_ms,
        expired_ms=held.expired_ms,
        around={str(id): at for id, at in held.around},
    )


def decode(form: Form) -> StoredHold:
    places = sorted((SegmentId(int(id)), place) for id, place in form.places.items())
    if any(place not in (START, DONE) and min(place) < 0 for _, place in places):
        raise Corrupt("a hold has an invalid position")
    return StoredHold(
        tuple(places),
        form.expires_s,
        form.until_ms,
        form.moved_ms,
        form.owner,
        form.warned_ms,
        form.expired_ms,
        tuple(sorted((SegmentId(int(id)), at) for id, at in form.around.items())),
    )
