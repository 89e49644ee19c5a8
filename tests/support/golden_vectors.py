"""The golden vectors of tests/vectors: inputs and outputs computed by released Pulsar code, as plain data."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "vectors"


@cache
def load(name: str) -> dict[str, Any]:
    """One JSON file; shared between tests, so read only."""
    document: dict[str, Any] = json.loads((FOLDER / name).read_text())
    return document


def sent_frames() -> list[dict[str, Any]]:
    """The recorded SEND frames, in the order sent, with their bytes under `bytes`."""
    frames: list[dict[str, Any]] = load("entries/index.json")["frames"]
    for frame in frames:
        if "bytes" not in frame:
            frame["bytes"] = (FOLDER / "entries" / frame["file"]).read_bytes()
    return frames
