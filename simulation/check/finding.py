"""A finding: which invariant of the protocol page is broken, where, and the lines of the history that show it."""

from __future__ import annotations

from dataclasses import dataclass

from simulation.history import Line


@dataclass(frozen=True, slots=True)
class Finding:
    invariant: int  # its number in protocol.md 4b
    topic: str
    what: str
    lines: tuple[Line, ...] = ()

    def __str__(self) -> str:
        shown = "".join(f"\n    {line}" for line in self.lines)
        return f"invariant {self.invariant}, {self.topic or 'world'}: {self.what}{shown}"
