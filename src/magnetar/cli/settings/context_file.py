"""The file of contexts on disk: locates it, reads it whole, and replaces it atomically under a lock.

It contains tokens, so only the owner can read it (mode 0600). A reader sees either the old or the new file, never a
part. Concurrent changes run one after the other. `context_document` interprets the text.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from magnetar.base.errors import Misuse
from magnetar.cli.settings.context_document import HEAD, Contexts, read

_MODE = 0o600


def place(environment: Mapping[str, str]) -> str:
    """Below XDG_CONFIG_HOME. A relative path in that variable is ignored, as its specification requires."""
    return os.path.join(folder(environment, "XDG_CONFIG_HOME", ".config"), "magnetar", "contexts.toml")


def folder(environment: Mapping[str, str], variable: str, below_home: str) -> str:
    text = environment.get(variable, "")
    if os.path.isabs(text):
        return text
    return os.path.join(environment.get("HOME") or os.path.expanduser("~"), below_home)


def load(path: str) -> Contexts:
    """A missing file has no contexts."""
    text = _text(path)
    return Contexts(path) if text is None else read(text, path)


def change(path: str, edit: Callable[[str], str]) -> str:
    """Reads, edits and replaces the file under the lock. If `edit` raises, the file is unchanged."""
    import fcntl

    real = os.path.realpath(path)  # keeps a symbolic link to a file elsewhere
    try:
        os.makedirs(os.path.dirname(real), mode=0o700, exist_ok=True)
        lock = os.open(f"{real}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
    except OSError as error:
        raise _cannot("write", path, error) from None
    try:
        # The holder waits only for the disk, and the kernel releases the lock of a dead process.
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = _text(path)
        after = edit(HEAD if before is None else before)
        if after != before:
            write(real, after)
        return after
    except OSError as error:
        raise _cannot("write", path, error) from None
    finally:
        os.close(lock)


def write(path: str, text: str, mode: int = _MODE) -> None:
    """Atomic: writes and syncs a temporary file beside it, then renames it."""
    beside = f"{path}.{os.getpid()}.new"
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            os.fchmod(handle, mode)
            file.write(text)
            file.flush()
            os.fsync(handle)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise
    above = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(above)
    finally:
        os.close(above)


def is_open_to_others(path: str) -> bool:
    try:
        return bool(os.stat(path).st_mode & 0o077)
    except OSError:
        return False


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _cannot("read", path, error) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise Misuse("the file of contexts is invalid: not UTF-8", file=f"{path}:{line}") from None


def _cannot(what: str, path: str, error: OSError) -> Misuse:
    return Misuse(f"the contexts cannot be {'read' if what == 'read' else 'written'}: {error.strerror}", file=path)
