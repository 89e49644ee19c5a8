"""Layout watches by connection: each gets the newest layout, encoded once for all of them.

A topic is followed once for any number of sessions that watch it. A change is encoded at most twice for each listener
of the broker (with our own fields and without) and goes to a connection in one write for all its sessions there. A peer
that does not read gets nothing more until it does, and then the newest layout only: the number of its sessions bounds
the data that waits for it, not the number of changes. Commands open and close sessions; this module reads no record and
knows no leader.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from magnetar.base.errors import TopicNotFound
from magnetar.base.ids import SegmentId
from magnetar.base.names import TopicName
from magnetar.cluster.ownership import Broker
from magnetar.scalable.watch.views import TopicView
from magnetar.wire.scalable import layouts
from magnetar.wire.scalable.layouts import Address, LayoutUpdate

Heard = Callable[[LayoutUpdate | None], None]  # None: the topic is gone
Follow = Callable[[TopicName, Heard], Callable[[], None]]  # calls back immediately or soon, then at every change


class Peer(Protocol):
    """A connection."""

    congested: bool
    closed: bool

    def write(self, data: bytes) -> None: ...


class WatchSession:
    """One watch of one client. `ended` is called if the topic is deleted; the client was already informed."""

    __slots__ = ("body", "ended", "extended", "id", "listener", "peer", "topic")

    def __init__(self, peer: Peer, id: int, *, extended: bool, ended: Callable[[], None], listener: str = "") -> None:
        self.peer = peer
        self.id = id
        self.extended = extended
        self.listener = listener  # the session gets the addresses of this listener
        self.ended = ended
        self.topic: _Watched | None = None
        self.body = b""  # the last layout that was sent

    def resume(self) -> None:
        """The peer reads again: it gets the present layout if it missed a change."""
        if self.topic is not None:
            frame = self.topic.news(self)
            if frame:
                self.peer.write(frame)

    def close(self) -> None:
        topic, self.topic = self.topic, None
        if topic is not None:
            topic.leave(self)


class Watches:
    """All watches of a broker. `follow` reports the layouts of one topic until it is stopped."""

    def __init__(self, follow: Follow) -> None:
        self._follow = follow
        self._topics: dict[str, _Watched] = {}

    def __len__(self) -> int:
        return sum(len(topic) for topic in self._topics.values())

    def open(self, name: TopicName, session: WatchSession) -> None:
        """From now on the session gets the known layout immediately, and every change."""
        topic = self._topics.get(name.canonical)
        if topic is None:
            topic = self._topics[name.canonical] = _Watched(name, self._forget)
            session.topic = topic
            topic.join(session)
            topic.start(self._follow)
        else:
            session.topic = topic
            topic.join(session)
            session.resume()

    def when_sealed(self, segment: TopicName, call: Callable[[], None]) -> None:
        """Calls back once the sessions here have a layout without this segment; immediately if the topic has none."""
        assert segment.segment is not None
        topic = self._topics.get(segment.parent.canonical)
        if topic is None:
            call()
        else:
            topic.when_sealed(SegmentId(segment.segment.id), call)

    def _forget(self, topic: _Watched) -> None:
        if self._topics.get(topic.name.canonical) is topic:
            del self._topics[topic.name.canonical]


def following(watch: Callable[[TopicName, Callable[[TopicView | None], None]], Callable[[], None]]) -> Follow:
    """Reports layouts from the views of the service of scalable topics."""

    def follow(name: TopicName, heard: Heard) -> Callable[[], None]:
        return watch(name, lambda view: heard(None if view is None else shown(view)))

    return follow


def shown(view: TopicView) -> LayoutUpdate:
    """The layout that clients get for a view."""
    record = view.record
    return LayoutUpdate(
        layout=record.layout,
        owners={one.id: _address(view.owners[one.id]) for one in record.layout.active if one.id in view.owners},
        controller=None if view.leader is None else _address(view.leader),
        routing=record.routing,
        term=record.term,
        incarnation=record.incarnation,
    )


def _address(broker: Broker) -> Address:
    listeners = {name: Address(urls.broker, urls.broker_tls) for name, urls in broker.listeners.items()}
    return Address(broker.urls.broker, broker.urls.broker_tls, listeners)


class _Watched:
    """One topic and its sessions, by connection."""

    def __init__(self, name: TopicName, forget: Callable[[_Watched], None]) -> None:
        self.name = name
        self._forget = forget
        self._shown: LayoutUpdate | None = None
        # Of what is shown, with our own fields and without, by listener.
        self._bodies: dict[tuple[bool, str], bytes] = {}
        self._sessions: dict[Peer, dict[int, WatchSession]] = {}
        self._stop: Callable[[], None] | None = None
        self._sealed: list[tuple[SegmentId, Callable[[], None]]] = []  # called when the segment is shown no more
        self._over = False

    def __len__(self) -> int:
        return sum(len(sessions) for sessions in self._sessions.values())

    def start(self, follow: Follow) -> None:
        stop = follow(self.name, self._heard)
        if self._over:  # gone before it began
            stop()
        else:
            self._stop = stop

    def join(self, session: WatchSession) -> None:
        self._sessions.setdefault(session.peer, {})[session.id] = session

    def leave(self, session: WatchSession) -> None:
        sessions = self._sessions.get(session.peer, {})
        if sessions.get(session.id) is session:
            del sessions[session.id]
            if not sessions:
                del self._sessions[session.peer]
        if not self._sessions:
            self._end()

    def news(self, session: WatchSession) -> bytes:
        """The frame that brings a session up to date; nothing if it is, or if its peer does not read."""
        if self._shown is None or session.peer.closed:
            return b""
        body = self._body(session.extended, session.listener)
        if body == session.body or (session.peer.congested and session.body):
            return b""  # the first one answers a question: it is written as any answer is
        session.body = body
        return layouts.update(session.id, body)

    def _heard(self, shown: LayoutUpdate | None) -> None:
        if self._over:
            return
        if shown is None:
            self._gone()
            return
        self._shown = shown
        self._bodies.clear()
        for peer, sessions in list(self._sessions.items()):
            frames = b"".join([self.news(session) for session in sessions.values()])
            if frames:
                peer.write(frames)

        self._call_sealed()

    def when_sealed(self, segment: SegmentId, call: Callable[[], None]) -> None:
        self._sealed.append((segment, call))
        self._call_sealed()

    def _call_sealed(self) -> None:
        waiting, self._sealed = self._sealed, []
        for segment, call in waiting:
            active = self._shown is None or any(one.id == segment for one in self._shown.layout.active)
            if active and not self._over:
                self._sealed.append((segment, call))
            else:
                call()

    def _gone(self) -> None:
        ended = [session for sessions in self._sessions.values() for session in sessions.values()]
        self._sessions.clear()
        self._end()
        text = f"Scalable topic not found: {self.name}"
        for session in ended:
            session.topic = None
            if not session.peer.closed:
                session.peer.write(layouts.update_failed(session.id, TopicNotFound.wire, text))
            session.ended()

    def _body(self, extended: bool, listener: str) -> bytes:
        body = self._bodies.get((extended, listener))
        if body is None:
            assert self._shown is not None
            body = layouts.update_body(self.name, self._shown, extended=extended, listener=listener)
            self._bodies[extended, listener] = body
        return body

    def _end(self) -> None:
        if not self._over:
            self._over = True
            self._forget(self)
            self._call_sealed()
            stop, self._stop = self._stop, None
            if stop is not None:
                stop()
