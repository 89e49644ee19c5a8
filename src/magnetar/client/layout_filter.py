"""Decides which layout of a topic is valid: only newer epochs of the same incarnation, from the watch that is open now.

Pushes may overtake each other, and an abandoned connection may still deliver. So a layout counts only if it came over
the present watch and its epoch is higher than the last one's (H-E6). A topic that was deleted and created again under
the same name has another incarnation, or the broker reported it deleted. Its layout is never an update of the old
topic: the verdict is `REPLACED`, and the follower starts from the beginning. Pure decisions, no I/O.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto

from magnetar.base.ids import Epoch
from magnetar.layout.layout import Layout
from magnetar.layout.plain_layout import is_plain


class LayoutVerdict(Enum):
    NEWER = auto()  # follow it
    STALE = auto()  # ignore it
    REPLACED = auto()  # another topic of this name: no state of the old one is valid


class LayoutFilter:
    """`watch` numbers the watches of one topic; the caller gets a number for each connection on which it opens one."""

    def __init__(self) -> None:
        self.current: Layout | None = None
        self.incarnation: str | None = None
        self._watch = 0
        self._gone = False

    def opened(self) -> int:
        """Returns the number of a new watch. Messages of earlier watches are ignored from now on."""
        self._watch += 1
        return self._watch

    def gone(self, watch: int) -> bool:
        """The broker reports that the topic does not exist. True if this is new and comes from the present watch."""
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
    """Orders the layout of a plain topic before every layout that the topic gets when it is migrated: brokers other
    than Magnetar give both the epoch 0."""
    return replace(layout, epoch=Epoch(-1)) if is_plain(layout) and not layout.epoch else layout


def _differ(current: str | None, received: str | None) -> bool:
    """Whether both incarnations are known and differ. Brokers of another version or of Apache Pulsar do not send
    one."""
    return current is not None and received is not None and current != received
