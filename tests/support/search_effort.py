"""How long a random search goes on: shortly in `make test`, four times as long in `make test-all`."""

from __future__ import annotations

import os

THOROUGH = "MAGNETAR_THOROUGH"


def examples(count: int) -> int:
    """Of a random search: half of `count`, or twice as many where `make test-all` asks for more."""
    return count * 2 if os.environ.get(THOROUGH) else max(1, count // 2)
