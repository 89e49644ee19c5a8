"""A blocking wait for code without a loop: the back-off of the blocking admin client, and the steps of a command."""

from __future__ import annotations

import time


def pause(seconds: float) -> None:
    time.sleep(seconds)
