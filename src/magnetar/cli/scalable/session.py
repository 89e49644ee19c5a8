"""Opens a session for a scalable topic: resolves the complete topic name and sets the subject for error hints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from magnetar.base.errors import Refused
from magnetar.cli.options import Change, Common
from magnetar.cli.scalable.tree import scalable_name
from magnetar.cli.session import CommandSession


@contextmanager
def opened(
    common: Common, topic: str, change: Change | None = None, *, unless: type[Refused] | None = None
) -> Iterator[tuple[CommandSession, str]]:
    """The session and the topic's name. `unless`: an error that means success. Raises Misuse for a topic of another
    kind.
    """
    name = str(scalable_name(topic))
    with common.session(change, unless=unless) as session:
        session.about(topic=name)
        yield session, name
