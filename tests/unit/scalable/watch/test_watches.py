"""Watch sessions: told at once, told the newest, told once for all, and no longer than they want to be."""

from __future__ import annotations

from collections.abc import Callable

from magnetar.base.ids import SegmentId
from magnetar.base.names import TopicName, topic_name
from magnetar.layout.layout import initial
from magnetar.layout.routing import Routing
from magnetar.scalable.watch.watches import Heard, Watches, WatchSession
from magnetar.wire import frames
from magnetar.wire.proto import pb
from magnetar.wire.scalable.layouts import LayoutUpdate

NAME = topic_name("topic://t/n/x")
ONE = LayoutUpdate(initial(1, now_ms=1), {}, routing=Routing.HIGH16, term=1)
TWO = LayoutUpdate(ONE.layout.split(SegmentId(0), now_ms=2), {}, routing=Routing.HIGH16, term=1)
THREE = LayoutUpdate(TWO.layout.merge([SegmentId(1), SegmentId(2)], now_ms=3), {}, routing=Routing.HIGH16, term=1)


class Peer:
    def __init__(self) -> None:
        self.congested = False
        self.closed = False
        self.writes: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    @property
    def told(self) -> list[tuple[int, int | str]]:
        """(session, epoch or the error's text), in order."""
        found: list[tuple[int, int | str]] = []
        data = b"".join(self.writes)
        for start, end, _ in frames.split(data, 0, 1 << 20)[0]:
            said = frames.decode_command(data, start, end)
            assert said is not None
            update = said.scalableTopicUpdate
            found.append((update.session_id, update.dag.epoch if update.HasField("dag") else update.message))
        return found


class Source:
    """Follows topics by hand; `present` is told at once, as the engine does with what it knows."""

    def __init__(self, present: LayoutUpdate | None = None, *, late: bool = False) -> None:
        self.present = present
        self.late = late
        self.heard: dict[TopicName, Heard] = {}
        self.stopped: list[TopicName] = []

    def follow(self, name: TopicName, heard: Heard) -> Callable[[], None]:
        self.heard[name] = heard
        if not self.late:
            heard(self.present)
        return lambda: self.stopped.append(name)

    def say(self, shown: LayoutUpdate | None) -> None:
        self.present = shown
        self.heard[NAME](shown)


def a_session(watches: Watches, peer: Peer, id: int, *, extended: bool = False) -> tuple[WatchSession, list[int]]:
    ended: list[int] = []
    session = WatchSession(peer, id, extended=extended, ended=lambda: ended.append(id))
    watches.open(NAME, session)
    return session, ended


def test_session_receives_state_and_every_change_until_closed():
    source, peer = Source(ONE), Peer()
    watches = Watches(source.follow)
    session, _ = a_session(watches, peer, 7)
    assert peer.told == [(7, 0)]
    source.say(TWO)
    assert peer.told == [(7, 0), (7, 1)]
    session.close()
    assert source.stopped == [NAME]
    source.say(THREE)
    assert peer.told == [(7, 0), (7, 1)]
    assert len(watches) == 0


def test_layout_that_comes_later_than_question_is_answer():
    source, peer = Source(late=True), Peer()
    watches = Watches(source.follow)
    a_session(watches, peer, 1)
    assert peer.told == []
    source.say(TWO)
    assert peer.told == [(1, 1)]


def test_what_changes_nothing_that_is_shown_is_not_told_again():
    source, peer = Source(ONE), Peer()
    a_session(Watches(source.follow), peer, 1)
    source.say(LayoutUpdate(ONE.layout, {}, term=5))  # a term is told only to those who know our fields
    assert peer.told == [(1, 0)]


def test_slow_peer_receives_newest_layout_only():
    source, peer, other = Source(ONE), Peer(), Peer()
    watches = Watches(source.follow)
    session, _ = a_session(watches, peer, 1)
    a_session(watches, other, 1)
    peer.congested = True
    source.say(TWO)
    source.say(THREE)
    assert peer.told == [(1, 0)]
    assert other.told == [(1, 0), (1, 1), (1, 2)]
    peer.congested = False
    session.resume()
    session.resume()
    assert peer.told == [(1, 0), (1, 2)]


def test_many_sessions_cost_one_encoding_and_one_write_connection():
    source = Source(ONE)
    watches = Watches(source.follow)
    peers = [Peer() for _ in range(10)]
    sessions = [a_session(watches, peer, id, extended=id % 2 == 0)[0] for peer in peers for id in range(20)]
    assert (len(watches), len(source.heard)) == (200, 1)
    before = [len(peer.writes) for peer in peers]
    source.say(TWO)
    assert len({id(session.body) for session in sessions}) == 2  # the same bytes: with our own fields, and without
    assert [len(peer.writes) for peer in peers] == [count + 1 for count in before]
    assert all(peer.told[-20:] == [(id, 1) for id in range(20)] for peer in peers)


def test_deleted_topic_ends_sessions_and_successor_starts_again():
    source, peer = Source(ONE), Peer()
    watches = Watches(source.follow)
    first, ended = a_session(watches, peer, 1)
    source.say(None)
    assert peer.told[-1] == (1, "Scalable topic not found: topic://t/n/x")
    assert (ended, source.stopped, len(watches)) == ([1], [NAME], 0)
    source.say(TWO)  # late news of a watch that is over
    first.close()
    assert peer.told[-1][1] == "Scalable topic not found: topic://t/n/x"
    source.present = ONE
    a_session(watches, peer, 2)
    assert peer.told[-1] == (2, 0)


def test_topic_deleted_before_watch_is_reported_and_not_followed():
    source, peer = Source(None), Peer()
    _, ended = a_session(Watches(source.follow), peer, 3)
    assert ended == [3]
    assert source.stopped == [NAME]
    assert peer.told == [(3, "Scalable topic not found: topic://t/n/x")]


def test_close_of_old_session_keeps_new_one_of_number():
    source, peer = Source(ONE), Peer()
    watches = Watches(source.follow)
    old, _ = a_session(watches, peer, 1)
    a_session(watches, peer, 1)
    old.close()
    source.say(TWO)
    assert peer.told == [(1, 0), (1, 0), (1, 1)]


def test_our_own_fields_go_to_sessions_that_know_them():
    source, peer = Source(ONE), Peer()
    watches = Watches(source.follow)
    a_session(watches, peer, 1, extended=True)
    a_session(watches, peer, 2)
    dags = []
    for data in peer.writes:
        [(start, end, _)], _ = frames.split(data, 0, 1 << 20)
        said = frames.decode_command(data, start, end)
        assert said is not None
        dags.append(said.scalableTopicUpdate.dag)
    assert [dag.routing for dag in dags] == ["high16", ""]
    assert pb.ScalableTopicDAG.DESCRIPTOR.fields_by_name["routing"].number == 10000
