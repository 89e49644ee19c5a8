"""The number of files and sockets that this process may have open: the system's hard limit.

Most systems start a process with a low limit and allow a high one. It changes only this process, and never lowers the
limit.
"""

from __future__ import annotations

ENDLESS = 1 << 20  # used if the system has no limit


def as_many_as_allowed() -> int:
    """Raises the limit of open files to its maximum and returns it."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):  # the system rejects its own maximum
            return ENDLESS if soft == resource.RLIM_INFINITY else soft
    return ENDLESS if hard == resource.RLIM_INFINITY else hard
