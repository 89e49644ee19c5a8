"""WATCH_SCALABLE_TOPICS_UPDATE: lists of any length, told in frames that every client takes."""

from __future__ import annotations

from magnetar.base.limits import MEMBERS_TOLD_BYTES_MAX
from magnetar.wire import frames
from magnetar.wire.proto import pb
from magnetar.wire.scalable import namespace_watch


def said(data: bytes) -> list[pb.CommandWatchScalableTopicsUpdate]:
    found, rest = frames.split(data, 0, 1 << 26)
    assert rest == len(data)
    commands = [frames.decode_command(data, start, middle) for start, middle, _ in found]
    return [one.watchScalableTopicsUpdate for one in commands if one is not None]


def test_empty_list_is_list() -> None:
    [one] = said(namespace_watch.snapshot(7, ()))
    assert (one.watch_id, one.WhichOneof("event"), list(one.snapshot.topics)) == (7, "snapshot", [])


def test_long_list_is_told_in_parts_that_make_it_up() -> None:
    names = [f"topic://public/default/{'n' * 200}-{number}" for number in range(12_000)]
    first, *rest = said(namespace_watch.snapshot(7, names))
    assert len(rest) == 2
    assert [*first.snapshot.topics, *(name for one in rest for name in one.diff.added)] == names
    assert all(one.ByteSize() <= MEMBERS_TOLD_BYTES_MAX for one in [first, *rest])
    parts = said(namespace_watch.difference(7, names, names))
    added_at = [number for number, one in enumerate(parts) if one.diff.added]
    removed_at = [number for number, one in enumerate(parts) if one.diff.removed]
    assert max(removed_at) < min(added_at), "what went comes first"
    assert [name for one in parts for name in one.diff.added] == names
    assert [name for one in parts for name in one.diff.removed] == names


def test_error_that_protocol_does_not_know_is_unknown_one() -> None:
    [one] = said(namespace_watch.failed(7, 999, "no"))
    assert (one.error, one.message, one.WhichOneof("event")) == (pb.UnknownError, "no", None)
