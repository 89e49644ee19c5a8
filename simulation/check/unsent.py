"""Invariant 2: nothing is invented. Every delivered message was sent to that topic before, and has its own key.

Values whose sends were all refused belong to invariant 16.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulation import history as record
from simulation.check.finding import Finding
from simulation.check.history_index import index_history
from simulation.history import History


def check(history: History) -> Iterator[Finding]:
    for topic, subscription in index_history(history).observed():
        for line in subscription.lines:
            if line.operation != record.RECEIVE:
                continue
            if line.value is None:
                yield Finding(2, topic.name, f"{subscription.name} got bytes that nobody sent", (line,))
                continue
            send = topic.sends.get(line.value)
            if send is None:
                yield Finding(2, topic.name, f"{line.value} was delivered and never sent", (line,))
            elif send.first.number > line.number:
                yield Finding(2, topic.name, f"{line.value} was delivered before it was sent", (line, send.first))
            elif line.facts.get("key", line.value.key) != line.value.key:
                what = f"{line.value} was delivered under the key {line.facts['key']}"
                yield Finding(2, topic.name, what, (line, send.first))
