"""The file of contexts on the disk: where it is, read whole, changed under a lock and put in place in one step.

It holds tokens, so it is its owner's alone (mode 0600). A reader sees the old file or the new one and never half of
either; two that change it at once do so one after the other. What the text means is `context_document`' concern.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from magnetar.base.errors import Misuse
from magnetar.cli.settings.context_document import HEAD, Contexts, read

_MODE = 0o600


def place(environment: Mapping[str, str]) -> str:
    """Below XDG_CONFIG_HOME; what is no absolute path there does not count, as its specification says."""
    return os.path.join(folder(environment, "XDG_CONFIG_HOME", ".config"), "magnetar", "contexts.toml")


def folder(environment: Mapping[str, str], variable: str, below_home: str) -> str:
    given = environment.get(variable, "")
    if os.path.isabs(given):
        return given
    return os.path.join(environment.get("HOME") or os.path.expanduser("~"), below_home)


def load(path: str) -> Contexts:
    """No file: no contexts."""
    text = _text(path)
    return Contexts(path) if text is None else read(text, path)


def change(path: str, edit: Callable[[str], str]) -> str:
    """Read, edit and put in place, with nobody between. `edit` may raise: then nothing was changed."""
    import fcntl

    real = os.path.realpath(path)  # a link to a file elsewhere stays one
    try:
        os.makedirs(os.path.dirname(real), mode=0o700, exist_ok=True)
        lock = os.open(f"{real}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
    except OSError as error:
        raise _cannot("write", path, error) from None
    try:
        # Whoever holds it waits for nothing but the disk, and the kernel takes it from a process that died.
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
    """In one step: a file beside it, synced, then renamed over it."""
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
        raise Misuse("the file of contexts is broken: not UTF-8", file=f"{path}:{line}") from None


def _cannot(what: str, path: str, error: OSError) -> Misuse:
    return Misuse(f"the contexts cannot be {'read' if what == 'read' else 'written'}: {error.strerror}", file=path)
