"""The content of a file and the names of a directory on a disk in memory: the durable state, every change since, and
what a crash may leave. It changes nothing by itself: `disk` decides when.
"""

from __future__ import annotations

import random
from collections import Counter

SECTOR_BYTES = 512  # the unit a disk writes whole


class FileChange:
    """One unsynced change of a file: bytes at an offset, or a new length."""

    __slots__ = ("data", "offset", "size")

    def __init__(self, offset: int, data: bytes, size: int = -1) -> None:
        self.offset = offset
        self.data = data
        self.size = size  # -1: a write

    def apply(self, content: bytearray) -> None:
        if self.size >= 0:
            _resize(content, self.size)
            return
        _resize(content, max(len(content), self.offset))
        content[self.offset : self.offset + len(self.data)] = self.data


class Inode:
    __slots__ = ("changes", "current", "durable")

    def __init__(self, content: bytes = b"") -> None:
        self.durable = bytearray(content)
        self.current = bytearray(content)
        self.changes: list[FileChange] = []


class DirectoryChange:
    """One unsynced change of a directory: `old` None is a creation, `new` None a removal."""

    __slots__ = ("inode", "new", "old")

    def __init__(self, inode: Inode, old: str | None, new: str | None) -> None:
        self.inode = inode
        self.old = old
        self.new = new

    def apply(self, names: dict[str, Inode]) -> None:
        if self.old is not None and names.get(self.old) is self.inode:
            del names[self.old]
        if self.new is not None:
            names[self.new] = self.inode


def surviving_content(inode: Inode, chance: random.Random, counts: Counter[str], *, flips: bool) -> Inode:
    """What a crash leaves of a file. One draw says how bad this crash was to it, so that clean cases occur too."""
    content = bytearray(inode.durable)
    kept = chance.choice((0.0, 0.5, 0.9, 1.0))
    for change in inode.changes:
        if change.size >= 0:
            if chance.random() < kept:
                change.apply(content)
            else:
                counts["lengths forgotten"] += 1
            continue
        end = change.offset + len(change.data)
        starts = range(change.offset - change.offset % SECTOR_BYTES, end, SECTOR_BYTES)
        there = 0
        for start in starts:
            if chance.random() >= kept:
                continue
            there += 1
            low, high = max(start, change.offset), min(start + SECTOR_BYTES, end)
            data = bytearray(change.data[low - change.offset : high - change.offset])
            if flips and data and chance.random() < 0.1:
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
                counts["bits flipped"] += 1
            FileChange(low, bytes(data)).apply(content)
        if there < len(starts):
            counts["writes torn" if there else "writes forgotten"] += 1
    return Inode(bytes(content))


def _resize(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))
