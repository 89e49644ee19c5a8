"""Detection of misspelled fields: a policy with a misspelled name would be accepted but never applied.

Pulsar ignores unknown fields (as recorded from a real one), and newer clients send fields that this version does not
know, so an unknown name alone is not an error. A name that is almost the name of a known field is refused; the error
contains that name and all known fields.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import msgspec

from magnetar.base.errors import Misuse

ALIKE_MIN = 0.86  # of names without case and underscores: a letter or two; real fields of Pulsar differ by more


def check_spelling(document: Any, value: msgspec.Struct) -> None:
    """`value` was read from `document`. Raises Misuse (400) if a field at any depth is misspelled."""
    if not isinstance(document, dict):
        return
    spellings = {_plain(name): name for name in value.__struct_fields__ if name != "kept"}
    for name in document:
        if name in value.__struct_fields__:
            inner = getattr(value, name)
            if isinstance(inner, msgspec.Struct):
                check_spelling(document[name], inner)
        elif near := get_close_matches(_plain(name), spellings, 1, ALIKE_MIN):
            raise Misuse(
                f"unknown field {name}, did you mean {spellings[near[0]]}? Known fields: "
                f"{', '.join(sorted(spellings.values()))}",
                http_status=400,
            )


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
