"""Names for the exclusive producers of one connection that send no name.

A scalable topic has one exclusive producer, which its name identifies on every segment
(`broker/segments/exclusive.py`). The Java V5 client attaches that producer to each segment and sends no name. So the
attachments of one connection to different segments of a topic get the same name, also after a split or a merge. Two
attachments to one segment are two producers. A client whose segments are served by several brokers must name its
exclusive producer. The names are charged to the account of all connections; beyond a bound the topic used longest ago
is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from magnetar.base.limits import CONNECTION_PRODUCER_NAMES_BYTES_MAX, CONNECTION_PRODUCER_NAMES_MAX, KEPT_NAME_BYTES
from magnetar.base.names import TopicName
from magnetar.broker.connection.property_limits import Account


class ProducerNames:
    def __init__(self, generate: Callable[[], str], account: Account) -> None:
        self.bytes = 0
        self._cleared = False
        self._generate = generate
        self._account = account
        self._names: dict[str, list[str]] = {}  # by scalable topic, in the order of their first use
        self._pending: set[tuple[str, str]] = set()  # segment and name of attachments that are not answered yet

    def reserve(self, segment: TopicName, attached: Set[str]) -> str:
        """The name for one more attachment to this segment; `attached` are the names in use there."""
        names = self._names.get(segment.parent.canonical, [])
        for name in names:
            if name not in attached and (segment.canonical, name) not in self._pending:
                break
        else:
            name = self._generate()
            self.remember(segment, name)
        self._pending.add((segment.canonical, name))
        return name

    def settle(self, segment: TopicName, name: str) -> None:
        """The attachment is made or refused."""
        self._pending.discard((segment.canonical, name))

    def remember(self, segment: TopicName, name: str) -> None:
        """A generated name is in use: by a client that reconnected, it comes from another connection."""
        if self._cleared:  # an attachment that was under way when the connection ended
            return
        topic = segment.parent.canonical
        names = self._names.get(topic, [])
        self._forget(topic)
        self._names[topic] = names if name in names else [*names, name][-CONNECTION_PRODUCER_NAMES_MAX:]
        self._change(self._size(topic))
        while len(self._names) > 1 and self._full():
            self._forget(next(iter(self._names)))
        if self._full():
            self._change(-self._size(topic))
            self._names[topic] = [name]
            self._change(self._size(topic))

    def clear(self) -> None:
        """The connection has ended: nothing is remembered from now on."""
        self._cleared = True
        self._names.clear()
        self._change(-self.bytes)

    def _full(self) -> bool:
        return (
            len(self._names) > CONNECTION_PRODUCER_NAMES_MAX
            or self.bytes > CONNECTION_PRODUCER_NAMES_BYTES_MAX
            or self._account.bytes > self._account.bytes_max
        )

    def _forget(self, topic: str) -> None:
        if topic in self._names:
            self._change(-self._size(topic))
            del self._names[topic]

    def _size(self, topic: str) -> int:
        names = self._names[topic]
        return len(topic) + sum(map(len, names)) + KEPT_NAME_BYTES * (len(names) + 1)

    def _change(self, size: int) -> None:
        self.bytes += size
        self._account.bytes += size
