"""The contract for files: positioned writes, explicit syncs, nothing implied.

Synchronous, and called only inside `Runtime.offload`. What was not synced may be gone, torn or partly there after a
crash; a rename, creation or removal is durable after `sync_dir` of its directory. Failures are `StorageFull` (nothing
of ours can help but space) and `StorageFailed` (the outcome of the write is unknown: never retry a failed sync, the
page may already be marked clean).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """An open file. Every method may raise StorageFull or StorageFailed."""

    path: str

    def size(self) -> int: ...

    def pwritev(self, buffers: Sequence[Buffer], offset: int) -> int:
        """Write all of the buffers at offset, and return how many bytes that was. Never a short write."""
        ...

    def pread(self, size: int, offset: int) -> bytes:
        """Read up to size bytes; fewer only at the end of the file."""
        ...

    def datasync(self) -> None: ...

    def allocate(self, size: int, *, written: bool = True) -> None:
        """Make the file at least this long, filled with zeros whose blocks exist. `written`: the zeros are on the disk,
        so that a later datasync has no metadata to write; without, the blocks are only set aside, which costs nothing.
        """
        ...

    def truncate(self, size: int) -> None: ...

    def close(self) -> None: ...


class Lock(Protocol):
    def release(self) -> None: ...


class Files(Protocol):
    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing. Missing and not `create`: NotFound."""
        ...

    def exists(self, path: str) -> bool: ...

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def list(self, directory: str) -> list[str]:
        """Names in a directory, sorted; [] when it is missing."""
        ...

    def mkdir(self, directory: str) -> None:
        """With its parents; no error when it is there."""
        ...

    def sync_dir(self, directory: str) -> None: ...

    def free(self, directory: str) -> int:
        """Bytes left on the file system of this directory."""
        ...

    def capacity(self, directory: str) -> int:
        """Bytes that the file system of this directory has in all."""
        ...

    def lock(self, path: str, holder: str) -> Lock:
        """Take the lock, writing `holder` into it; held by another process: Conflict that names that holder."""
        ...
