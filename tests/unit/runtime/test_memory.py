"""Returning freed memory, and how much there is."""

from __future__ import annotations

import gc
from pathlib import Path

from magnetar.runtime.memory import give_back, machine_bytes, settle


def test_freed_memory_is_returned_and_used_memory_stays() -> None:
    kept = [bytes([number % 256]) * 3000 for number in range(2000)]
    holes = [bytes(3000) for _ in range(20_000)]
    del holes
    assert give_back() in (True, False)
    assert all(block == bytes([number % 256]) * 3000 for number, block in enumerate(kept))


def test_existing_objects_are_frozen_and_later_ones_collected() -> None:
    before, often = gc.get_freeze_count(), gc.get_threshold()
    try:
        settle()
        assert gc.get_freeze_count() > before
        assert gc.get_threshold()[0] > often[0]
        loop: list[object] = []
        loop.append(loop)
        del loop
        assert gc.collect() > 0
    finally:
        gc.unfreeze()
        gc.set_threshold(*often)


def test_memory_of_machine_is_that_of_its_container(tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    whole = machine_bytes(())
    assert whole is not None
    assert whole > 64 * 1024 * 1024
    limit.write_text("max\n")
    assert machine_bytes((str(limit), str(tmp_path / "missing"))) == whole
    limit.write_text("1048576\n")
    assert machine_bytes((str(limit),)) == 1_048_576
