"""Files of this machine: implements the contract of `files.py` with POSIX calls.

Every write is complete (short writes are continued), and every failure is an error of the tree: `StorageFull` without
space, otherwise `StorageFailed`, because after a failed write or sync the content of the disk is unknown. It caches
nothing and retries only interrupted calls. It trusts the kernel that data is durable when `fdatasync` returns.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import time
from collections.abc import Sequence

from magnetar.base.errors import Conflict, MagnetarError, Misuse, NotFound, StorageFailed, StorageFull
from magnetar.runtime.files import Buffer

IOV_MAX = max(16, os.sysconf("SC_IOV_MAX"))  # maximum number of buffers of one pwritev; POSIX guarantees 16
ZEROS = bytes(1024 * 1024)  # written by allocation: a later datasync needs no metadata write only for written blocks
HOLDER_BYTES_MAX = 4096  # maximum size of a lock file that is read to name its holder
MODE = 0o640  # file mode: messages are readable for the owner, and for a group that backs them up
FULL = (errno.ENOSPC, errno.EDQUOT)


def _opened(path: str, more: int) -> int:
    """Symbolic links are not followed: a user who can create one could choose the file to overwrite. If others may read
    an existing file or its group may write it, this permission is removed.
    """
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | more, MODE)
    mode = stat.S_IMODE(os.fstat(fd).st_mode)
    if mode & ~MODE:
        try:
            os.fchmod(fd, mode & MODE)
        except PermissionError:
            pass  # owned by another user, who must change the mode
    return fd


def _error(what: str, path: str, error: OSError) -> MagnetarError:
    reason = error.strerror or str(error)
    if error.errno == errno.ELOOP:
        return Misuse(
            f"{path} is a symbolic link, which the broker does not follow: put the file itself there", path=path
        )
    if error.errno in FULL:
        return StorageFull(f"cannot {what} {path}: {reason}; free space on that file system", path=path)
    return StorageFailed(f"cannot {what} {path}: {reason}; check the disk and the permissions", path=path)


class RealFile:
    """One file descriptor. Only `close` may be called concurrently with another method, and it must be the last
    call.
    """

    __slots__ = ("_fd", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd

    def size(self) -> int:
        try:
            return os.fstat(self._fd).st_size
        except OSError as error:
            raise _error("stat", self.path, error) from error

    def pwritev(self, buffers: Sequence[Buffer], offset: int) -> int:
        fd, at = self._fd, offset
        try:
            for start in range(0, len(buffers), IOV_MAX):
                chunk = buffers[start : start + IOV_MAX]
                size = sum(map(len, chunk))
                written = os.pwritev(fd, chunk, at)
                if written < size:
                    self._write_rest(chunk, at, written)
                at += size
        except OSError as error:
            raise _error("write", self.path, error) from error
        return at - offset

    def _write_rest(self, buffers: Sequence[Buffer], offset: int, written: int) -> None:
        """Continues a short write. Joining buffers is acceptable: short writes occur only near a full disk."""
        rest = memoryview(b"".join(buffers))
        while written < len(rest):
            step = os.pwrite(self._fd, rest[written:], offset + written)
            if step == 0:
                raise OSError(errno.ENOSPC, "the write makes no progress")
            written += step

    def pread(self, size: int, offset: int) -> bytes:
        try:
            data = os.pread(self._fd, size, offset)
            if len(data) == size or not data:
                return data
            parts = [data]
            got = len(data)
            while got < size and (data := os.pread(self._fd, size - got, offset + got)):
                parts.append(data)
                got += len(data)
            return b"".join(parts)
        except OSError as error:
            raise _error("read", self.path, error) from error

    def datasync(self) -> None:
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise _error("sync", self.path, error) from error

    def allocate(self, size: int, *, written: bool = True) -> None:
        at = self.size()
        try:
            if not written and at < size:
                os.posix_fallocate(self._fd, at, size - at)
                return
            while at < size:
                at += os.pwrite(self._fd, ZEROS[: size - at], at)
        except OSError as error:
            raise _error("allocate", self.path, error) from error

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._fd, size)
        except OSError as error:
            raise _error("truncate", self.path, error) from error

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class RealLock:
    """An advisory lock on a file. The kernel releases it when its process ends."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            # closing does not release the lock if a forked child has a copy of the descriptor
            fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)


class RealFiles:
    __slots__ = ()

    def open(self, path: str, *, create: bool = False) -> RealFile:
        try:
            return RealFile(path, _opened(path, os.O_CREAT if create else 0))
        except FileNotFoundError as error:
            raise NotFound(f"no such file: {path}", path=path) from error
        except OSError as error:
            raise _error("open", path, error) from error

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def rename(self, old: str, new: str) -> None:
        try:
            os.rename(old, new)
        except FileNotFoundError as error:
            raise NotFound(f"no such file: {old}", path=old) from error
        except OSError as error:
            raise _error("rename", old, error) from error

    def remove(self, path: str) -> None:
        try:
            os.remove(path)
        except FileNotFoundError as error:
            raise NotFound(f"no such file: {path}", path=path) from error
        except OSError as error:
            raise _error("remove", path, error) from error

    def mkdir(self, directory: str) -> None:
        try:
            os.makedirs(directory, mode=0o750, exist_ok=True)
            mode = os.stat(directory).st_mode
        except OSError as error:
            raise _error("create the directory", directory, error) from error
        if mode & stat.S_IWOTH:
            raise Misuse(f"every user may write to {directory}: use a separate folder, or run chmod o-w on it")

    def sync_dir(self, directory: str) -> None:
        try:
            fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise _error("sync the directory", directory, error) from error

    def free(self, directory: str) -> int:
        try:
            status = os.statvfs(directory)
        except OSError as error:
            raise _error("stat", directory, error) from error
        return status.f_bavail * status.f_frsize

    def capacity(self, directory: str) -> int:
        try:
            status = os.statvfs(directory)
        except OSError as error:
            raise _error("stat", directory, error) from error
        return status.f_blocks * status.f_frsize

    def lock(self, path: str, holder: str) -> RealLock:
        try:
            fd = _opened(path, os.O_CREAT)
        except OSError as error:
            raise _error("open", path, error) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(fd, 0)
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            os.pwrite(fd, f"{holder} (process {os.getpid()} on {socket.gethostname()} since {since})".encode(), 0)
        except BlockingIOError as error:
            other = os.pread(fd, HOLDER_BYTES_MAX, 0).decode(errors="replace").strip() or "an unknown process"
            os.close(fd)
            raise Conflict(
                f"{path} is locked by {other}: stop that process or choose another directory", holder=other
            ) from error
        except OSError as error:
            os.close(fd)
            raise _error("lock", path, error) from error
        return RealLock(fd)

    def list(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(directory))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _error("list", directory, error) from error
