"""Whoever has begun a message in chunks keeps its place until the last one is out."""

from __future__ import annotations

from magnetar.topic.dispatch.chunk_affinity import ChunkAffinity


def test_position_stays_until_chunked_messages_begun_there_end():
    begun: ChunkAffinity[str] = ChunkAffinity()
    assert not begun
    assert not begun.sent(7, "a", "one", last=False)
    assert not begun.sent(7, "a", "two", last=False)
    assert (begun.owner([3, 7]), begun.owner([3])) == ("a", None)
    assert not begun.sent(7, "a", "one", last=True)
    assert begun.owner([7]) == "a"
    assert begun.sent(7, "a", "two", last=True)
    assert not begun


def test_last_chunk_of_what_was_not_begun_here_changes_nothing():
    begun: ChunkAffinity[str] = ChunkAffinity()
    begun.sent(7, "a", "one", last=False)
    assert not begun.sent(7, "a", "other", last=True)
    assert begun.owner([7]) == "a"


def test_who_leaves_keeps_nothing_and_what_is_free_is_nobodys():
    begun: ChunkAffinity[str] = ChunkAffinity()
    for place, consumer in ((1, "a"), (2, "b"), (3, "a")):
        begun.sent(place, consumer, f"{place}", last=False)
    begun.left(["a"])
    assert [begun.owner([place]) for place in (1, 2, 3)] == [None, "b", None]
    assert (begun.freed(2), begun.freed(2)) == (True, False)
    assert not begun


def test_of_too_many_oldest_is_let_go():
    begun: ChunkAffinity[str] = ChunkAffinity(messages_max=2)
    assert not begun.sent(1, "a", "one", last=False)
    assert not begun.sent(2, "a", "two", last=False)
    assert begun.sent(3, "a", "three", last=False)
    assert [begun.owner([place]) for place in (1, 2, 3)] == [None, "a", "a"]
    begun.clear()
    assert not begun
