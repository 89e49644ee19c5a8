"""Which partition a message goes to. Decides only.

A message with a key goes where its key's hash says, whatever the mode, so that one key stays in order; hashes are those
of Java's client (`java`, the default there too) or Murmur3. Without a key messages go round the partitions, a batch
at a time, or all to one. A function of the user's own replaces all of this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from magnetar.base.errors import Misuse
from magnetar.base.hashes import java_string_hash, masked, murmur3, utf8

Hashing = Literal["java", "murmur3"]
Routing = Literal["round_robin", "single"]
Chooser = Callable[[str | None, int], int]  # (key, partitions) -> partition


class Router:
    """`key` is text, or the base64 of a key of bytes, as Java hashes it. `advance` says that a batch was closed: the
    next messages without a key go elsewhere. `start` is where they begin, drawn by chance: many producers must not
    all begin with the first partition.
    """

    def __init__(self, routing: Routing | Chooser, hashing: Hashing, start: int) -> None:
        if isinstance(routing, str) and routing not in ("round_robin", "single"):
            raise Misuse("routing is round_robin, single or a function", routing=routing)
        if hashing not in ("java", "murmur3"):
            raise Misuse("hashing is java or murmur3", hashing=hashing)
        self._chooser = None if isinstance(routing, str) else routing
        self._round = routing == "round_robin"
        self._murmur = hashing == "murmur3"
        self._at = start

    def choose(self, key: str | None, partitions: int) -> int:
        if self._chooser is not None:
            chosen = self._chooser(key, partitions)
            if not 0 <= chosen < partitions:
                raise Misuse("the router chose a partition that does not exist", chosen=chosen, partitions=partitions)
            return chosen
        if key is None:
            return self._at % partitions
        return masked(murmur3(utf8(key)) if self._murmur else java_string_hash(key)) % partitions

    def advance(self) -> None:
        if self._round:
            self._at += 1
