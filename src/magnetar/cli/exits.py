"""Exit codes, the same for every command and stable, and how an error of the tree is told to a person.

A message has up to three parts: what happened, why, and what to run next. It never shows a traceback for something the
user can mend; a bug of ours keeps its traceback, since it is a report.
"""

from __future__ import annotations

import sys
from enum import IntEnum

from magnetar.base.errors import (
    Conflict,
    Fenced,
    MagnetarError,
    Misuse,
    NotAuthenticated,
    NotAuthorized,
    NotFound,
    Unknown,
)


class Exit(IntEnum):
    OK = 0
    FAILURE = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    NOT_ALLOWED = 5
    TIMED_OUT = 6  # the work may still go on
    CHECK_FAILED = 7


def exit_for(error: MagnetarError) -> Exit:
    match error:
        case Misuse():
            return Exit.USAGE
        case NotFound():
            return Exit.NOT_FOUND
        case Conflict() | Fenced():
            return Exit.CONFLICT
        case NotAuthenticated() | NotAuthorized():
            return Exit.NOT_ALLOWED
        case Unknown() if error.http_status == 504:
            return Exit.TIMED_OUT
        case _:
            return Exit.FAILURE


def tell(what: str, *, why: str = "", run: str = "") -> None:
    """Say it on standard error: what happened, why, what to run next."""
    lines = [f"magnetar: {what}"]
    if why:
        lines.append(f"  why: {why}")
    if run:
        lines.append(f"  run: {run}")
    sys.stderr.write("\n".join(lines) + "\n")
