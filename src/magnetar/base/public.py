"""The name under which users know a class: tracebacks, types and pickles show it instead of the module it lives in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

C = TypeVar("C", bound=type)


def public(module: str) -> Callable[[C], C]:
    """A decorator: the class is a public name of `module`, which must export it."""

    def named(kind: C) -> C:
        kind.__module__ = module
        return kind

    return named
