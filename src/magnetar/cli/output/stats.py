"""Statistics of topics as tables: requests them and lays them out for people.

Every table is computed from the REST document alone; this module never estimates a number that the broker did not
report.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import UNSET

from magnetar.base.names import topic_name
from magnetar.cli.output.output import KeyValues, TableData
from magnetar.cli.output.values import Cell, Duration, Lag, Moment, Rate, Size
from magnetar.cli.session import CommandSession
from magnetar.client.documents.stats import InternalStats, SubscriptionStats, TopicStats

SUBSCRIPTION_COLUMNS = ("SUBSCRIPTION", "TYPE", "CONSUMERS", "LAG", "UNACKED", "OLDEST", "DELIVERED", "OUT", "LAST ACK")
OPTIONAL = frozenset(("OLDEST", "OUT", "LAST ACK"))  # not every broker measures them


@dataclass(frozen=True, slots=True)
class TopicStatsView:
    name: str
    partitions: int
    stats: TopicStats
    document: bytes  # the statistics as REST returned them


def read(session: CommandSession, topic: str) -> TopicStatsView:
    """The statistics of a topic, partitioned or not. The topic must exist."""
    name = str(topic_name(topic))
    session.about(topic=name)
    count = session.admin.topics.partitions(name).partitions
    stats = session.admin.topics.partitioned_stats(name) if count else session.admin.topics.stats(name)
    return TopicStatsView(name, count, stats, session.document)


def lag_of(stats: SubscriptionStats) -> Lag:
    """The lag in messages; Apache Pulsar counts entries only."""
    return Lag(stats.msgBacklog if stats.lagMessages is UNSET else stats.lagMessages)


def oldest_of(stats: SubscriptionStats) -> Duration | None:
    """The age of the oldest unacknowledged message. None: no such message exists, or the broker does not report it."""
    return Duration(stats.lagAgeSeconds) if stats.lagAgeSeconds is not UNSET and lag_of(stats).messages else None


def largest_lag(stats: TopicStats) -> Lag:
    return Lag(max((lag_of(one).messages for one in stats.subscriptions.values()), default=0))


def since(stats: TopicStats) -> Moment | None:
    """When the broker began to count."""
    return None if stats.countersSinceTimestamp is UNSET else Moment(stats.countersSinceTimestamp)


def traffic_facts(view: TopicStatsView) -> KeyValues:
    """Rates and sizes."""
    stats = view.stats
    facts: dict[str, Cell] = {
        "topic": view.name,
        "in": Rate(stats.msgRateIn),
        "in bytes": Rate(stats.msgThroughputIn, size=True),
        "out": Rate(stats.msgRateOut),
        "out bytes": Rate(stats.msgThroughputOut, size=True),
        "messages in": stats.msgInCounter,
        "messages out": stats.msgOutCounter,
        "counted since": since(stats),
        "average size": Size(stats.averageMsgSize),
        "stored": Size(stats.storageSize),
        "backlog": Size(stats.backlogSize),
        "producers": producers(stats),
    }
    return KeyValues(facts, optional=frozenset(("counted since",)))


def producers(stats: TopicStats) -> int:
    if isinstance(stats.partitions, dict) and not stats.publishers:
        return max((len(one.publishers) for one in stats.partitions.values()), default=0)
    return len(stats.publishers)


def _row(name: str, stats: SubscriptionStats) -> tuple[Cell, ...]:
    return (
        name,
        stats.type if stats.type != "None" else None,
        len(stats.consumers),
        lag_of(stats),
        stats.unackedMessages,
        oldest_of(stats),
        stats.msgOutCounter,
        Rate(stats.msgRateOut),
        Moment(stats.lastAckedTimestamp),
    )


def subscription_sheets(stats: TopicStats) -> list[TableData]:
    return [subscription_sheet(stats)] if stats.subscriptions else []


def subscription_sheet(stats: TopicStats) -> TableData:
    rows = [_row(name, one) for name, one in sorted(stats.subscriptions.items())]
    return TableData(SUBSCRIPTION_COLUMNS, rows, optional=OPTIONAL)


def partition_sheet(stats: TopicStats) -> TableData:
    assert isinstance(stats.partitions, dict)
    rows: list[tuple[Cell, ...]] = []
    for name, partition in sorted(stats.partitions.items(), key=lambda pair: place_of(pair[0])):
        rates = Rate(partition.msgRateIn), Rate(partition.msgRateOut)
        rows.append(
            (str(place_of(name)), *rates, partition.msgInCounter, largest_lag(partition), Size(partition.storageSize))
        )
    return TableData(("PARTITION", "IN", "OUT", "MESSAGES IN", "LAG", "STORED"), rows)


def internal_parts(name: str, stats: InternalStats) -> list[TableData | KeyValues]:
    """Ledgers and cursors."""
    facts: dict[str, Cell] = {
        "topic": name,
        "entries": stats.numberOfEntries,
        "size": Size(stats.totalSize),
        "last entry": stats.lastConfirmedEntry or None,
        "state": stats.state or None,
    }
    ledgers = [(str(one.ledgerId), one.entries, Size(one.size)) for one in stats.ledgers or []]
    cursors = [
        (key, one.markDeletePosition or None, one.readPosition or None, one.totalNonContiguousDeletedMessagesRange)
        for key, one in sorted(stats.cursors.items())
    ]
    return [
        KeyValues(facts),
        TableData(("LEDGER", "ENTRIES", "SIZE"), ledgers),
        TableData(("CURSOR", "ACKNOWLEDGED TO", "READS AT", "HOLES"), cursors),
    ]


def place_of(partition: str) -> int:
    return topic_name(partition).partition_index
