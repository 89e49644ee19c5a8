"""Which layout of a topic to believe: newer epochs of the same life, from the watch that is open now.

Pushes may overtake each other and a connection that was given up may still speak, so a layout counts only if it came
over the present watch and its epoch is higher than the last one's (H-E6). Another life of the same name, told by its
incarnation or by the word that the topic is gone, is never mistaken for news of this one: it is said as `REPLACED`, and
whoever follows begins anew. Decides only.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto

from magnetar.base.ids import Epoch
from magnetar.layout.layout import Layout
from magnetar.layout.plain_layout import is_plain


class LayoutVerdict(Enum):
    NEWER = auto()  # follow it
    STALE = auto()  # as if it had not come
    REPLACED = auto()  # another topic of this name: nothing of the old one holds


class LayoutFilter:
    """`watch` numbers the watches of one topic; the caller gets one for each connection it opens a watch on."""

    def __init__(self) -> None:
        self.current: Layout | None = None
        self.incarnation: str | None = None
        self._watch = 0
        self._gone = False

    def opened(self) -> int:
        """A new watch: the number it speaks with. Earlier ones are not listened to any more."""
        self._watch += 1
        return self._watch

    def gone(self, watch: int) -> bool:
        """The broker says that the topic does not exist. True if that is news to be believed."""
        if watch != self._watch or self._gone:
            return False
        self._gone = True
        return True

    def offered(self, watch: int, layout: Layout, incarnation: str | None = None) -> LayoutVerdict:
        if watch != self._watch:
            return LayoutVerdict.STALE
        if self.current is None:
            return self._taken(layout, incarnation, LayoutVerdict.NEWER)
        if self._gone or _differ(self.incarnation, incarnation):
            return self._taken(layout, incarnation, LayoutVerdict.REPLACED)
        if layout.epoch <= self.current.epoch:
            return LayoutVerdict.STALE
        return self._taken(layout, incarnation, LayoutVerdict.NEWER)

    def _taken(self, layout: Layout, incarnation: str | None, verdict: LayoutVerdict) -> LayoutVerdict:
        self.current = layout
        self.incarnation = (
            incarnation if incarnation is not None or verdict is LayoutVerdict.REPLACED else self.incarnation
        )
        self._gone = False
        return verdict


def before_any(layout: Layout) -> Layout:
    """What a plain topic is shown as comes before every layout that it can have when it is migrated: brokers that are
    not ours give both the epoch 0."""
    return replace(layout, epoch=Epoch(-1)) if is_plain(layout) and not layout.epoch else layout


def _differ(known: str | None, told: str | None) -> bool:
    """A broker that does not tell (another version, Apache Pulsar) says nothing against it."""
    return known is not None and told is not None and known != told
