"""How many files and sockets this process may have open at once: as many as the system lets it ask for.

Most systems start a process with a small number and allow it a large one. It changes nothing but this process, and
never makes the number smaller.
"""

from __future__ import annotations

ENDLESS = 1 << 20  # where the system names no limit


def as_many_as_allowed() -> int:
    """The limit of open files, after asking for the largest one."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):  # a system that says more than it gives
            return ENDLESS if soft == resource.RLIM_INFINITY else soft
    return ENDLESS if hard == resource.RLIM_INFINITY else hard
