"""One segment of a scalable topic: a hash range with a life (ACTIVE, SEALED, PRUNING), parents and children.

A value; every change is a new one, made by `layout`. `unknown` holds, as JSON, the fields that a newer version wrote
about a segment: it is copied and never read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from magnetar.base.errors import InvalidRange
from magnetar.base.hashes import SLOTS
from magnetar.base.ids import Epoch, Position, SegmentId
from magnetar.base.limits import SEGMENT_BUCKETS_MAX
from magnetar.base.names import TopicName, segment_name, topic_name
from magnetar.base.ranges import HashRange

NEVER = -1  # time of a seal that has not happened, as Pulsar writes it
FIRST = Epoch(0)
NEVER_SEALED = Epoch(NEVER)


class State(StrEnum):
    ACTIVE = "ACTIVE"  # takes messages
    SEALED = "SEALED"  # read only, permanently
    PRUNING = "PRUNING"  # its topic is being deleted; it stays listed until that is done (H-H1)


@dataclass(frozen=True, slots=True)
class Ending:
    """The final values of a sealed segment."""

    end: Position
    messages: int = 0
    bytes: int = 0
    first_publish_ms: int = 0  # 0: nothing was published
    last_publish_ms: int = 0


@dataclass(frozen=True, slots=True)
class Segment:
    id: SegmentId
    range: HashRange
    state: State = State.ACTIVE
    parents: tuple[SegmentId, ...] = ()
    children: tuple[SegmentId, ...] = ()
    created_epoch: Epoch = FIRST
    created_ms: int = 0
    sealed_epoch: Epoch = NEVER_SEALED
    sealed_ms: int = NEVER
    sealed_by: str = ""  # the operation: how a retry recognises its own success (H-A7)
    ending: Ending | None = None
    legacy_topic: str = ""  # the data is in this plain topic
    bucket_splits: tuple[int, ...] = ()  # first hashes of entry buckets 1..N-1
    merge_depth: int = 0  # merges on the longest way to it; it stays when the ancestors are pruned
    unknown: str = field(default="", repr=False)
    form: bytes = field(default=b"", init=False, repr=False, compare=False)  # kept by the code that stores it: `keep`

    def keep(self, form: bytes) -> bytes:
        """Remember its stored bytes: a long history is not written out again for each change of its newest end."""
        object.__setattr__(self, "form", form)
        return form

    @property
    def is_active(self) -> bool:
        return self.state is State.ACTIVE

    @property
    def buckets(self) -> int:
        return len(self.bucket_splits) + 1

    def topic(self, parent: TopicName) -> TopicName:
        """The topic that holds this segment's messages. `parent` may be the name of the plain topic that was migrated:
        its readers go on calling it so."""
        if self.legacy_topic:
            return topic_name(self.legacy_topic)
        return segment_name(parent.scalable, self.range, self.id)


def bucket_splits(count: int) -> tuple[int, ...]:
    """Equal entry buckets over the whole ring (PIP-486), independent of the segment's own range."""
    if not 1 <= count <= SEGMENT_BUCKETS_MAX:
        raise InvalidRange("the number of entry buckets of a segment must be between 1 and 1024", buckets=count)
    return tuple(index * SLOTS // count for index in range(1, count))


def bucket_ranges(splits: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """The same as ranges, ends included: what consumers that share a segment bring."""
    starts = (0, *splits)
    return tuple(zip(starts, (*(start - 1 for start in splits), SLOTS - 1), strict=True))
