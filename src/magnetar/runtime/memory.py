"""Returns memory to the system, says how much there is, and exempts long-lived objects from garbage collection.

Thousands of topics that are unloaded together leave cyclic garbage in the middle of the C library's heap. The library
keeps this memory, so the process would stay large. This module collects the garbage and asks the library to return free
memory, if the library has such a call. It frees only unused memory and trusts callers to call it rarely.
"""

from __future__ import annotations

from magnetar.base.limits import COLLECT_AFTER_OBJECTS


def give_back() -> bool:
    """Returns whether memory was returned. The whole process stops for some tens of milliseconds."""
    import ctypes
    import gc

    gc.collect()
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return False
    return bool(trim(0))


_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # of a container


def machine_bytes(limits: tuple[str, ...] = _LIMITS) -> int | None:
    """The memory of the machine, or of the container if that is less; None: the system does not say. Blocks."""
    import os
    from pathlib import Path

    sizes = []
    try:
        sizes.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        pass
    for path in limits:
        try:
            sizes.append(int(Path(path).read_text()))
        except (OSError, ValueError):  # the file is missing, or contains `max`
            continue
    return min((size for size in sizes if size > 0), default=None)


def settle() -> None:
    """Exempts all current objects from later collections. Traversing all imported objects of a broker takes the
    collector 70 ms, in which the broker answers no request. Collections also become rarer: one large answer creates
    thousands of short-lived objects. Only for a process that belongs to the broker alone.
    """
    import gc

    gc.freeze()
    gc.set_threshold(COLLECT_AFTER_OBJECTS, *gc.get_threshold()[1:])
