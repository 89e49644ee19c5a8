"""The checkpoint of a query in its folder: the newest batch, whether it was finished, and our offsets in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from magnetar.base.errors import Misuse
from magnetar.base.ids import Epoch, SegmentId
from magnetar.layout.readable_range import ReadPosition
from magnetar.spark.progress.checkpoints import newest
from magnetar.spark.source.offset import SourceOffset

OURS = SourceOffset(Epoch(3), {SegmentId(4): ReadPosition(7, 1)}, topic="topic://a/b/c")


def write(folder: Path, batch: int, *lines: str, done: bool = True) -> None:
    (folder / "offsets").mkdir(parents=True, exist_ok=True)
    (folder / "commits").mkdir(exist_ok=True)
    (folder / "offsets" / str(batch)).write_text("\n".join(("v1", "{}", *lines)))
    if done:
        (folder / "commits" / str(batch)).write_text("v1\n{}")


def test_newest_batch_counts_by_number_and_not_by_name(tmp_path: Path):
    write(tmp_path, 9, OURS.text)
    write(tmp_path, 10, OURS.text, done=False)
    (tmp_path / "offsets" / ".9.crc").write_bytes(b"\0")
    found = newest(tmp_path)
    assert (found.batch, found.done, found.offsets) == (10, False, (OURS,))


def test_sources_of_other_kinds_are_left_out(tmp_path: Path):
    write(tmp_path, 0, '{"topic":{"0":17}}', OURS.text, "-")
    assert newest(tmp_path).offsets == (OURS,)


@pytest.mark.parametrize("folder", ["", "offsets"])
def test_folder_that_is_none_is_said(tmp_path: Path, folder: str):
    (tmp_path / folder).mkdir(exist_ok=True)
    with pytest.raises(Misuse, match="checkpointLocation"):
        newest(tmp_path)
