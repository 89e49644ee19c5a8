"""The switch for the invariant checks of pure machines.

Each machine has a `validate` method or function that asserts what must hold after every step. The checks cost more than
the steps do, so a product never runs them: tests and the simulator set `enabled` once, before they begin. A failed
check is a bug of the machine, so it is an AssertionError and never a MagnetarError that a caller could handle.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

enabled = False


def enable() -> None:
    global enabled
    enabled = True


@contextmanager
def disabled() -> Iterator[None]:
    """For tests of deliberately wrong machines, whose faults must be found by their effects."""
    global enabled
    before, enabled = enabled, False
    try:
        yield
    finally:
        enabled = before
