"""Which of Spark's files count: those that its log names, also where older batches were put into one file of it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from magnetar.base.errors import Corrupt
from magnetar.cli.demo.parquet import LOG, ParquetOutput, committed


def entry(path: str, action: str = "add") -> str:
    return msgspec.json.encode({"path": f"file://{path}", "size": 1, "action": action}).decode()


def a_log(*entries: str) -> str:
    return "\n".join(("v1", *entries))


def test_files_come_in_order_of_batches_not_of_their_names() -> None:
    log = {"10": a_log(entry("/x/c")), "2": a_log(entry("/x/b")), "0": a_log(entry("/x/a"), entry("/x/a%202"))}
    assert committed(log) == ["/x/a", "/x/a 2", "/x/b", "/x/c"]


def test_compacted_log_stands_for_all_before_it() -> None:
    log = {
        "8": a_log(entry("/x/a")),
        "9.compact": a_log(entry("/x/a"), entry("/x/b")),
        "19.compact": a_log(entry("/x/a"), entry("/x/b"), entry("/x/c")),
        "18": a_log(entry("/x/c")),
        "20": a_log(entry("/x/d")),
    }
    assert committed(log) == ["/x/a", "/x/b", "/x/c", "/x/d"]


def test_deleted_orders_are_not_counted_and_empty_batch_is_fine() -> None:
    assert committed({"0": a_log(), "1": a_log(entry("/x/a", "delete"), entry("/x/b"))}) == ["/x/b"]


def test_log_of_another_version_is_not_guessed_at() -> None:
    with pytest.raises(Corrupt, match="version"):
        committed({"0": "v2\n" + entry("/x/a")})


def test_nothing_is_there_before_first_batch(tmp_path: Path) -> None:
    assert ParquetOutput(tmp_path / "lake")._files() == []


def test_files_of_no_batch_and_partial_logs_are_ignored(tmp_path: Path) -> None:
    log = tmp_path / LOG
    log.mkdir()
    (log / "0").write_text(a_log(entry("/x/a")))
    (log / ".1.tmp").write_text("half")
    (log / ".0.crc").write_bytes(b"\xff")
    (tmp_path / "part-orphan.parquet").write_bytes(b"")
    assert ParquetOutput(tmp_path)._files() == ["/x/a"]
