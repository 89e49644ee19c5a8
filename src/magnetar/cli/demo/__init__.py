"""`magnetar demo`: a topic that is split and merged and a broker that is killed, all in the middle of traffic, and a
verdict counted from the messages.

A real broker process in a temporary directory, keyed producers, consumers of every type of subscription, splits and
merges of a scalable topic, `kill -9`, a restart; then every message that was acknowledged must have arrived, in the
order of its key, and what came twice is said. It asks nothing of the broker that any client could not ask. Nothing of
it is left behind.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, validators

from magnetar.cli.options import flag
from magnetar.cli.output import Form

if TYPE_CHECKING:
    from magnetar.cli.demo.verdict import Verdict


def demo(
    *,
    seconds: Annotated[float, Parameter(validator=validators.Number(gte=1, lte=3600))] = 6.0,
    rate: Annotated[int, Parameter(validator=validators.Number(gte=1))] = 5000,
    no_kill: Annotated[bool, flag("Let the broker live.")] = False,
    output: Annotated[Form, Parameter(name=["--output", "-o"], env_var="MAGNETAR_OUTPUT")] = "table",
    no_color: Annotated[bool, flag("No colours. The environment's NO_COLOR does the same.")] = False,
    quiet: Annotated[bool, flag("Nothing on standard error but errors.", "--quiet", "-q")] = False,
) -> int:
    """Show what the broker promises: traffic, splits and merges, a kill -9 in the middle, and a verdict counted from
    the messages.

    The exit code is the verdict: 0, or 7 if an acknowledged message is missing or a key was out of order.

    Parameters
    ----------
    seconds
        How long producers send, not counting the time without a broker.
    rate
        Messages per second that all producers together aim for; half of them go to four subscriptions of a plain topic,
        the others to the stream consumers of a scalable one.
    output
        The verdict: a table for people, JSON for programs. Progress goes to standard error.

    Examples
    --------
    $ magnetar demo
    $ magnetar demo --seconds 3 --output json
    """
    import asyncio

    from magnetar.cli.demo.story import run

    colors = not no_color and not os.environ.get("NO_COLOR")
    verdict, took_s = asyncio.run(run(seconds=seconds, rate=rate, kill=not no_kill, quiet=quiet, colors=colors))
    return conclude(verdict, took_s, output, colors=colors)


def conclude(verdict: Verdict, took_s: float, form: Form, *, colors: bool) -> int:
    """Show it, and say it as an exit code."""
    from magnetar.cli.demo.story import parts
    from magnetar.cli.exits import Exit
    from magnetar.cli.output import Output

    document = {**verdict.document(), "took_s": round(took_s, 1)}
    Output(form, colors=colors).show(document, *parts(verdict, took_s))
    return Exit.OK if verdict.ok else Exit.CHECK_FAILED
