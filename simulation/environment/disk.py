"""A disk in memory that loses unsynced writes, as a real one may between a crash and the next start.

Every file has durable bytes and a list of changes since its last sync; every directory has durable names and a list of
creations, renames and removals since its last sync. `crash()` draws from the seed which of those happened: a change may
be present, missing, or present in some of its 512-byte sectors only (with `flips`, with wrong bits in them). Each
change of a name may have happened or not. Synced changes are always present. A new directory may disappear, with its
content, until the directory above it or one of its own files' names was synced.

Faults are set on the object, counted in calls that change something (`calls`):

    crash_at=k      the k-th call happens as an unsynced change, then it and every later call raise PowerLoss
    tear_next=n     the n-th write from now on that is longer than a sector is torn: its first sectors are on the disk,
                    the others are not, and the machine has no power; 0: none
    fail_sync_at=k  the k-th datasync raises StorageFailed; a random part of its changes is durable, and no later sync
                    makes the rest durable, though it can still be read: the page cache takes it for clean
    fail_syncs=n    the next n syncs fail likewise, of files and of directories (PERMANENTLY: all)
    full_after=n    all files together may not grow past n bytes: StorageFull, with part of the write done; None: no
                    limit. Overwriting needs no space
    slow=f          every call costs f times as much: `cost_s` is the cost of the calls since its last read

`counts` has how often each fault happened, over all runs of the disk. Reads are short only at the end of a file: the
contract forbids other short reads. Nothing here waits or starts a thread; one instance belongs to one world.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from magnetar.base.errors import Conflict, NotFound, StorageFailed, StorageFull
from magnetar.runtime.files import Buffer
from simulation.environment.inodes import (
    SECTOR_BYTES,
    DirectoryChange,
    FileChange,
    Inode,
    surviving_content,
)

UNLIMITED_BYTES = 1 << 50
PERMANENTLY = 1 << 50  # `fail_syncs`: until it is set to 0
WRITE_S, SYNC_S, BYTE_S = 20e-6, 200e-6, 1e-9  # of an ordinary disk: a call, a sync, a byte written


class PowerLoss(BaseException):
    """The machine has no power: the product's code may not catch this and continue."""


class SimulatedFile:
    def __init__(self, files: SimulatedFiles, path: str, inode: Inode) -> None:
        self.path = path
        self._files = files
        self._inode = inode

    def size(self) -> int:
        self._files.alive()
        return len(self._inode.current)

    def pwritev(self, buffers: Sequence[Buffer], offset: int) -> int:
        data = b"".join(buffers)
        room = self._files.room(self._inode, offset + len(data))
        self._files.change(self._inode, FileChange(offset, data if room is None else data[: max(0, room - offset)]))
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
            self._files.change(self._inode, FileChange(0, b"", size))

    def truncate(self, size: int) -> None:
        self._files.change(self._inode, FileChange(0, b"", size))

    def close(self) -> None:
        pass


class SimulatedLock:
    def __init__(self, held: dict[str, str], path: str) -> None:
        self._held = held
        self._path = path

    def release(self) -> None:
        self._held.pop(self._path, None)


