"""The state of one watch of a namespace's scalable topics: the topics that it was sent, and the next difference.

Changes are collected until they are requested. A topic that came and went in between is never mentioned. A topic that
was deleted and created again is sent as removed and as added, because it is another topic. Names have their canonical
form. All filters must match a topic's properties; an empty filter matches every topic. This module performs no I/O:
topics in, differences out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Member:
    """A topic of the namespace, with the fields that watches need. `incarnation` distinguishes topics of one name."""

    incarnation: int
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """What went is applied before what came: a name may be in both."""

    added: tuple[str, ...]
    removed: tuple[str, ...]


class NamespaceDiff:
    def __init__(self, filters: Sequence[tuple[str, str]] = ()) -> None:
        self._filters = tuple(filters)
        self._told: dict[str, int] = {}  # name -> the incarnation that was sent
        self._news: dict[str, int | None] = {}  # name -> its incarnation now, None: deleted, or the filter excludes it

    @property
    def due(self) -> bool:
        """True if the watch has a difference to send."""
        return bool(self._news)

    def begun(self, members: Mapping[str, Member]) -> tuple[str, ...]:
        """The whole list, in order: the first answer to the watch."""
        self._told = {name: one.incarnation for name, one in sorted(members.items()) if self._matches(one)}
        self._news.clear()
        return tuple(self._told)

    def noted(self, name: str, member: Member | None) -> None:
        """How a topic stands now; None: there is none of this name."""
        now = member.incarnation if member is not None and self._matches(member) else None
        if now == self._told.get(name):
            self._news.pop(name, None)
        else:
            self._news[name] = now

    def difference(self) -> Difference:
        """The difference between the topics that were sent and the present ones; it counts as sent from now on."""
        news, self._news = self._news, {}
        removed = tuple(sorted(name for name in news if name in self._told))
        added = tuple(sorted(name for name, now in news.items() if now is not None))
        for name, now in news.items():
            if now is None:
                self._told.pop(name, None)
            else:
                self._told[name] = now
        return Difference(added, removed)

    def _matches(self, member: Member) -> bool:
        return all(one in member.properties for one in self._filters)
