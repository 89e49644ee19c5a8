"""`magnetar demo`: a topic that is split and merged and a broker that is killed, all in the middle of traffic, and a
verdict counted from the messages.

A real broker process in a temporary directory, keyed producers, consumers of every type of subscription, splits and
merges of a scalable topic, `kill -9`, a restart; then every message that was acknowledged must have arrived, in the
order of its key, and what came twice is said. With `--spark` a PySpark pipeline stands behind the topic, is killed too,
and what it wrote is judged. It asks nothing of the broker that any client could not ask. Nothing of it is left behind.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, validators

from magnetar.cli.options import flag
from magnetar.cli.output import Form

if TYPE_CHECKING:
    from magnetar.cli.demo.judge import Outcome
    from magnetar.cli.demo.verdict import Verdict
    from magnetar.cli.forms import Part

RATE = 5000
SPARK_RATE = 500  # every order is taken twice, by two queries on the same two cores as all the rest


def demo(
    *,
    spark: Annotated[
        bool, flag("Through a PySpark pipeline: two minutes at most, and a kill -9 of the query too.")
    ] = False,
    seconds: Annotated[float, Parameter(validator=validators.Number(gte=1, lte=3600))] = 6.0,
    rate: Annotated[int | None, Parameter(validator=validators.Number(gte=1))] = None,
    no_kill: Annotated[bool, flag("Let the broker live, and the query.")] = False,
    output: Annotated[Form, Parameter(name=["--output", "-o"], env_var="MAGNETAR_OUTPUT")] = "table",
    no_color: Annotated[bool, flag("No colours. The environment's NO_COLOR does the same.")] = False,
    quiet: Annotated[bool, flag("Nothing on standard error but errors.", "--quiet", "-q")] = False,
) -> int:
    """Show what the broker promises: traffic, splits and merges, a kill -9 in the middle, and a verdict counted from
    the messages.

    The exit code is the verdict: 0, or 7 if an acknowledged message is missing or a key was out of order.

    With --spark, orders go through a PySpark pipeline to another topic, exactly once, and to Parquet, while both topics
    are split and merged and first the query, then the broker is killed. The verdict is counted from what is there in
    the end: a row that is lost, there twice, out of order or invented is exit code 7.

    Parameters
    ----------
    seconds
        How long producers send, not counting the time without a broker, or without a query.
    rate
        Messages per second that all producers together aim for; half of them go to four subscriptions of a plain topic,
        the others to the stream consumers of a scalable one. Default: 5000, with --spark 500.
    output
        The verdict: a table for people, JSON for programs. Progress goes to standard error.

    Examples
    --------
    $ magnetar demo
    $ magnetar demo --seconds 3 --output json
    $ magnetar demo --spark
    """
    import asyncio

    colors = not no_color and not os.environ.get("NO_COLOR")
    if spark:
        from magnetar.base.errors import Misuse, NotReady
        from magnetar.cli.demo import pipeline
        from magnetar.cli.exits import Explained

        rate = rate or SPARK_RATE
        told = pipeline.run(seconds=seconds, rate=rate, kill=not no_kill, quiet=quiet, colors=colors)
        try:
            outcome, took_s = asyncio.run(told)
        except (Misuse, NotReady) as error:
            raise Explained(error, run="magnetar spark doctor") from error
        return concluded(outcome, pipeline.parts(outcome, took_s), took_s, output, colors=colors)
    from magnetar.cli.demo.story import run

    rate = rate or RATE
    verdict, took_s = asyncio.run(run(seconds=seconds, rate=rate, kill=not no_kill, quiet=quiet, colors=colors))
    return conclude(verdict, took_s, output, colors=colors)


def conclude(verdict: Verdict, took_s: float, form: Form, *, colors: bool) -> int:
    """Show it, and say it as an exit code."""
    from magnetar.cli.demo.story import parts

    return concluded(verdict, parts(verdict, took_s), took_s, form, colors=colors)


def concluded(verdict: Verdict | Outcome, parts: Sequence[Part], took_s: float, form: Form, *, colors: bool) -> int:
    from magnetar.cli.exits import Exit
    from magnetar.cli.output import Output

    document = {**verdict.document(), "took_s": round(took_s, 1)}
    Output(form, colors=colors).show(document, *parts)
    return Exit.OK if verdict.ok else Exit.CHECK_FAILED
