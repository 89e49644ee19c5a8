"""The checkpoint of a query, as Spark leaves it in its folder: which batch it is at, and where in its topics.

Reads the two logs of a checkpoint on a file system of this machine and nothing else. A source of another kind in the
same query is left out; what is not a checkpoint is `Misuse`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from magnetar.base.errors import MagnetarError, Misuse
from magnetar.spark.frontier import Frontier, from_document


@dataclass(frozen=True, slots=True)
class Kept:
    """The newest batch that was planned; `done`: it was also finished."""

    batch: int
    done: bool
    offsets: tuple[Frontier, ...]  # of the sources that are ours


def newest(folder: Path) -> Kept:
    planned = _numbers(folder / "offsets")
    if not planned:
        raise Misuse(
            "there is no checkpoint: name the folder that is the query's checkpointLocation", folder=str(folder)
        )
    batch = planned[-1]
    lines = (folder / "offsets" / str(batch)).read_text().splitlines()[2:]  # a version, and what Spark says
    return Kept(batch, batch in _numbers(folder / "commits"), tuple(filter(None, map(_frontier, lines))))


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal())


def _frontier(line: str) -> Frontier | None:
    try:
        return from_document(json.loads(line))
    except (ValueError, MagnetarError):
        return None
