"""Exit codes, stable and the same for every command, and the error messages of commands.

A message has the error, its reason, its facts or the usage of the command, similar names, the next command, and an
error code that the documentation explains. Parts without content are left out. An error that the user can fix never
shows a traceback. An internal error keeps its traceback, because users report it.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from magnetar.base.errors import (
    AlreadyExists,
    Busy,
    Closed,
    Conflict,
    ConnectionLost,
    Corrupt,
    Fenced,
    IncompatibleSchema,
    InvalidName,
    LimitExceeded,
    MagnetarError,
    Misuse,
    NotAuthenticated,
    NotAuthorized,
    NotBuilt,
    NotFound,
    NotReady,
    QuotaExceeded,
    Refused,
    Sealed,
    SessionLost,
    StorageFull,
    SubscriptionNotFound,
    Throttled,
    TimedOut,
    TopicNotFound,
    Unavailable,
    Unknown,
    Unprotected,
)
from magnetar.cli.output.values import harmless


class Exit(IntEnum):
    OK = 0
    FAILURE = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    NOT_ALLOWED = 5
    TIMED_OUT = 6  # the broker may still finish the operation
    CHECK_FAILED = 7
    SESSION_LOST = 75  # sysexits' EX_TEMPFAIL: a supervisor starts the broker again


MEANINGS = {
    Exit.OK: "done",
    Exit.FAILURE: "failed: standard error has the reason",
    Exit.USAGE: "the command is wrong; it sent no request, or the broker rejected a value",
    Exit.NOT_FOUND: "a tenant, namespace, topic, subscription or message does not exist",
    Exit.CONFLICT: "it already exists, is in use, is not empty, or was changed concurrently",
    Exit.NOT_ALLOWED: "not authenticated, or not authorized",
    Exit.TIMED_OUT: "no answer in time: the operation may still finish",
    Exit.CHECK_FAILED: "a check failed",
    Exit.SESSION_LOST: "a broker lost its session with the metadata store: start it again",
}

# Error codes that users look up. A code is never reused. A class without a code uses that of its parent.
CODES: dict[type[MagnetarError], str] = {
    MagnetarError: "E100",
    Refused: "E101",
    NotBuilt: "E102",
    QuotaExceeded: "E103",
    Unavailable: "E110",
    NotReady: "E111",
    Busy: "E112",
    Throttled: "E113",
    StorageFull: "E114",
    Unknown: "E120",
    ConnectionLost: "E121",
    Corrupt: "E130",
    Misuse: "E200",
    InvalidName: "E201",
    LimitExceeded: "E202",
    Unprotected: "E203",
    NotFound: "E300",
    TopicNotFound: "E301",
    SubscriptionNotFound: "E302",
    Conflict: "E400",
    AlreadyExists: "E401",
    IncompatibleSchema: "E402",
    Sealed: "E403",
    Fenced: "E404",
    Closed: "E405",
    NotAuthenticated: "E501",
    NotAuthorized: "E502",
    TimedOut: "E600",
    SessionLost: "E750",
}


class ErrorWithHint(Exception):
    """An error of the tree with context from the command: the object, similar names, and the next command."""

    def __init__(self, error: MagnetarError, *, name: str = "", near: Sequence[str] = (), run: str = "") -> None:
        super().__init__(str(error))
        self.error = error
        self.name = name
        self.near = near
        self.run = run


def exit_for(error: MagnetarError) -> Exit:
    match error:
        case Misuse():
            return Exit.USAGE
        case NotFound():
            return Exit.NOT_FOUND
        case Conflict() | Fenced() | AlreadyExists() | IncompatibleSchema() | Sealed() | Closed():
            return Exit.CONFLICT
        case NotAuthenticated() | NotAuthorized():
            return Exit.NOT_ALLOWED
        case SessionLost():
            return Exit.SESSION_LOST
        case Unknown() if error.http_status == 504:
            return Exit.TIMED_OUT
        case _:
            return Exit.FAILURE


def code_for(error: MagnetarError) -> str:
    return next(CODES[kind] for kind in type(error).__mro__ if kind in CODES)


def tell_error(
    error: MagnetarError, *, name: str = "", near: Sequence[str] = (), run: str = "", command: str = "magnetar"
) -> Exit:
    """Prints the error on standard error and returns the exit code. `command` is the command whose help has more
    details.
    """
    what = f"{error.what}: {name}" if name else error.what
    run = run or next_step(error) or f"{command} --help"
    facts = facts_of(error)
    # The text of a misuse is its own reason.
    why = "" if facts and isinstance(error, Misuse) else _why(error)
    tell(what, why=why, detail=facts, near=near, run=run, code=code_for(error))
    return exit_for(error)


def facts_of(error: MagnetarError) -> str:
    return ", ".join(f"{key}={value}" for key, value in error.facts.items())


def tell(
    what: str,
    *,
    why: str = "",
    detail: str = "",
    usage: str = "",
    near: Sequence[str] = (),
    run: str = "",
    code: str = "",
) -> None:
    """Prints on standard error: the error, its reason, its facts, similar names, and the next command."""
    parts = {"why": why, "detail": detail, "usage": usage, "near": ", ".join(near), "run": run, "code": code}
    lines = [f"magnetar: {what}", *(f"  {label}: {text}" for label, text in parts.items() if text)]
    room = shutil.get_terminal_size().columns if sys.stderr.isatty() else 0
    sys.stderr.write("\n".join(folded(harmless(line), room) for line in lines) + "\n")


def folded(line: str, room: int) -> str:
    """Wraps a line for a window with a hanging indent. A pipe gets one line."""
    if not room or len(line) <= room:
        return line
    indent = " " * (line.index(": ") + 2)
    kept: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False, "subsequent_indent": indent}
    return "\n".join(textwrap.wrap(line, max(room, 2 * len(indent)), **kept))


def next_step(error: MagnetarError) -> str:
    """The next command; empty if the command's help is more useful."""
    match error:
        case NotReady() if "SSL" in error.what:
            return "the same command with http:// in --admin-url, unless the broker has a certificate"
        case NotReady():
            return "magnetar standalone, or give --admin-url (MAGNETAR_ADMIN_URL) and --url (MAGNETAR_URL)"
        case ConnectionLost():
            return "the same command again; if it fails again, check that --admin-url names the HTTP port of a broker"
        case NotAuthenticated() | NotAuthorized():
            return "the same command with MAGNETAR_TOKEN or --token"
        case TimedOut():
            return "the same command with a longer --timeout; first check whether the operation has finished"
        case NotBuilt():
            return "magnetar api GET /openapi.json, which lists all routes"
        case Conflict() | Fenced() | Sealed() | Closed():
            return "the same command again, after a check of the current state"
        case Busy() | Throttled() | StorageFull() | Unavailable():
            return "the same command again, later"
        case Unprotected():
            return (
                "the same command after you remove these settings from the file. Until this version supports "
                "them, protect its ports with a proxy or a network that does"
            )
        case Corrupt():
            return "the same command with -o json; if it fails again, see the log of the broker"
        case _:
            return ""


def _why(error: MagnetarError) -> str:
    """The reason of an error kind, for errors without their own."""
    match error:
        case Misuse():
            return "the command is incomplete or contradicts itself"
        case NotFound():
            return "no object has this name"
        case Conflict() | AlreadyExists() | Fenced() | Sealed() | Closed():
            return "the object is not in the required state"
        case NotAuthenticated() | NotAuthorized():
            return "the broker does not know this user, or does not authorize the operation"
        case Unknown():
            return "no answer arrived: the operation may still finish"
        case Unavailable():
            return "the broker is unreachable or overloaded; it changed nothing"
        case _:
            return "the broker rejected the request"
