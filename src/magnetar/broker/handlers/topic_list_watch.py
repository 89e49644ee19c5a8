"""Topic-list watches of clients: the names that match a pattern, and the added and removed topics since the last
message.

All watches of one pattern in one namespace share one list, one hash of it and one listener of the store. A change is
matched once per pattern. Each turn sends a bounded number of lists, and changes of one list that wait are sent
together. Nothing is sent to a peer that does not read: its next difference contains the changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from sys import intern
from typing import Any, Protocol

from magnetar.base.errors import LimitExceeded, MagnetarError
from magnetar.base.hashes import topics_hash
from magnetar.base.limits import TOPIC_LIST_TURN_NAMES_MAX, TOPIC_LISTS_NAMES_MAX, TOPIC_LISTS_TURN_MAX
from magnetar.base.names import NamespaceName, topic_name
from magnetar.broker.handlers.topic_pattern import Pattern
from magnetar.observe.log import get
from magnetar.wire import commands

log = get("topic_list_watch")


class Listing(Protocol):
    """The functions of `broker/topics` that watches need."""

    async def names(self, namespace: NamespaceName, domains: tuple[str, ...]) -> list[str]: ...

    def watch(
        self, namespace: NamespaceName, heard: Callable[[bool, str], None], missed: Callable[[], None] | None = None
    ) -> Callable[[], None]: ...


class Peer(Protocol):
    congested: bool

    def write(self, data: bytes) -> None: ...


Spawn = Callable[[Coroutine[Any, Any, None]], object]


def matching(pattern: Pattern, topics: Iterable[str]) -> list[str]:
    """Full match on the name without domain and partition."""
    return [topic for topic in topics if pattern.fullmatch(_plain(topic)) is not None]


async def matching_in_turns(pattern: Pattern, topics: list[str]) -> list[str]:
    """Like `matching`, with some names per turn of the loop."""
    names: list[str] = []
    for first in range(0, len(topics), TOPIC_LIST_TURN_NAMES_MAX):
        names += matching(pattern, topics[first : first + TOPIC_LIST_TURN_NAMES_MAX])
        await asyncio.sleep(0)
    return names


def _plain(topic: str) -> str:
    return topic_name(topic).partitioned_name.split("://", 1)[1]


class TopicListWatcher:
    """One watch of one client, from `start` on."""

    def __init__(self, watcher_id: int, peer: Peer) -> None:
        self.id = watcher_id
        self.list: TopicList | None = None
        self._peer = peer
        self._changes: dict[str, bool] = {}  # topics added (True) or removed since the last message to the client

    def start(self, topics: TopicList) -> None:
        """The client knows the current list."""
        self.list = topics
        topics.watchers[self] = None

    def close(self) -> None:
        topic_list, self.list = self.list, None
        if topic_list is not None:
            topic_list.watchers.pop(self, None)
            topic_list.release()

    def noted(self, added: bool, topic: str) -> None:
        if self._changes.get(topic, added) is not added:
            del self._changes[topic]  # it is as the client knows it
        else:
            self._changes[topic] = added

    def tell(self) -> None:
        if self.list is None or not self._changes or self._peer.congested:
            return
        changes, self._changes = self._changes, {}
        new = [topic for topic, added in changes.items() if added]
        deleted = [topic for topic, added in changes.items() if not added]
        self._peer.write(commands.watch_topic_update(self.id, new, deleted, self.list.hash))


class TopicList:
    """The topics of a namespace that match a pattern; `users` counts the open watches."""

    def __init__(self, lists: TopicLists, key: tuple[NamespaceName, str], pattern: Pattern) -> None:
        self.key = key
        self.namespace = key[0]
        self.topics: dict[str, None] = {}
        self.watchers: dict[TopicListWatcher, None] = {}
        self.users = 0
        self._lists = lists
        self._pattern = pattern
        self._hash: str | None = None
        self._catching_up = False
        self._missed_again = False
        self._known = False
        self._opening = asyncio.Lock()
        self._stop: Callable[[], None] | None = None

    @property
    def hash(self) -> str:
        if self._hash is None:
            self._hash = topics_hash(self.topics)
        return self._hash

    async def open(self) -> None:
        """Subscribes first, then lists, so that no change in between is missed."""
        async with self._opening:
            if not self._known:
                if self._stop is None:
                    self._stop = self._lists.listing.watch(self.namespace, self.heard, self._missed)
                self.topics = dict.fromkeys(await self._list())
                self._hash = None
                self._known = True
        if self._missed_again:
            self._missed()

    def release(self) -> None:
        self.users -= 1
        if not self.users:
            self._lists.forget(self)
            if self._stop is not None:
                self._stop()
                self._stop = None

    def heard(self, added: bool, topic: str) -> None:
        if not self._known:
            self._missed_again = True  # the list that is being read may not have it: it is read once more
            return
        if added == (topic in self.topics) or not matching(self._pattern, [topic]):
            return
        if added:
            self.topics[intern(topic)] = None
        else:
            del self.topics[topic]
        self._hash = None
        for watcher in self.watchers:
            watcher.noted(added, topic)
        self._lists.changed(self)

    async def _list(self) -> list[str]:
        names = await self._lists.listing.names(self.namespace, ("persistent",))
        return [intern(name) for name in await matching_in_turns(self._pattern, names)]

    def _missed(self) -> None:
        """Events may have been lost: reads the list again and compares."""
        self._missed_again = True
        if self._known and not self._catching_up and self._stop is not None:
            self._catching_up = True
            self._lists.spawn(self._catch_up())

    async def _catch_up(self) -> None:
        try:
            while self._missed_again:
                self._missed_again = False
                before = set(self.topics)
                current = set(await self._list())
                # Apply only topics that did not change during the read: the listener reported the others.
                for topic in sorted(before & self.topics.keys() - current):
                    self.heard(False, topic)
                for topic in sorted(current - before - self.topics.keys()):
                    self.heard(True, topic)
        except MagnetarError as error:
            log.warning("topic_list_watch_failed", namespace=str(self.namespace), error=str(error))
        finally:
            self._catching_up = False


class TopicLists:
    """All lists that clients of a broker watch. `spawn` runs repeated reads."""

    def __init__(self, listing: Listing, spawn: Spawn) -> None:
        self.listing = listing
        self.spawn = spawn
        self._lists: dict[tuple[NamespaceName, str], TopicList] = {}
        self._changed: dict[TopicList, None] = {}
        self._telling = False

    def __len__(self) -> int:
        return len(self._lists)

    async def open(self, namespace: NamespaceName, text: str, pattern: Pattern) -> TopicList:
        """The current list; the caller later closes its watcher or calls `release`."""
        key = namespace, text
        topic_list = self._lists.get(key)
        if topic_list is None:
            if sum(len(one.topics) for one in self._lists.values()) > TOPIC_LISTS_NAMES_MAX:
                raise LimitExceeded(
                    f"the watched topic lists of this broker must not exceed {TOPIC_LISTS_NAMES_MAX} names in total: "
                    "use narrower patterns, or the same pattern in all clients"
                )
            topic_list = self._lists[key] = TopicList(self, key, pattern)
        topic_list.users += 1
        try:
            await topic_list.open()
        except BaseException:
            topic_list.release()
            raise
        return topic_list

    def forget(self, gone: TopicList) -> None:
        self._changed.pop(gone, None)
        if self._lists.get(gone.key) is gone:
            del self._lists[gone.key]

    def changed(self, topics: TopicList) -> None:
        self._changed[topics] = None
        if not self._telling:
            self._telling = True
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        for topics in list(self._changed)[:TOPIC_LISTS_TURN_MAX]:
            del self._changed[topics]
            for watcher in list(topics.watchers):
                watcher.tell()
        self._telling = bool(self._changed)
        if self._telling:
            asyncio.get_running_loop().call_soon(self._tell)
