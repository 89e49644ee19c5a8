"""Give memory back to the system, and keep the garbage collector away from what stays.

Thousands of topics that leave at once are loops of objects that wait for the garbage collector, and their bytes lie in
the middle of the C library's heap, which keeps them for itself: the process would look as large as it ever was. It
collects, and asks the library to return what is free, where the library has such a call; it frees nothing that is in
use and trusts the caller not to ask often.
"""

from __future__ import annotations

from magnetar.base.limits import COLLECT_AFTER_OBJECTS


def give_back() -> bool:
    """Whether anything was returned. Everything else in the process stands still for some tens of milliseconds."""
    import ctypes
    import gc

    gc.collect()
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return False
    return bool(trim(0))


def settle() -> None:
    """Whatever is there now stays to the end and is not looked at again. To walk all that a broker has imported takes
    the collector 70 ms, in which nobody is answered. It comes seldom from now on: one large answer is thousands of new
    objects, most of them gone with it. For a process that is all ours.
    """
    import gc

    gc.freeze()
    gc.set_threshold(COLLECT_AFTER_OBJECTS, *gc.get_threshold()[1:])
