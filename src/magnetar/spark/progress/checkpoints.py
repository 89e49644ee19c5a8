"""The checkpoint of a query, as Spark leaves it in its folder: which batch it is at, and where in its topics.

Reads the two logs of a checkpoint on a file system of this machine and nothing else. A source of another kind in the
same query is left out; what is not a checkpoint is `Misuse`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from magnetar.base.errors import MagnetarError, Misuse
from magnetar.spark.source.multi_offset import Offset, parse
from magnetar.spark.source.offset import SourceOffset


@dataclass(frozen=True, slots=True)
class QueryCheckpoint:
    """The newest batch that was planned; `done`: it was also finished."""

    batch: int
    done: bool
    offsets: tuple[SourceOffset, ...]  # of the topics of the sources that are ours


def newest(folder: Path) -> QueryCheckpoint:
    planned = _numbers(folder / "offsets")
    if not planned:
        raise Misuse(
            "there is no checkpoint: name the folder that is the query's checkpointLocation", folder=str(folder)
        )
    batch = planned[-1]
    lines = (folder / "offsets" / str(batch)).read_text().splitlines()[2:]  # a version, and what Spark says
    offsets = tuple(one for line in lines for one in _frontiers(line))
    return QueryCheckpoint(batch, batch in _numbers(folder / "commits"), offsets)


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal())


def _frontiers(line: str) -> list[SourceOffset]:
    """Of one source, a frontier for each of its topics; none of a source of another kind."""
    try:
        found = parse(line)
    except (ValueError, MagnetarError):
        return []
    return [found.parts[name] for name in sorted(found.parts)] if isinstance(found, Offset) else [found]