class SimulatedFiles:
    """The `Files` of a simulated machine. The docstring of the module describes its faults."""

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
        self._renames: list[DirectoryChange] = []
        self._directories: dict[str, bool] = {}  # whether it would survive a crash
        self._held: dict[str, str] = {}

    # What only tests do

    def crash(self) -> SimulatedFiles:
        """The files that the next start finds; this object is dead afterwards. Faults are not inherited."""
        self.crashed = True
        chance = random.Random(f"{self._seed}:{self.calls}")
        names = dict(self._durable)
        for rename in self._renames:
            if chance.random() < 0.5:
                rename.apply(names)
            else:
                self.counts["names forgotten"] += 1
        after = SimulatedFiles(chance.getrandbits(32), flips=self.flips)
        after.counts = self.counts
        self.counts["crashes"] += 1
        after._directories = kept = self._kept_directories()
        names = {path: inode for path, inode in names.items() if _exists(_parent(path), kept, self._directories)}
        contents = {
            inode: surviving_content(inode, chance, self.counts, flips=self.flips)
            for inode in dict.fromkeys(names.values())
        }
        for path, inode in names.items():
            after._names[path] = after._durable[path] = contents[inode]
        return after

    def _kept_directories(self) -> dict[str, bool]:
        """A directory that was never synced exists or not; if not, nothing below it exists. Directories above a durable
        name exist: a sync of that name has synced its directory, and file systems write the directory's own name with
        it."""
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
        """The cost of the calls since the last read of this property, with the disk's slowness."""
        cost_s, self._cost_s = self._cost_s, 0.0
        return cost_s

    def kill(self) -> None:
        """The process ends and the machine runs on: nothing is lost, and the locks are free."""
        self._held.clear()

    def damage(self, path: str, offset: int, data: bytes) -> None:
        """Overwrites durable bytes unnoticed, as a failing disk does."""
        for content in (self._names[path].current, self._names[path].durable):
            content[offset : offset + len(data)] = data

    def content(self, path: str) -> bytes:
        return bytes(self._names[path].current)

    # The contract

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        self.alive()
        inode = self._names.get(path)
        if inode is None:
            if not create:
                raise NotFound(f"no such file: {path}", path=path)
            inode = Inode()
            self._rename(DirectoryChange(inode, None, path))
        return SimulatedFile(self, path, inode)

    def exists(self, path: str) -> bool:
        self.alive()
        return path in self._names or path in self._directories

    def rename(self, old: str, new: str) -> None:
        self._rename(DirectoryChange(self._find(old), old, new))

    def remove(self, path: str) -> None:
        self._rename(DirectoryChange(self._find(path), path, None))

    def mkdir(self, directory: str) -> None:
        self.alive()
        created = directory
        while created and created not in self._directories:
            self._directories[created] = False
            created = created.rpartition("/")[0]

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
        return UNLIMITED_BYTES if self.full_after is None else max(0, self.full_after - self.used())

    def capacity(self, directory: str) -> int:
        self.alive()
        return UNLIMITED_BYTES if self.full_after is None else self.full_after

    def lock(self, path: str, holder: str) -> SimulatedLock:
        self.alive()
        other = self._held.get(path)
        if other is not None:
            raise Conflict(f"{path} is locked by {other}: stop that process or choose another directory", holder=other)
        self._held[path] = holder
        return SimulatedLock(self._held, path)

    # Used by the files

    def alive(self) -> None:
        if self.crashed:
            raise PowerLoss("the machine crashed")

    def room(self, inode: Inode, size: int) -> int | None:
        """None if the file may grow to this size, otherwise the size up to which it may."""
        self.alive()
        growth = max(0, size - len(inode.current))
        if self.full_after is None or not growth or self.used() + growth <= self.full_after:
            return None
        return len(inode.current) + max(0, self.full_after - self.used())

    def change(self, inode: Inode, change: FileChange) -> None:
        if self.tear_next and len(change.data) > SECTOR_BYTES:
            self.tear_next -= 1
            if not self.tear_next:
                self._tear(inode, change)
        change.apply(inode.current)
        inode.changes.append(change)
        self._cost_s += (WRITE_S + BYTE_S * len(change.data)) * self.slow
        self._count()

    def _tear(self, inode: Inode, change: FileChange) -> None:
        first = SECTOR_BYTES - change.offset % SECTOR_BYTES
        ends = range(first, len(change.data), SECTOR_BYTES)
        cut = random.Random(f"{self._seed}:{self.calls}:tear").choice(ends)
        FileChange(change.offset, change.data[:cut]).apply(inode.durable)
        self.counts["writes torn"] += 1
        self.crashed = True
        raise PowerLoss(f"crashed inside a write at {change.offset}")

    def sync(self, inode: Inode, path: str) -> None:
        self._count()
        self.syncs += 1
        self._cost_s += SYNC_S * self.slow
        if self.syncs == self.fail_sync_at or self.fail_syncs > 0:
            self.fail_syncs = max(0, self.fail_syncs - 1)
            self.counts["syncs failed"] += 1
            inode.durable = surviving_content(
                inode, random.Random(f"{self._seed}:{self.calls}"), self.counts, flips=self.flips
            ).durable
            inode.changes.clear()
            raise StorageFailed(f"cannot sync {path}: input/output error; check the disk", path=path)
        for change in inode.changes:
            change.apply(inode.durable)
        inode.changes.clear()

    def _rename(self, rename: DirectoryChange) -> None:
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
            raise PowerLoss(f"crashed at call {self.calls}")

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


def _exists(directory: str | None, there: dict[str, bool], cache: dict[str, bool]) -> bool:
    """Whether this directory and all above it exist; directories that no call created count as existing."""
    while directory:
        if directory in cache and directory not in there:
            return False
        directory = _parent(directory)
    return True


def _parent(path: str | None) -> str | None:
    return None if path is None else path.rpartition("/")[0]
