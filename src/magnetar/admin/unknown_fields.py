"""Fields that were meant to be others: a policy with a slip in its name would be taken and never obeyed.

Pulsar ignores fields that it does not know (as recorded from a real one), and newer clients send some that nobody here
has heard of, so a strange name alone is no error. One that is all but the name of a policy is: told with the right
name and with all there are.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import msgspec

from magnetar.base.errors import Misuse

ALIKE_MIN = 0.86  # of names without case and underscores: a letter or two; real fields of Pulsar differ by more


def check_spelling(document: Any, value: msgspec.Struct) -> None:
    """`value` is what was read from `document`. Misuse (400): a field of it, at any depth, is misspelt."""
    if not isinstance(document, dict):
        return
    known = {_plain(name): name for name in value.__struct_fields__ if name != "kept"}
    for name in document:
        if name in value.__struct_fields__:
            inner = getattr(value, name)
            if isinstance(inner, msgspec.Struct):
                check_spelling(document[name], inner)
        elif near := get_close_matches(_plain(name), known, 1, ALIKE_MIN):
            raise Misuse(
                f"there is no field {name}: {known[near[0]]} is perhaps meant; the fields are "
                f"{', '.join(sorted(known.values()))}",
                http_status=400,
            )


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
