"""A stream consumer's listener on a real broker: segments come and go by splits and by other consumers."""

from __future__ import annotations

import threading

import magnetar
from magnetar.testing import broker

EARLIEST = magnetar.InitialPosition.EARLIEST


class Held:
    """The segments that a consumer has, as its listener was told."""

    def __init__(self) -> None:
        self.segments: set[int] = set()
        self._changed = threading.Condition()

    def __call__(self, change: magnetar.SegmentsChanged) -> None:
        with self._changed:
            assert not self.segments & set(change.gained)
            assert set(change.lost) <= self.segments
            self.segments = (self.segments | set(change.gained)) - set(change.lost)
            self._changed.notify_all()

    def until(self, *segments: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.segments == set(segments), 60), self.segments

    def until_it_has(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.segments) == count, 60), self.segments


def test_listener_follows_splits_and_other_consumers() -> None:
    with broker() as b, magnetar.Client(b.url) as client:
        topic, one, other = b.scalable("orders"), Held(), Held()
        with client.stream_consumer(topic, "s", initial_position=EARLIEST, on_segments=one):
            one.until(0)
            assert b.split(topic, 0) == [1, 2]
            one.until(1, 2)
            with client.stream_consumer(topic, "s", on_segments=other):
                one.until_it_has(1)
                other.until(*({1, 2} - one.segments))
            one.until(1, 2)
            assert other.segments == set()
        assert one.segments == set()
