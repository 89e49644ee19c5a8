"""The records of the metadata store in memory as a tree: values, names of children, and the events of each change.

Values go in and events come out: no clock, no randomness, no waiting. The store has one such tree. A handle that reads
from a lagging follower has another, which follows change by change. It trusts its caller to check versions and paths.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass, field

from magnetar.metadata.path_checks import ROOT
from magnetar.metadata.store import Change, Event


@dataclass(frozen=True, slots=True)
class Record:
    value: bytes
    version: int
    created: int
    ctime_ms: int
    mtime_ms: int
    session: str | None


@dataclass(slots=True)
class RecordTree:
    records: dict[str, Record] = field(default_factory=dict)
    below: dict[str, list[str]] = field(default_factory=dict)  # names of children, sorted; only where there are any

    def copy(self) -> RecordTree:
        return RecordTree(dict(self.records), {parent: list(names) for parent, names in self.below.items()})

    def set(self, path: str, record: Record | None) -> list[Event]:
        """The record from now on; None: it is gone, and so are parents that only it kept."""
        if record is None:
            return self._remove(path)
        exists = path in self.records
        events = [Event(Change.MODIFIED, path)] if exists else [*self._link(path), Event(Change.CREATED, path)]
        self.records[path] = record
        return events

    def everything(self, path: str) -> list[str]:
        """The paths of all records at and below `path`, children before their parents."""
        order: list[str] = []
        stack = [path]
        while stack:
            node = stack.pop()
            order.append(node)
            stack += [join(node, name) for name in self.below.get(node, ())]
        return [node for node in reversed(order) if node in self.records]

    def page(self, path: str, after: str, nodes: int) -> list[tuple[str, str, Record | None]]:
        """(name, path, record or None where it only has children) of direct children behind `after`."""
        names = self.below.get(path, [])
        start = bisect_right(names, after)
        page = [(name, join(path, name)) for name in names[start : start + nodes]]
        return [(name, child, self.records.get(child)) for name, child in page]

    def _link(self, path: str) -> list[Event]:
        """Make the path a child of its parent, and its parents of theirs."""
        events: list[Event] = []
        while path != ROOT:
            parent, name = _parent(path), path.rpartition("/")[2]
            names = self.below.setdefault(parent, [])
            at = bisect_right(names, name)
            if at and names[at - 1] == name:
                break
            insort(names, name)
            events.append(Event(Change.CHILDREN_CHANGED, parent))
            path = parent
        return events

    def _remove(self, path: str) -> list[Event]:
        events = []
        if self.records.pop(path, None) is not None:
            events.append(Event(Change.DELETED, path))
        while path != ROOT and path not in self.records and path not in self.below:
            parent = _parent(path)
            names = self.below[parent]
            names.remove(path.rpartition("/")[2])
            if not names:
                del self.below[parent]
            events.append(Event(Change.CHILDREN_CHANGED, parent))
            path = parent
        return events


def join(parent: str, name: str) -> str:
    return f"/{name}" if parent == ROOT else f"{parent}/{name}"


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or ROOT
