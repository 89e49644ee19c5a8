"""`magnetar demo`: splits and merges a topic and kills the broker under traffic, then checks every message.

The demo runs a real broker process in a temporary directory, keyed producers, and consumers of every subscription type.
It splits and merges a scalable topic, kills the broker with `kill -9` and restarts it. Every acknowledged message must
arrive in the order of its key; duplicates are reported. With `--spark`, a PySpark pipeline reads the topic and is
killed too, and the demo checks its output. The demo uses only the public interfaces of the broker and removes all its
files.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, validators

from magnetar.cli.options import flag
from magnetar.cli.output.output import Form

if TYPE_CHECKING:
    from magnetar.cli.demo.delivery_check import Verdict
    from magnetar.cli.demo.order_check import Outcome
    from magnetar.cli.output.formats import Part

RATE = 5000
SPARK_RATE = 500  # each order is read twice, by two queries on the same two cores as all other processes


def demo(
    *,
    spark: Annotated[
        bool, flag("Send orders through a PySpark pipeline, at most two minutes, and also kill the query with kill -9.")
    ] = False,
    seconds: Annotated[float, Parameter(validator=validators.Number(gte=1, lte=3600))] = 6.0,
    rate: Annotated[int | None, Parameter(validator=validators.Number(gte=1))] = None,
    no_kill: Annotated[bool, flag("Do not kill the broker or the query.")] = False,
    output: Annotated[Form, Parameter(name=["--output", "-o"], env_var="MAGNETAR_OUTPUT")] = "table",
    no_color: Annotated[bool, flag("Disable colours. NO_COLOR in the environment does the same.")] = False,
    quiet: Annotated[bool, flag("Print only errors to standard error.", "--quiet", "-q")] = False,
) -> int:
    """Demonstrate the broker's guarantees: traffic, splits, merges, a kill -9, and a check that counts every message.

    The exit code is the result: 0, or 7 if an acknowledged message is missing or a key was out of order.

    With --spark, a PySpark pipeline reads orders and writes them to another topic, exactly once, and to Parquet. Both
    topics are split and merged. The demo kills first the query, then the broker. The result is counted from the stored
    rows: a lost, duplicate, invented or out-of-order row gives exit code 7.

    Parameters
    ----------
    seconds
        Seconds for which producers send. Time without a broker, or without a query, does not count.
    rate
        Target of messages per second, for all producers together. Half of them go to four subscriptions of a plain
        topic, half to the stream consumers of a scalable topic. Default: 5000, with --spark 500.
    output
        Format of the result: a table for people, JSON for programs. Progress goes to standard error.

    Examples
    --------
    $ magnetar demo
    $ magnetar demo --seconds 3 --output json
    $ magnetar demo --spark
    """
    import asyncio

    from magnetar.cli import connect

    connect.silence()  # the demo kills the broker on purpose: client warnings would disrupt the display
    colors = not no_color and not os.environ.get("NO_COLOR")
    if spark:
        from magnetar.base.errors import Misuse, NotReady
        from magnetar.cli.demo import spark_scenario
        from magnetar.cli.exit_codes import ErrorWithHint

        rate = rate or SPARK_RATE
        scenario = spark_scenario.run(seconds=seconds, rate=rate, kill=not no_kill, quiet=quiet, colors=colors)
        try:
            outcome, took_s = asyncio.run(scenario)
        except (Misuse, NotReady) as error:
            raise ErrorWithHint(error, run="magnetar spark doctor") from error
        return concluded(outcome, spark_scenario.parts(outcome, took_s), took_s, output, colors=colors)
    from magnetar.cli.demo.scenario import run

    rate = rate or RATE
    verdict, took_s = asyncio.run(run(seconds=seconds, rate=rate, kill=not no_kill, quiet=quiet, colors=colors))
    return conclude(verdict, took_s, output, colors=colors)


def conclude(verdict: Verdict, took_s: float, form: Form, *, colors: bool) -> int:
    """Shows the verdict and returns its exit code."""
    from magnetar.cli.demo.scenario import parts

    return concluded(verdict, parts(verdict, took_s), took_s, form, colors=colors)


def concluded(verdict: Verdict | Outcome, parts: Sequence[Part], took_s: float, form: Form, *, colors: bool) -> int:
    from magnetar.cli.exit_codes import Exit
    from magnetar.cli.output.output import Output

    document = {**verdict.document(), "took_s": round(took_s, 1)}
    Output(form, colors=colors).show(document, *parts)
    return Exit.OK if verdict.ok else Exit.CHECK_FAILED
