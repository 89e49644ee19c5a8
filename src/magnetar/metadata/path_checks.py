"""The checks of every engine before an operation: the form of a path and the size of a record.

They are pure functions. A checked path is safe to split and to compare as text; the engines do not check again.
"""

from __future__ import annotations

from magnetar.base.errors import InvalidName, LimitExceeded
from magnetar.base.limits import METADATA_VALUE_BYTES_MAX

ROOT = "/"


def check_path(path: str) -> None:
    """A path of a record: "/" alone holds no value."""
    if not path.startswith("/") or path.endswith("/") or "//" in path or "\0" in path:
        raise InvalidName("a metadata path must start with a slash and must not have empty parts", path=path)
    try:
        path.encode()
    except UnicodeEncodeError:
        raise InvalidName("a metadata path must be valid UTF-8 text", path=repr(path)) from None


def check_prefix(path: str) -> None:
    """A path to list or to listen under: a record's path, or the root."""
    if path != ROOT:
        check_path(path)


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
    found = [path]
    while path != ROOT:
        path = shown(path.rpartition("/")[0])
        found.append(path)
    return found
