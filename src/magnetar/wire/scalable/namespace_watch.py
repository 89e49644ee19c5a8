"""WATCH_SCALABLE_TOPICS_UPDATE (77): the scalable topics of a namespace for a watch, as a complete list or as a change.

Long lists take several commands, each below the smallest maximum frame size of clients: the first part is a complete
list, the others are additions to it. It encodes its input in the given order and makes no decisions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from magnetar.base.limits import MEMBERS_TOLD_BYTES_MAX
from magnetar.wire.frames import encode_command
from magnetar.wire.proto import pb

_KIND = pb.BaseCommand.WATCH_SCALABLE_TOPICS_UPDATE
_UNKNOWN_ERROR = 0
_KNOWN_ERRORS = frozenset(pb.ServerError.values())
_NAME_EXTRA_BYTES = 8  # tag and length of a name


def snapshot(watch_id: int, topics: Sequence[str]) -> bytes:
    """The complete list."""
    first, *rest = [*_parts(topics)] or [[]]
    update = pb.CommandWatchScalableTopicsUpdate(watch_id=watch_id, snapshot=pb.ScalableTopicsSnapshot(topics=first))
    return _command(update) + b"".join(_diff(watch_id, added=part) for part in rest)


def difference(watch_id: int, added: Sequence[str], removed: Sequence[str]) -> bytes:
    """Removals come first: a name in both lists is a new topic of the same name."""
    gone, come = [*_parts(removed)], [*_parts(added)]
    if len(gone) <= 1 and len(come) <= 1:
        return _diff(watch_id, added=added, removed=removed)
    frames = [_diff(watch_id, removed=part) for part in gone] + [_diff(watch_id, added=part) for part in come]
    return b"".join(frames)


def failed(watch_id: int, code: int, text: str) -> bytes:
    """Ends the watch on both sides."""
    error: Any = code if code in _KNOWN_ERRORS else _UNKNOWN_ERROR
    return _command(pb.CommandWatchScalableTopicsUpdate(watch_id=watch_id, error=error, message=text))


def _diff(watch_id: int, added: Sequence[str] = (), removed: Sequence[str] = ()) -> bytes:
    update = pb.CommandWatchScalableTopicsUpdate(
        watch_id=watch_id, diff=pb.ScalableTopicsDiff(added=added, removed=removed)
    )
    return _command(update)


def _command(update: pb.CommandWatchScalableTopicsUpdate) -> bytes:
    return encode_command(pb.BaseCommand(type=_KIND, watchScalableTopicsUpdate=update))


def _parts(names: Sequence[str]) -> Iterator[list[str]]:
    part: list[str] = []
    size = 0
    for name in names:
        size += len(name.encode()) + _NAME_EXTRA_BYTES
        if part and size > MEMBERS_TOLD_BYTES_MAX:
            yield part
            part, size = [], len(name.encode()) + _NAME_EXTRA_BYTES
        part.append(name)
    if part:
        yield part
