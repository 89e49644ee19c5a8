"""The counters of one consumer: plain integers that the message path increments and any code may read."""

from __future__ import annotations


class Counters:
    """The counters of one consumer, as plain integers."""

    __slots__ = (
        "acks",
        "attaches",
        "bytes",
        "chunks_given_up",
        "dead_letters",
        "discarded",
        "duplicates",
        "gaps",
        "held_back",
        "messages",
        "nacks",
        "redeliveries_asked",
        "timeouts",
        "undecodable",
    )

    def __repr__(self) -> str:
        return f"Counters({', '.join(f'{name}={getattr(self, name)}' for name in self.__slots__)})"

    def __init__(self) -> None:
        self.messages = 0  # received from the broker, before the application took them
        self.bytes = 0
        self.acks = 0
        self.nacks = 0
        self.timeouts = 0
        self.redeliveries_asked = 0
        self.duplicates = 0
        self.discarded = 0  # entries that could not be opened
        self.chunks_given_up = 0
        self.dead_letters = 0
        self.undecodable = 0  # part of `dead_letters`: the value did not fit the schema
        self.attaches = 0
        self.held_back = 0  # warnings that unacknowledged messages keep the next segments waiting
        self.gaps = 0  # losses: messages that were deleted before a checkpoint consumer reached them
