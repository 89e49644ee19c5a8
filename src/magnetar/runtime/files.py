"""The contract for files: positioned writes and explicit syncs, without implicit guarantees.

Synchronous; called only inside `Runtime.offload`. After a crash, data that was not synced may be missing, torn or
partly present. A rename, creation or removal is durable after `sync_dir` of its directory. Failures are `StorageFull`
(only more space helps) and `StorageFailed` (the outcome of the write is unknown: never retry a failed sync, because the
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
        """Writes all buffers at offset and returns their total size. It never writes less."""
        ...

    def pread(self, size: int, offset: int) -> bytes:
        """Reads up to size bytes; fewer only at the end of the file."""
        ...

    def datasync(self) -> None: ...

    def allocate(self, size: int, *, written: bool = True) -> None:
        """Extends the file to at least this size with zeros in allocated blocks. `written`: the zeros are on the disk,
        so that a later datasync has no metadata to write. Without it, the blocks are only reserved, which is cheap.
        """
        ...

    def truncate(self, size: int) -> None: ...

    def close(self) -> None: ...


class Lock(Protocol):
    def release(self) -> None: ...


class Files(Protocol):
    def open(self, path: str, *, create: bool = False) -> File:
        """Opens for reading and writing. Raises NotFound for a missing file, unless `create`."""
        ...

    def exists(self, path: str) -> bool: ...

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def list(self, directory: str) -> list[str]:
        """Names in a directory, sorted; [] if it is missing."""
        ...

    def mkdir(self, directory: str) -> None:
        """Creates it with its parents. An existing directory is not an error."""
        ...

    def sync_dir(self, directory: str) -> None: ...

    def free(self, directory: str) -> int:
        """Free bytes of the file system of this directory."""
        ...

    def capacity(self, directory: str) -> int:
        """Total bytes of the file system of this directory."""
        ...

    def lock(self, path: str, holder: str) -> Lock:
        """Takes the lock and writes `holder` into it. Raises Conflict with the current holder if another process has
        it.
        """
        ...
