"""Rare events that worlds must meet: a test that passes because nothing happened proves nothing.

The product calls `Runtime.mark(name, **facts)` where something rare happens; the operations of clients and operators
are counted from their history (`simulation.observe.history_marks`). A long run that never meets one of `WANTED` fails:
then the faults are too mild, or the mark stands in code that never runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

MarkListener = Callable[[str, str, Mapping[str, object]], None]  # host, name, facts

# What topics on one to five brokers can meet. Not `journal.damaged`: disks of worlds never spoil what was synced
# (tests/unit/ledger/local does that); not `broker.unregistered`: no two brokers of a world have the same address; not
# what takes a plan back (`reshape.refused` and what follows it): no owner of a world refuses a child permanently.
WANTED = frozenset(
    {
        "broker.registered",
        "cursor.recovered",
        "cursor.sought",
        "deletion.buried",
        "deletion.marked",
        "dedup.duplicate",
        "dedup.replayed",
        "dedup.unsure",
        "failover.switched",
        "fence.old_owner",
        "gap.told",
        "hold.expired",
        "hold.revived",
        "hold.warned",
        "latch.written",
        "layout.followed",
        "ledger.fenced",
        "ledger.recovered",
        "ledger.roll_put_off",
        "ledger.writer_died",
        "migration.carried",
        "ownership.acquired",
        "ownership.lost",
        "ownership.released",
        "plain.guarded",
        "provision.overtaken",
        "queue.sought",
        "reshape.checked",
        "reshape.child_provisioned",
        "reshape.committed",
        "reshape.found",
        "reshape.intended",
        "reshape.overtaken",
        "reshape.parent_sealed",
        "reshape.provisioned",
        "reshape.resumed",
        "reshape.sealed",
        "reshape.seeded",
        "scalable.created",
        "session.lost",
        "session.reestablished",
        "share.followed",
        "subscription.finish",
        "subscription.skipped",
        "takeover.won",
        "time.sought",
        "topic.failed",
        "topic.migrated",
        "topic.sealed",
        "zombie.fenced",
    }
)


class MarkCounter:
    """Counts the marks of one world, and passes each on to a listener."""

    def __init__(self, heard: MarkListener | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self._heard = heard

    def __call__(self, host: str, name: str, facts: Mapping[str, object]) -> None:
        self.counts[name] += 1
        if self._heard is not None:
            self._heard(host, name, facts)


def missing_marks(counts: Mapping[str, int]) -> list[str]:
    return sorted(name for name in WANTED if not counts.get(name))
