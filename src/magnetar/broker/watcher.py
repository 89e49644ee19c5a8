"""One topic-list watch of a client: the names that match its pattern, and what came and went since it was last told."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from magnetar.base.errors import MagnetarError
from magnetar.base.hashes import topics_hash
from magnetar.base.names import NamespaceName, topic_name
from magnetar.broker.pattern import Pattern
from magnetar.observe.log import get
from magnetar.wire import commands

if TYPE_CHECKING:
    from magnetar.broker.topics import Topics

log = get("watcher")


def matching(pattern: Pattern, topics: Iterable[str]) -> list[str]:
    """Full match on the name without domain and partition."""
    return [topic for topic in topics if pattern.fullmatch(_plain(topic)) is not None]


def _plain(topic: str) -> str:
    return topic_name(topic).partitioned_name.split("://", 1)[1]


class Watcher:
    """`spawn` runs work of the watch; what was missed is read again with it."""

    def __init__(
        self,
        watcher_id: int,
        namespace: NamespaceName,
        pattern: Pattern,
        write: Callable[[bytes], None],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self.id = watcher_id
        self.namespace = namespace
        self.pattern = pattern
        self.topics: list[str] = []
        self._write = write
        self._spawn = spawn
        self._catching_up = False
        self._missed_again = False
        self._started = False
        self._changes: list[tuple[bool, str]] = []  # heard before the first answer went out
        self._unsubscribe: Callable[[], None] | None = None

    @property
    def hash(self) -> str:
        return topics_hash(self.topics)

    async def open(self, topics: Topics) -> None:
        """Listen first, then list: what changes in between is heard, and applied to the list when it is there."""
        self._unsubscribe = topics.watch(self.namespace, self._heard, lambda: self._missed(topics))
        self.topics = matching(self.pattern, await topics.names(self.namespace, ("persistent",)))

    def start(self) -> None:
        self._started = True
        changes, self._changes = self._changes, []
        for added, topic in changes:
            self._apply(added, topic)

    def close(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def _missed(self, topics: Topics) -> None:
        """Events may have been lost: what is there now is compared with what the client was told."""
        self._missed_again = True
        if not self._catching_up and self._unsubscribe is not None:
            self._catching_up = True
            self._spawn(self._catch_up(topics))

    async def _catch_up(self, topics: Topics) -> None:
        try:
            while self._missed_again:
                self._missed_again = False
                before = set(self.topics)
                found = set(matching(self.pattern, await topics.names(self.namespace, ("persistent",))))
                # Only what stood still while the list was read: what moved meanwhile was heard.
                for topic in sorted(before & set(self.topics) - found):
                    self._heard(False, topic)
                for topic in sorted(found - before - set(self.topics)):
                    self._heard(True, topic)
        except MagnetarError as error:
            log.warning("watch not caught up", namespace=str(self.namespace), error=str(error))
        finally:
            self._catching_up = False

    def _heard(self, added: bool, topic: str) -> None:
        if self._started:
            self._apply(added, topic)
        else:
            self._changes.append((added, topic))

    def _apply(self, added: bool, topic: str) -> None:
        if added == (topic in self.topics) or not matching(self.pattern, [topic]):
            return
        if added:
            self.topics.append(topic)
        else:
            self.topics.remove(topic)
        new, deleted = ((topic,), ()) if added else ((), (topic,))
        self._write(commands.watch_topic_update(self.id, new, deleted, self.hash))
