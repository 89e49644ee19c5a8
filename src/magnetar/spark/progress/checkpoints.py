"""Reads the checkpoint folder of a query: its newest batch, and its position in its topics.

Reads the two logs of a checkpoint on a local file system and no other files. Sources of other kinds in the same query
are ignored. A folder without a checkpoint raises `Misuse`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from magnetar.base.errors import MagnetarError, Misuse
from magnetar.spark.source.multi_offset import Offset, parse
from magnetar.spark.source.offset import SourceOffset


@dataclass(frozen=True, slots=True)
class QueryCheckpoint:
    """The newest planned batch; `done`: it has also finished."""

    batch: int
    done: bool
    offsets: tuple[SourceOffset, ...]  # for the topics of Magnetar sources


def newest(folder: Path) -> QueryCheckpoint:
    planned = _numbers(folder / "offsets")
    if not planned:
        raise Misuse("no checkpoint found: pass the folder that is the query's checkpointLocation", folder=str(folder))
    batch = planned[-1]
    lines = (folder / "offsets" / str(batch)).read_text().splitlines()[2:]  # skips the version and Spark's metadata
    offsets = tuple(one for line in lines for one in _frontiers(line))
    return QueryCheckpoint(batch, batch in _numbers(folder / "commits"), offsets)


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal())


def _frontiers(line: str) -> list[SourceOffset]:
    """A frontier for each topic of one source; empty for a source of another kind."""
    try:
        offset = parse(line)
    except (ValueError, MagnetarError):
        return []
    return [offset.parts[name] for name in sorted(offset.parts)] if isinstance(offset, Offset) else [offset]
