"""Names that no other test of the process has, each with the name of its test in it."""

from __future__ import annotations

import itertools
import re

_numbers = itertools.count(1)


def unique(test: str) -> str:
    """Of the name of a test function, which begins with `test_`."""
    return f"{re.sub(r'[^a-zA-Z0-9]+', '-', test)[5:45].strip('-')}-{next(_numbers)}"
