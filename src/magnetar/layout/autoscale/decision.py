"""The results of the evaluator, as values: actions to carry out, and decisions with their inputs.

A decision names a candidate and says whether it was taken. It carries the numbers that it depends on, the thresholds
that it compared them with, and the time from which it may be taken. The first sentence of `why` names the cause.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from magnetar.base.ids import SegmentId

SPLIT, MERGE, REBUCKET, NONE = "SPLIT", "MERGE", "REBUCKET", "NONE"


class Decision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One automatic decision about a scalable topic, taken or suppressed.

    `kind` is SPLIT, MERGE, REBUCKET or NONE. `reason` is a word for programs, `why` a sentence for people. `inputs` are
    the measured numbers, `thresholds` the limits of the policy. `eligibleMs` is the time from which the suppressed
    operation may happen; 0: it depends on the inputs alone. `times` counts equal decisions in a row, the last one at
    `atMs`.
    """

    kind: str
    taken: bool
    reason: str
    why: str
    atMs: int
    segmentIds: tuple[int, ...] = ()
    at: tuple[str, ...] = ()  # of a split: the first hashes of its upper children, in hexadecimal
    inputs: dict[str, float | str] = {}
    thresholds: dict[str, float] = {}
    eligibleMs: int = 0
    times: int = 1

    @property
    def subject(self) -> tuple[object, ...]:
        """Equal for decisions that differ in their numbers and times alone."""
        return self.kind, self.taken, self.reason, self.segmentIds


@dataclass(frozen=True, slots=True)
class Action:
    """A reshape to carry out. The leader checks the bounds again in the compare-and-set that announces it."""

    kind: str
    parents: tuple[SegmentId, ...]
    reason: str
    cuts: tuple[int, ...] = ()
    buckets: int = 0


@dataclass(frozen=True, slots=True)
class Evaluation:
    """`actions` in the order in which they are carried out."""

    actions: tuple[Action, ...]
    decisions: tuple[Decision, ...]
