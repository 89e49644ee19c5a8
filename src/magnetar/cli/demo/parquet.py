"""The Parquet files that a streaming query of Spark wrote, as far as it has committed them.

A killed query leaves files behind that belong to no batch; which ones count stands in the log that Spark keeps beside
them, and whoever reads without it reads rows twice. Only reads; trusts that log and the files it names.
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
        """Rows so far: of each file its footer is read, once."""
        import pyarrow.parquet as parquet

        for path in self._files():
            if path not in self._counted:
                self._counted[path] = parquet.read_metadata(path).num_rows
        return sum(self._counted.values())

    def rows(self) -> list[Row]:
        """All of them, those of a key in the order that its column says."""
        import pyarrow as pa
        import pyarrow.parquet as parquet

        files = self._files()
        if not files:
            return []
        columns = ["customer", "number", "gross", "order"]
        table = pa.concat_tables([parquet.read_table(path, columns=columns) for path in files])
        found = zip(*(table.column(name).to_pylist() for name in ("order", *columns[:3])), strict=True)
        return [(customer, number, paid) for _, customer, number, paid in sorted(found)]

    def _files(self) -> list[str]:
        log = self._folder / LOG
        if not log.is_dir():
            return []
        return committed({path.name: path.read_text() for path in log.iterdir() if _batch(path.name) is not None})


def committed(log: Mapping[str, str]) -> list[str]:
    """The files that count, from the files of the log by name: one a batch, and now and then one for all before it."""
    whole = [name for name in log if name.endswith(COMPACT)]
    newest = max(whole, key=_number, default=None)
    since = -1 if newest is None else _number(newest)
    later = sorted((name for name in log if not name.endswith(COMPACT) and _number(name) > since), key=_number)
    found: list[str] = []
    for name in [*([newest] if newest is not None else []), *later]:
        version, *lines = log[name].splitlines()
        if version != "v1":
            raise Corrupt("Spark's log of files is of a version nobody tried", version=version[:20])
        entries = [msgspec.json.decode(line) for line in lines if line]
        found += [unquote(urlparse(one["path"]).path) for one in entries if one["action"] == "add"]
    return found


def _batch(name: str) -> int | None:
    """Of a file of the log; those being written have other names."""
    number = name.removesuffix(COMPACT)
    return int(number) if number.isdigit() else None


def _number(name: str) -> int:
    return int(name.removesuffix(COMPACT))
