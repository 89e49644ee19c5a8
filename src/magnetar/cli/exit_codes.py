"""Exit codes, the same for every command and stable, and how an error of the tree is told to a person.

A message has up to five parts: what happened, why, names that are near, what to run next, and a code to look up in the
documentation. It never shows a traceback for something the user can mend; a bug of ours keeps its traceback, since it
is a report.
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
    TIMED_OUT = 6  # the work may still go on
    CHECK_FAILED = 7


MEANINGS = {
    Exit.OK: "done",
    Exit.FAILURE: "failed: the reason is on standard error",
    Exit.USAGE: "the command itself is wrong; nothing was sent, or the broker refused a value",
    Exit.NOT_FOUND: "a tenant, namespace, topic, subscription or message is not there",
    Exit.CONFLICT: "it exists already, is in use, is not empty, or somebody else changed it meanwhile",
    Exit.NOT_ALLOWED: "not authenticated, or not allowed",
    Exit.TIMED_OUT: "no answer in time: the work may go on",
    Exit.CHECK_FAILED: "a check said no",
}

# Codes people look up. One is never reused; a class without one has its parent's.
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
}


class ErrorWithHint(Exception):
    """An error of the tree with what a command knows about it: what it is about, names that are near, what to run
    next."""

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
        case Unknown() if error.http_status == 504:
            return Exit.TIMED_OUT
        case _:
            return Exit.FAILURE


def code_for(error: MagnetarError) -> str:
    return next(CODES[kind] for kind in type(error).__mro__ if kind in CODES)


def tell_error(
    error: MagnetarError, *, name: str = "", near: Sequence[str] = (), run: str = "", command: str = "magnetar"
) -> Exit:
    """Say it on standard error; how to end. `command` is the one whose help says more."""
    what = f"{error.what}: {name}" if name else error.what
    run = run or next_step(error) or f"{command} --help"
    tell(what, why=facts_of(error) or _why(error), near=near, run=run, code=code_for(error))
    return exit_for(error)


def facts_of(error: MagnetarError) -> str:
    return ", ".join(f"{key}={value}" for key, value in error.facts.items())


def tell(what: str, *, why: str = "", near: Sequence[str] = (), run: str = "", code: str = "") -> None:
    """Say it on standard error: what happened, why, what was perhaps meant, what to run next."""
    lines = [f"magnetar: {what}"]
    if why:
        lines.append(f"  why: {why}")
    if near:
        lines.append(f"  near: {', '.join(near)}")
    if run:
        lines.append(f"  run: {run}")
    if code:
        lines.append(f"  code: {code}")
    room = shutil.get_terminal_size().columns if sys.stderr.isatty() else 0
    sys.stderr.write("\n".join(folded(harmless(line), room) for line in lines) + "\n")


def folded(line: str, room: int) -> str:
    """For a window: what goes on stands under what it belongs to. A pipe has it in one line."""
    if not room or len(line) <= room:
        return line
    indent = " " * (line.index(": ") + 2)
    kept: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False, "subsequent_indent": indent}
    return "\n".join(textwrap.wrap(line, max(room, 2 * len(indent)), **kept))


def next_step(error: MagnetarError) -> str:
    """What to run after it; empty where the help of the command says more."""
    match error:
        case NotReady() if "SSL" in error.what:
            return "the same with http:// in --admin-url, unless the broker has a certificate"
        case NotReady():
            return "magnetar standalone, or give --admin-url (MAGNETAR_ADMIN_URL) and --url (MAGNETAR_URL)"
        case ConnectionLost():
            return "the same again; if that does not help, see that --admin-url names the HTTP port of a broker"
        case NotAuthenticated() | NotAuthorized():
            return "the same with MAGNETAR_TOKEN set, or --token"
        case TimedOut():
            return "the same with a longer --timeout, after looking whether it happened"
        case NotBuilt():
            return "magnetar api GET /openapi.json, which says what there is"
        case Conflict() | Fenced() | Sealed() | Closed():
            return "the same again, after looking at what is there now"
        case Busy() | Throttled() | StorageFull() | Unavailable():
            return "the same again, later"
        case Unprotected():
            return (
                "the same after these settings are removed from the file; until this version has what they ask for, "
                "keep its ports behind a proxy or a network that has it"
            )
        case Corrupt():
            return "the same with -o json; if it says the same, the broker's log has more"
        case _:
            return ""


def _why(error: MagnetarError) -> str:
    """What its kind says, where it says nothing itself."""
    match error:
        case Misuse():
            return "the command is not complete, or says two things at once"
        case NotFound():
            return "there is none of this name"
        case Conflict() | AlreadyExists() | Fenced() | Sealed() | Closed():
            return "it is not in the state that this needs"
        case NotAuthenticated() | NotAuthorized():
            return "the broker does not know who asks, or does not let them"
        case Unknown():
            return "the answer did not come: the work may go on"
        case Unavailable():
            return "the broker is not there, or has no room now; nothing happened"
        case _:
            return "the broker refused it"
