"""The lock files as values: name, version, marker and hashes of each package.

Reads the form that `make lock` writes and refuses every other line: a package without a version or without a hash is
not locked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

PINNED = re.compile(r"(?P<name>[a-z0-9][a-z0-9._-]*)==(?P<version>[^ ;\\]+)(?: ; (?P<marker>[^\\]+?))? \\")
HASHED = re.compile(r"    --hash=sha256:(?P<sha256>[0-9a-f]{64})(?: \\)?")


class Locked(NamedTuple):
    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]  # SHA-256, one for each file of this version


def locked(text: str) -> Iterator[Locked]:
    """The packages of a lock file. ValueError: a line is neither a pinned package nor a hash."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    while lines:
        line = lines.pop(0)
        pin = PINNED.fullmatch(line)
        if pin is None:
            raise ValueError(f"expected a package with version and hashes, got {line!r}: run make lock")
        hashes = []
        while lines and (digest := HASHED.fullmatch(lines[0])):
            hashes.append(digest["sha256"])
            lines.pop(0)
        yield Locked(pin["name"], pin["version"], pin["marker"] or "", tuple(hashes))
