"""How every verb of scalable topics begins: its topic by its whole name, and a session that knows what it is about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from magnetar.cli.drawing import scalable_name
from magnetar.cli.options import Change, Common
from magnetar.cli.session import Session


@contextmanager
def opened(common: Common, topic: str, change: Change | None = None) -> Iterator[tuple[Session, str]]:
    """The session and the topic's name. Misuse: not a scalable topic."""
    name = str(scalable_name(topic))
    with common.session(change) as session:
        session.about(topic=name)
        yield session, name
