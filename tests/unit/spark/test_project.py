"""The project that people begin with: Python that compiles, and the address that was given."""

from __future__ import annotations

from pathlib import Path

import pytest

from magnetar.spark.project import files


@pytest.mark.parametrize("pipelines", [False, True])
def test_programs_compile_and_name_broker(pipelines: bool):
    written = files(Path("shop"), url="pulsar://head:6650", pipelines=pipelines)
    programs = [text for name, text in written.items() if name.endswith(".py")]
    assert len(programs) == 1
    compile(programs[0], "app.py", "exec")
    assert "pulsar://head:6650" in programs[0]
    assert "magnetar spark doctor" in written["README.md"]
