"""The checks of every engine before an operation: the form of a path and the size of a record.

They are pure functions. A checked path is safe to split and to compare as text; the engines do not check again.
"""

from __future__ import annotations

import re

from magnetar.base.errors import InvalidName, InvalidRange, LimitExceeded
from magnetar.base.limits import METADATA_VALUE_BYTES_MAX

ROOT = "/"

# What ZooKeeper's server refuses: controls, surrogates (and so every character beyond U+FFFF, which Java writes as two
# of them), private use, specials.
_REFUSED = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]")
_RELATIVE = re.compile(r"/\.\.?(?:/|\Z)")


def check_path(path: str) -> None:
    """A path of a record: "/" alone holds no value."""
    if not path.startswith("/") or path.endswith("/") or "//" in path:
        raise InvalidName("a metadata path must start with a slash and must not have empty parts", path=repr(path))
    if _REFUSED.search(path):
        raise InvalidName("a metadata path must not contain control or private characters", path=repr(path))
    if "/." in path and _RELATIVE.search(path):
        raise InvalidName('no part of a metadata path may be "." or "..": choose another name', path=path)


def check_prefix(path: str) -> None:
    """A path to list or to listen under: a record's path, or the root."""
    if path != ROOT:
        check_path(path)


def check_limit(limit: int | None) -> None:
    """Of a page of names: a page of none would never end a listing."""
    if limit is not None and limit < 1:
        raise InvalidRange("the limit of a page must be 1 or more", limit=limit)


def check_size(path: str, value: bytes) -> None:
    if len(value) + len(path.encode()) >= METADATA_VALUE_BYTES_MAX:
        raise LimitExceeded(
            "the metadata record is too large: split growing lists into several records",
            path=path,
            bytes=len(value),
            bytes_max=METADATA_VALUE_BYTES_MAX,
        )


def split(path: str) -> tuple[str, str]:
    """Parent and name; the parent of "/a" is "" so that parent + "/" + name is the path again."""
    parent, _, name = path.rpartition("/")
    return parent, name


def as_parent(path: str) -> str:
    """A listed path as it stands in the parent column: the root is ""."""
    return "" if path == ROOT else path


def shown(parent: str) -> str:
    """The inverse: the path of a parent in events."""
    return parent or ROOT


def ancestors(path: str) -> list[str]:
    """The path and every prefix that a listener may use for it, the root last: "/a/b" -> "/a/b", "/a", "/"."""
    paths = [path]
    while path != ROOT:
        path = shown(path.rpartition("/")[0])
        paths.append(path)
    return paths
