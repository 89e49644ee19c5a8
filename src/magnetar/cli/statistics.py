"""Statistics of topics as tables: what is read of one, and how it is laid out for people.

Every table is made from the document that REST gave; nothing is counted here that the broker did not count.
"""

from __future__ import annotations

from dataclasses import dataclass

from magnetar.base.names import topic_name
from magnetar.cli.cells import Cell, Lag, Moment, Rate, Size
from magnetar.cli.output import Facts, Sheet
from magnetar.cli.session import Session
from magnetar.client.documents.stats import InternalStats, SubscriptionStats, TopicStats

SUBSCRIPTION_COLUMNS = ("SUBSCRIPTION", "TYPE", "CONSUMERS", "LAG", "UNACKED", "DELIVERED", "OUT", "LAST ACK")
OPTIONAL = frozenset(("OUT", "LAST ACK"))  # not every broker measures them


@dataclass(frozen=True, slots=True)
class Read:
    name: str
    partitions: int
    stats: TopicStats
    document: bytes  # the statistics as REST gave them


def read(session: Session, topic: str) -> Read:
    """A topic that exists, partitioned or not, with its statistics."""
    name = str(topic_name(topic))
    session.about(topic=name)
    count = session.admin.topics.partitions(name).partitions
    found = session.admin.topics.partitioned_stats(name) if count else session.admin.topics.stats(name)
    return Read(name, count, found, session.document)


def traffic_facts(found: Read) -> Facts:
    """Rates and sizes."""
    stats = found.stats
    facts: dict[str, Cell] = {
        "topic": found.name,
        "in": Rate(stats.msgRateIn),
        "in bytes": Rate(stats.msgThroughputIn, size=True),
        "out": Rate(stats.msgRateOut),
        "out bytes": Rate(stats.msgThroughputOut, size=True),
        "messages in": stats.msgInCounter,
        "messages out": stats.msgOutCounter,
        "average size": Size(stats.averageMsgSize),
        "stored": Size(stats.storageSize),
        "backlog": Size(stats.backlogSize),
        "producers": producers(stats),
    }
    return Facts(facts)


def producers(stats: TopicStats) -> int:
    if isinstance(stats.partitions, dict) and not stats.publishers:
        return max((len(one.publishers) for one in stats.partitions.values()), default=0)
    return len(stats.publishers)


def _row(name: str, one: SubscriptionStats) -> tuple[Cell, ...]:
    return (
        name,
        one.type if one.type != "None" else None,
        len(one.consumers),
        Lag(one.msgBacklog),
        one.unackedMessages,
        one.msgOutCounter,
        Rate(one.msgRateOut),
        Moment(one.lastAckedTimestamp),
    )


def subscription_sheets(stats: TopicStats) -> list[Sheet]:
    return [subscription_sheet(stats)] if stats.subscriptions else []


def subscription_sheet(stats: TopicStats) -> Sheet:
    rows = [_row(name, one) for name, one in sorted(stats.subscriptions.items())]
    return Sheet(SUBSCRIPTION_COLUMNS, rows, optional=OPTIONAL)


def partition_sheet(stats: TopicStats) -> Sheet:
    assert isinstance(stats.partitions, dict)
    rows: list[tuple[Cell, ...]] = []
    for name, one in sorted(stats.partitions.items(), key=lambda pair: place_of(pair[0])):
        lag = max((subscription.msgBacklog for subscription in one.subscriptions.values()), default=0)
        rates = Rate(one.msgRateIn), Rate(one.msgRateOut)
        rows.append((str(place_of(name)), *rates, one.msgInCounter, Lag(lag), Size(one.storageSize)))
    return Sheet(("PARTITION", "IN", "OUT", "MESSAGES IN", "LAG", "STORED"), rows)


def internal_parts(name: str, found: InternalStats) -> list[Sheet | Facts]:
    """Ledgers and cursors."""
    facts: dict[str, Cell] = {
        "topic": name,
        "entries": found.numberOfEntries,
        "size": Size(found.totalSize),
        "last entry": found.lastConfirmedEntry or None,
        "state": found.state or None,
    }
    ledgers = [(str(one.ledgerId), one.entries, Size(one.size)) for one in found.ledgers or []]
    cursors = [
        (key, one.markDeletePosition or None, one.readPosition or None, one.totalNonContiguousDeletedMessagesRange)
        for key, one in sorted(found.cursors.items())
    ]
    return [
        Facts(facts),
        Sheet(("LEDGER", "ENTRIES", "SIZE"), ledgers),
        Sheet(("CURSOR", "ACKNOWLEDGED TO", "READS AT", "HOLES"), cursors),
    ]


def place_of(partition: str) -> int:
    return topic_name(partition).partition_index
