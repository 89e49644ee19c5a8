"""A disk in memory that forgets: what a real one may do to files between a crash and the next start.

Every file has what is durable and a list of changes since its last sync; every directory has its durable names and a
list of creations, renames and removals since its last sync. `crash()` draws from the seed which of those happened: a
change may be there, be missing, or be there in some of its 512-byte sectors only (with `flips`, with wrong bits in
them); names may have changed or not, each for itself. What was synced is there, always. A directory that was made may
be gone again, with what is in it, until the directory above it or one of its own files' names was synced.

Faults are set on the object, counted in calls that change something (`calls`):

    crash_at=k      the k-th call happens as a change that was not synced, then it and every later call raise Crashed
    tear_next=n     the n-th write from now on that is longer than a sector is cut: its first sectors are on the disk,
                    the others are not, and the machine is gone; 0: none
    fail_sync_at=k  the k-th datasync raises StorageFailed; by chance some of what it should have made durable is, and
                    no later sync will help the rest, though it can still be read: the page cache thinks it is clean
    fail_syncs=n    so do the next n syncs, of files and of directories, from whenever it is set (FOR_GOOD: all)
    full_after=n    files together may not grow past n bytes: StorageFull, with part of the write done; None: there is
                    room again. What is written over what is there needs none
    slow=f          every call costs f times as much: `cost_s` is what the calls since it was last asked cost

`counts` says how often each fault was met, over all lives of the disk. Reads are never short but at the end of a file:
the contract forbids it. Nothing here waits or starts a thread; one instance is used by one world.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from magnetar.base.errors import Conflict, NotFound, StorageFailed, StorageFull
from magnetar.runtime.files import Buffer
from simulation.environment.inodes import (
    SECTOR_BYTES,
    Change,
    Inode,
    Rename,
    survivors,
)

ENDLESS = 1 << 50
FOR_GOOD = 1 << 50  # `fail_syncs`: until it is set to 0
WRITE_S, SYNC_S, BYTE_S = 20e-6, 200e-6, 1e-9  # of an ordinary disk: a call, a sync, a byte written


class Crashed(BaseException):
    """The machine is gone: no code of ours may catch this and go on."""


class ForgetfulFile:
    def __init__(self, files: ForgetfulFiles, path: str, inode: Inode) -> None:
        self.path = path
        self._files = files
        self._inode = inode

    def size(self) -> int:
        self._files.alive()
        return len(self._inode.current)

    def pwritev(self, buffers: Sequence[Buffer], offset: int) -> int:
        data = b"".join(buffers)
        room = self._files.room(self._inode, offset + len(data))
        self._files.change(self._inode, Change(offset, data if room is None else data[: max(0, room - offset)]))
        if room is not None:
            self._files.counts["writes cut short for want of room"] += 1
            raise StorageFull(f"cannot write {self.path}: no space left; free space on that file system")
        return len(data)

    def pread(self, size: int, offset: int) -> bytes:
        self._files.alive()
        return bytes(self._inode.current[offset : offset + size])

    def datasync(self) -> None:
        self._files.sync(self._inode, self.path)

    def allocate(self, size: int, *, written: bool = True) -> None:
        if size > len(self._inode.current):
            if self._files.room(self._inode, size) is not None:
                self._files.counts["allocations refused for want of room"] += 1
                raise StorageFull(f"cannot allocate {self.path}: no space left; free space on that file system")
            self._files.change(self._inode, Change(0, b"", size))

    def truncate(self, size: int) -> None:
        self._files.change(self._inode, Change(0, b"", size))

    def close(self) -> None:
        pass


class ForgetfulLock:
    def __init__(self, held: dict[str, str], path: str) -> None:
        self._held = held
        self._path = path

    def release(self) -> None:
        self._held.pop(self._path, None)


class ForgetfulFiles:
    """The Files that forgets. See the module for what it does to whom."""

    def __init__(
        self,
        seed: int = 0,
        *,
        crash_at: int | None = None,
        fail_sync_at: int | None = None,
        full_after: int | None = None,
        flips: bool = False,
        slow: float = 1.0,
    ) -> None:
        self.calls = 0  # that change or sync something: the places where a crash makes a difference
        self.syncs = 0
        self.crash_at = crash_at
        self.fail_sync_at = fail_sync_at
        self.full_after = full_after
        self.flips = flips
        self.fail_syncs = 0
        self.tear_next = 0
        self.slow = slow
        self.crashed = False
        self.counts: Counter[str] = Counter()
        self._cost_s = 0.0
        self._seed = seed
        self._names: dict[str, Inode] = {}
        self._durable: dict[str, Inode] = {}
        self._renames: list[Rename] = []
        self._directories: dict[str, bool] = {}  # whether it would survive a crash
        self._held: dict[str, str] = {}

    # What only tests do

    def crash(self) -> ForgetfulFiles:
        """The files as the next start may find them; this object is dead afterwards. Faults are not inherited."""
        self.crashed = True
        chance = random.Random(f"{self._seed}:{self.calls}")
        names = dict(self._durable)
        for rename in self._renames:
            if chance.random() < 0.5:
                rename.apply(names)
            else:
                self.counts["names forgotten"] += 1
        after = ForgetfulFiles(chance.getrandbits(32), flips=self.flips)
        after.counts = self.counts
        self.counts["crashes"] += 1
        after._directories = kept = self._kept_directories()
        names = {path: inode for path, inode in names.items() if _exists(_parent(path), kept, self._directories)}
        contents = {
            inode: survivors(inode, chance, self.counts, flips=self.flips) for inode in dict.fromkeys(names.values())
        }
        for path, inode in names.items():
            after._names[path] = after._durable[path] = contents[inode]
        return after

    def _kept_directories(self) -> dict[str, bool]:
        """One that was never synced is there or not, and then nothing below it is. Those above a durable name are: who
        synced that name has synced its directory, and file systems write its own name with it."""
        chance = random.Random(f"{self._seed}:{self.calls}:directories")
        needed: set[str] = set()
        for path in self._durable:
            while path:
                path = path.rpartition("/")[0]
                needed.add(path)
        kept: dict[str, bool] = {}
        for directory in sorted(self._directories):
            durable = self._directories[directory] or directory in needed
            if _exists(_parent(directory), kept, self._directories) and (durable or chance.random() < 0.5):
                kept[directory] = True
            else:
                self.counts["directories forgotten"] += 1
        return kept

    def cost_s(self) -> float:
        """What the calls since the last question would have cost on this disk, slowness included."""
        cost_s, self._cost_s = self._cost_s, 0.0
        return cost_s

    def kill(self) -> None:
        """The process is gone and the machine is not: nothing is forgotten, and its locks are free."""
        self._held.clear()

    def damage(self, path: str, offset: int, data: bytes) -> None:
        """Overwrite durable bytes behind everybody's back, as a failing disk does."""
        for content in (self._names[path].current, self._names[path].durable):
            content[offset : offset + len(data)] = data

    def content(self, path: str) -> bytes:
        return bytes(self._names[path].current)

    # The contract

    def open(self, path: str, *, create: bool = False) -> ForgetfulFile:
        self.alive()
        inode = self._names.get(path)
        if inode is None:
            if not create:
                raise NotFound(f"no such file: {path}", path=path)
            inode = Inode()
            self._rename(Rename(inode, None, path))
        return ForgetfulFile(self, path, inode)

    def exists(self, path: str) -> bool:
        self.alive()
        return path in self._names or path in self._directories

    def rename(self, old: str, new: str) -> None:
        self._rename(Rename(self._find(old), old, new))

    def remove(self, path: str) -> None:
        self._rename(Rename(self._find(path), path, None))

    def mkdir(self, directory: str) -> None:
        self.alive()
        made = directory
        while made and made not in self._directories:
            self._directories[made] = False
            made = made.rpartition("/")[0]

    def sync_dir(self, directory: str) -> None:
        self._count()
        self._cost_s += SYNC_S * self.slow
        if self.fail_syncs > 0:
            self.fail_syncs -= 1
            self.counts["directory syncs failed"] += 1
            raise StorageFailed(f"cannot sync {directory}: input/output error; check the disk", path=directory)
        for child in self._directories:
            if _parent(child) == directory:
                self._directories[child] = True
        left = []
        for rename in self._renames:
            if directory in (_parent(rename.old), _parent(rename.new)):
                rename.apply(self._durable)
            else:
                left.append(rename)
        self._renames = left

    def free(self, directory: str) -> int:
        self.alive()
        return ENDLESS if self.full_after is None else max(0, self.full_after - self.used())

    def capacity(self, directory: str) -> int:
        self.alive()
        return ENDLESS if self.full_after is None else self.full_after

    def lock(self, path: str, holder: str) -> ForgetfulLock:
        self.alive()
        other = self._held.get(path)
        if other is not None:
            raise Conflict(f"{path} is locked by {other}: stop that process or choose another directory", holder=other)
        self._held[path] = holder
        return ForgetfulLock(self._held, path)

    # Used by the files

    def alive(self) -> None:
        if self.crashed:
            raise Crashed("the machine crashed")

    def room(self, inode: Inode, size: int) -> int | None:
        """None if the file may grow to this size, otherwise the size up to which it may."""
        self.alive()
        growth = max(0, size - len(inode.current))
        if self.full_after is None or not growth or self.used() + growth <= self.full_after:
            return None
        return len(inode.current) + max(0, self.full_after - self.used())

    def change(self, inode: Inode, change: Change) -> None:
        if self.tear_next and len(change.data) > SECTOR_BYTES:
            self.tear_next -= 1
            if not self.tear_next:
                self._tear(inode, change)
        change.apply(inode.current)
        inode.changes.append(change)
        self._cost_s += (WRITE_S + BYTE_S * len(change.data)) * self.slow
        self._count()

    def _tear(self, inode: Inode, change: Change) -> None:
        first = SECTOR_BYTES - change.offset % SECTOR_BYTES
        ends = range(first, len(change.data), SECTOR_BYTES)
        cut = random.Random(f"{self._seed}:{self.calls}:tear").choice(ends)
        Change(change.offset, change.data[:cut]).apply(inode.durable)
        self.counts["writes torn"] += 1
        self.crashed = True
        raise Crashed(f"crashed inside a write at {change.offset}")

    def sync(self, inode: Inode, path: str) -> None:
        self._count()
        self.syncs += 1
        self._cost_s += SYNC_S * self.slow
        if self.syncs == self.fail_sync_at or self.fail_syncs > 0:
            self.fail_syncs = max(0, self.fail_syncs - 1)
            self.counts["syncs failed"] += 1
            inode.durable = survivors(
                inode, random.Random(f"{self._seed}:{self.calls}"), self.counts, flips=self.flips
            ).durable
            inode.changes.clear()
            raise StorageFailed(f"cannot sync {path}: input/output error; check the disk", path=path)
        for change in inode.changes:
            change.apply(inode.durable)
        inode.changes.clear()

    def _rename(self, rename: Rename) -> None:
        self.alive()
        rename.apply(self._names)
        self._renames.append(rename)
        self._count()

    def _count(self) -> None:
        """One call that matters: after a change was noted, before a sync; both then are as good as undone."""
        self.alive()
        self.calls += 1
        if self.calls == self.crash_at:
            self.crashed = True
            raise Crashed(f"crashed at call {self.calls}")

    def _find(self, path: str) -> Inode:
        self.alive()
        if path not in self._names:
            raise NotFound(f"no such file: {path}", path=path)
        return self._names[path]

    def used(self) -> int:
        return sum(len(inode.current) for inode in self._names.values())

    def list(self, directory: str) -> list[str]:
        self.alive()
        prefix = directory + "/"
        return sorted(
            path.removeprefix(prefix)
            for path in self._names
            if path.startswith(prefix) and "/" not in path.removeprefix(prefix)
        )


def _exists(directory: str | None, there: dict[str, bool], known: dict[str, bool]) -> bool:
    """Whether this directory and all above it are there; those that nobody made are taken for granted."""
    while directory:
        if directory in known and directory not in there:
            return False
        directory = _parent(directory)
    return True


def _parent(path: str | None) -> str | None:
    return None if path is None else path.rpartition("/")[0]
