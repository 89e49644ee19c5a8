"""The page that `make chaos` keeps of what was killed in Spark: one row for each kind of run, the last one.

Only runs that ended well come here: a run whose rows are not what they must be is a failed test, and no record.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from tests.spark.killing import Killed

_HEAD = """# Chaos in Spark: the last long run of the exactly-once sink

Written by `make chaos` (`tests/spark/test_sink_kills.py` and `test_cluster.py` with MAGNETAR_SPARK_KILLS and
MAGNETAR_RECORD). A query goes from topic to topic behind a shuffle whose number of partitions is another one at every
restart, rows come all the time, and the source is split or merged about every second. Whole drivers, Java and all, and
single Python processes are killed with `kill -9` at the moments below; on the cluster speculation is on, and a task of
every round stands still until Spark has begun it a second time. At the end the target held every row of the source,
once, and each key's rows in order: a run that ended otherwise is not written here.

"""
_NAMES = (
    "where",
    "date",
    "PySpark",
    "drivers killed",
    "Python processes killed",
    "tasks run twice",
    "queries restarted",
    "splits and merges",
    "batches",
    "rows",
    "minutes",
)


def recorded(where: str, killed: Killed) -> None:
    """Into the page that the environment names, if it names one."""
    import pyspark

    named = os.environ.get("MAGNETAR_RECORD")
    if not named:
        return
    page = Path(named)
    others = page.read_text().splitlines() if page.exists() else []
    rows = {line.split("|")[1].strip(): line for line in others if line.startswith("| ") and "| where |" not in line}
    said = (
        where,
        f"{datetime.now(UTC):%Y-%m-%d}",
        pyspark.__version__,
        _told(killed.drivers),
        _told(killed.workers),
        killed.stragglers,
        killed.failures,
        killed.reshapes,
        killed.batches,
        f"{killed.rows:,}",
        f"{killed.seconds / 60:.0f}",
    )
    rows[where] = _line(said)
    table = [_line(_NAMES), "|---" * len(_NAMES) + "|", *(rows[name] for name in sorted(rows))]
    page.write_text(_HEAD + "".join(f"{line}\n" for line in table))


def _line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _told(kills: Counter[str]) -> str:
    return f"{kills.total()}: " + ", ".join(f"{count} {moment}" for moment, count in sorted(kills.items()))
