"""What the tests of this room share."""

from __future__ import annotations

from pathlib import Path

import pytest

from magnetar.cli.settings.resolve import KNOBS


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own for contexts, and an environment that says nothing."""
    for knob in KNOBS.values():
        for variable in knob.variables:
            monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "magnetar").mkdir()
    return tmp_path
