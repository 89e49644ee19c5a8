"""What one watch of a namespace's scalable topics was told, and what it is to be told next.

Changes are gathered until they are asked for: a topic that came and went in between is never mentioned, one that was
deleted and made anew is told as gone and as new, for it is another topic. Names are told by their canonical form. All
filters must match a topic's properties; no filter matches every topic. Decides only: topics in, differences out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Member:
    """A topic of the namespace, as far as watches are concerned. `incarnation` tells its lives apart."""

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
        self._told: dict[str, int] = {}  # name -> the life that was told
        self._news: dict[str, int | None] = {}  # name -> its life now, None: it is none of ours (any more)

    @property
    def due(self) -> bool:
        """Is there anything to tell?"""
        return bool(self._news)

    def begun(self, members: Mapping[str, Member]) -> tuple[str, ...]:
        """The whole list, in order: what the watch is told first."""
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
        """From what was told to what is so; told from now on."""
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
