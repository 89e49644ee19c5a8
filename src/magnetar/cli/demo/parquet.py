"""Reads the Parquet files that a streaming query of Spark has committed.

A killed query leaves files that belong to no batch. Spark's log beside the files lists the committed ones; a reader
without the log reads rows twice. This module only reads. It trusts the log and the files that the log names.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlparse

import msgspec

from magnetar.base.errors import Corrupt
from magnetar.cli.demo.order_check import Row

LOG = "_spark_metadata"
COMPACT = ".compact"


class ParquetOutput:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._counted: dict[str, int] = {}

    def count(self) -> int:
        """The number of committed rows. It reads the footer of each file once."""
        import pyarrow.parquet as parquet

        for path in self._files():
            if path not in self._counted:
                self._counted[path] = parquet.read_metadata(path).num_rows
        return sum(self._counted.values())

    def rows(self) -> list[Row]:
        """All committed rows. Rows of a key are in the order of their column."""
        import pyarrow as pa
        import pyarrow.parquet as parquet

        files = self._files()
        if not files:
            return []
        columns = ["customer", "number", "gross", "order"]
        table = pa.concat_tables([parquet.read_table(path, columns=columns) for path in files])
        rows = zip(*(table.column(name).to_pylist() for name in ("order", *columns[:3])), strict=True)
        return [(customer, number, paid) for _, customer, number, paid in sorted(rows)]

    def _files(self) -> list[str]:
        log = self._folder / LOG
        if not log.is_dir():
            return []
        return committed({path.name: path.read_text() for path in log.iterdir() if _batch(path.name) is not None})


def committed(log: Mapping[str, str]) -> list[str]:
    """The committed files, from the log's files by name. Spark writes one log file per batch, and from time to time one
    that includes all earlier ones.
    """
    whole = [name for name in log if name.endswith(COMPACT)]
    newest = max(whole, key=_number, default=None)
    since = -1 if newest is None else _number(newest)
    later = sorted((name for name in log if not name.endswith(COMPACT) and _number(name) > since), key=_number)
    paths: list[str] = []
    for name in [*([newest] if newest is not None else []), *later]:
        version, *lines = log[name].splitlines()
        if version != "v1":
            raise Corrupt("unsupported version of Spark's file log", version=version[:20])
        entries = [msgspec.json.decode(line) for line in lines if line]
        paths += [unquote(urlparse(one["path"]).path) for one in entries if one["action"] == "add"]
    return paths


def _batch(name: str) -> int | None:
    """The batch of a log file. Files that are being written have other names."""
    number = name.removesuffix(COMPACT)
    return int(number) if number.isdigit() else None


def _number(name: str) -> int:
    return int(name.removesuffix(COMPACT))
