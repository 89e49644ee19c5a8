"""`--watch[=1s]`: repeats a command that reads until Ctrl-C, which is its normal end.

Every verb that changes nothing and does not follow by itself gets the option automatically. If a later request fails,
the error is noted and the request repeated. The first request must succeed, since a retry cannot fix a wrong command.
It trusts verbs to write only to `common.out`.
"""

from __future__ import annotations

import inspect
import os
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, get_type_hints

from cyclopts import Group, Parameter

from magnetar.base.errors import Misuse, Unavailable, Unknown
from magnetar.cli.exit_codes import Exit
from magnetar.cli.options import COMMON, Common
from magnetar.cli.output.watch_screen import PipeOutput, Screen, WatchFrame
from magnetar.cli.sleep import InterruptibleSleep

WATCH_S_MIN, WATCH_S_MAX = 0.1, 86_400.0  # people cannot follow shorter intervals; for longer ones, use a timer
READING = Group("Reads", sort_key=10)

_TIME = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|min|h)?", re.ASCII)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}

Watch = Annotated[
    str | None,
    Parameter(
        name="--watch",
        group=READING,
        help="Repeat every second, or every 500ms, 5s, 2m with --watch=TIME, until Ctrl-C.",
        show_default=False,
    ),
]
Verb = Callable[..., Any]
_UNWATCHED: set[Verb] = set()


def can_watch(verb: Verb) -> bool:
    """Whether the verb only reads and does not follow by itself. A verb that writes files opts out with `unwatched`."""
    taken = inspect.signature(verb).parameters
    return "common" in taken and not {"change", "follow"} & taken.keys() and verb not in _UNWATCHED


def unwatched(verb: Verb) -> Verb:
    """Marks a verb that cannot be watched: a repetition is useless."""
    _UNWATCHED.add(verb)
    return verb


def watchable(verb: Verb) -> Verb:
    """The same verb with --watch."""

    def run(*arguments: Any, watch: str | None = None, common: Common = COMMON, **options: Any) -> Any:
        if watch is None:
            return verb(*arguments, common=common, **options)
        every_s = interval(watch)
        with InterruptibleSleep() as pause:
            once = replace(common, quiet=True)
            return watch_with(
                every_s, common, lambda look: verb(*arguments, common=replace(once, sink=look), **options), pause
            )

    hints = get_type_hints(verb, include_extras=True)
    signature = inspect.signature(verb)
    taken = [one.replace(annotation=hints[one.name]) for one in signature.parameters.values()]
    taken.append(inspect.Parameter("watch", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Watch))
    run.__doc__, run.__name__, run.__module__ = verb.__doc__, verb.__name__, verb.__module__
    run.__signature__ = signature.replace(parameters=taken)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in taken}
    return run


def interval(text: str) -> float:
    """Seconds of 500ms, 1s, 2m, 1h, or of a plain number."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise Misuse("the interval must be a time such as 500ms, 1s, 2m, 1h, or a number of seconds", watch=text)
    seconds = float(match[1]) * _UNITS[match[2] or "s"]
    if not WATCH_S_MIN <= seconds <= WATCH_S_MAX:
        raise Misuse(f"the interval must be {WATCH_S_MIN * 1000:g} ms to {WATCH_S_MAX / 3600:g} h", watch=text)
    return seconds


def watch_with(
    every_s: float, common: Common, look_into: Callable[[WatchFrame], Any], pause: Callable[[float], None]
) -> Exit:
    """Repeats the command until Ctrl-C."""
    on_screen = common.output == "table" and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    view: Screen | PipeOutput = PipeOutput(sys.stdout)
    if on_screen:
        signal.signal(signal.SIGTERM, _end)  # restores the terminal
        view = Screen(sys.stdout, f"every {every_s:g} s, Ctrl-C ends", colors=common.colors)
    shown, lost = False, False
    try:
        while True:
            look = WatchFrame(common.output, terminal=on_screen)
            try:
                look_into(look)
            except (Unavailable, Unknown) as error:
                if not shown:
                    raise
                if not lost:
                    view.note(f"no answer, retrying: {error.what}")
                lost = True
            else:
                if lost and not on_screen:
                    view.note("the broker answers again")
                shown, lost = True, False
                view.show(look)
            pause(every_s)
    except KeyboardInterrupt:
        return Exit.OK
    finally:
        view.close()


def _end(number: int, frame: object) -> None:
    sys.exit(128 + number)
