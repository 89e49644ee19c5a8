"""Names for the exclusive producers of one connection that send no name.

A scalable topic has one exclusive producer, which its name identifies on every segment
(`broker/segments/exclusive.py`). The Java V5 client attaches that producer to each segment and sends no name. So the
attachments of one connection to different segments of a topic get the same name, also after a split or a merge. Two
attachments to one segment are two producers. A client whose segments are served by several brokers must name its
exclusive producer.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from magnetar.base.limits import CONNECTION_PRODUCER_NAMES_MAX
from magnetar.base.names import TopicName


class ProducerNames:
    def __init__(self, generate: Callable[[], str]) -> None:
        self._generate = generate
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
        topic = segment.parent.canonical
        names = self._names.pop(topic, [])
        self._names[topic] = names if name in names else [*names, name][-CONNECTION_PRODUCER_NAMES_MAX:]
        while len(self._names) > CONNECTION_PRODUCER_NAMES_MAX:
            del self._names[next(iter(self._names))]
