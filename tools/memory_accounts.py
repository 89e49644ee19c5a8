"""The bound on the memory that all peers together can make a broker hold: every account with its bound, and their sum.

The bounds follow from the limits alone. docs/OPERATING.md states the figures, and a test compares them. A broker takes
as many connections as half of the memory has room for beside the shared accounts (`broker/memory_shares.py`), so the
sum of all is known. The figures of objects are estimates.
"""

from __future__ import annotations

from dataclasses import dataclass

from magnetar.base import limits
from magnetar.broker.connection.unread import write_bytes_high
from magnetar.broker.memory_shares import connections_max, loaded_topics_max, share_of

MIB = 1024 * 1024
REQUEST_BYTES = 4 * 1024  # a task and its pending state, without its command
REQUEST_BYTES_MAX = limits.LARGE_COMMAND_BYTES_MIN + REQUEST_BYTES  # a larger command is charged as a message in flight
PUSH_BYTES_MAX = limits.BACKLOG_READ_BYTES_MAX + limits.MESSAGE_BYTES_MAX  # the write that goes beyond a bound
CONNECTION_BYTES = 16 * 1024  # its objects and those of its socket
NAME_BYTES_MAX = 4 * (limits.NAME_BYTES_MAX + limits.NAME_SUFFIX_BYTES_MAX)  # one wide character makes all of them wide
METADATA_CACHES = 12  # one for each kind of record
LOADED_TOPICS = "loaded topics, their subscriptions and producer names"
DECODED_FACTOR = 3  # objects of a decoded record in addition to its stored form


@dataclass(frozen=True, slots=True)
class Account:
    """`bytes_max` for all peers together, or for each connection."""

    name: str
    bytes_max: int


def shared(publish_buffer_mb: int = 512) -> tuple[Account, ...]:
    """Accounts for any number of connections. `publish_buffer_mb`: maxMessagePublishBufferSizeInMB."""
    return (
        Account("connections before CONNECT", limits.HANDSHAKES_MAX * limits.HANDSHAKE_FRAME_BYTES_MAX),
        Account("published messages and large commands in flight", publish_buffer_mb * MIB),
        Account("frames that are not whole", limits.PARTIAL_FRAMES_BYTES_MAX + limits.MESSAGE_BYTES_MAX),
        Account("names and properties of producers and consumers", limits.KEPT_BYTES_MAX),
        Account("producers, consumers and watches", limits.OBJECTS_BYTES_MAX),
        Account("requests in progress", limits.REQUESTS_MAX * REQUEST_BYTES_MAX),
        Account("bytes that peers do not read", limits.UNREAD_BYTES_MAX + PUSH_BYTES_MAX),
        Account("bytes that are being sent to peers, before that", _before_congestion()),
        Account("newest messages of all topics", limits.TAIL_CACHE_BYTES_MAX),
        Account("blocks of backlogs", limits.BACKLOG_BLOCKS_BYTES_MAX),
        Account("reads of backlogs in progress", limits.BACKLOG_READS_MAX * limits.MESSAGE_BYTES_MAX),
        Account(LOADED_TOPICS, limits.LOADED_TOPICS_MAX * limits.LOADED_TOPIC_BYTES),
        Account("delayed and unacknowledged entries of all subscriptions", limits.SUBSCRIPTIONS_STATE_BYTES_MAX),
        Account("acknowledgements of all subscriptions", limits.CURSORS_ACKS_BYTES_MAX),
        Account("writes of the journal", 2 * limits.JOURNAL_BATCH_BYTES_MAX + limits.JOURNAL_AHEAD_BYTES_MAX),
        Account("watched topic lists", limits.TOPIC_LISTS_NAMES_MAX * 64),
        Account("compiled patterns", limits.PATTERNS_CACHED_MAX * limits.PATTERN_BYTES_MAX),
        Account("parsed names", 2 * 8 * MIB),
        Account("records of metadata", METADATA_CACHES * limits.METADATA_CACHE_BYTES_MAX * DECODED_FACTOR),
        Account("records of scalable topics", limits.RECORDS_DECODED_BYTES_MAX * (1 + DECODED_FACTOR)),
        Account("REST: connections", (limits.HTTP_CONNECTIONS_MAX + limits.HTTP_PROBES_MAX) * CONNECTION_BYTES),
        Account("REST: heads of requests", limits.HTTP_CONNECTIONS_MAX * limits.HTTP_HEADER_BYTES_MAX),
        Account("REST: bodies of requests", limits.HTTP_BODIES_BYTES_MAX),
        Account("REST: small answers", limits.HTTP_REQUESTS_MAX * limits.HTTP_ANSWER_COUNTED_BYTES_MIN),
        Account("REST: messages that are decompressed", limits.HTTP_MESSAGES_BYTES_MAX),
        Account("REST: other large answers", limits.HTTP_ANSWERS_BYTES_MAX),
        Account("REST: pages of lists", limits.HTTP_STREAMS_MAX * limits.METADATA_PAGE_NAMES_MAX * NAME_BYTES_MAX),
    )


def _before_congestion() -> int:
    """Of connections that opened one after the other, beyond the least bound, which each of them has."""
    least = limits.CONNECTION_WRITE_BYTES_LOW
    bounds = (write_bytes_high(number) for number in range(1, limits.CONNECTION_WRITE_BYTES_SUM // least + 1))
    return sum(bound - least for bound in bounds)


def of_connection() -> tuple[Account, ...]:
    """Accounts of each client connection, in addition to its part of the shared ones."""
    return (
        Account("the connection", CONNECTION_BYTES),
        Account("reads", 2 * limits.CONNECTION_READ_BYTES + limits.FRAME_JOIN_BYTES_MAX),
        Account("bytes that are being sent to the peer", limits.CONNECTION_WRITE_BYTES_LOW),
        Account("requests in progress beyond the sum", limits.CONNECTION_REQUESTS_MIN * REQUEST_BYTES_MAX),
    )


def of_subscription() -> tuple[Account, ...]:
    """Parts of the account of acknowledgements that one subscription may have. Snapshots of it are read and written one
    at a time."""
    return (
        Account("gaps between acknowledgements", limits.CURSOR_GAPS_MAX * limits.CURSOR_GAP_BYTES),
        Account("batches acknowledged in part", limits.CURSOR_BATCHES_BYTES_MAX),
        Account("counts of redeliveries", limits.CURSOR_COUNTS_MAX * limits.CURSOR_COUNT_BYTES),
        Account(
            "acknowledgements of a segment that is read early",
            limits.EARLY_ACKS_MAX * limits.EARLY_ACK_BYTES + limits.EARLY_ACK_WORDS_MAX * limits.EARLY_ACK_WORD_BYTES,
        ),
    )


def total(connections: int, publish_buffer_mb: int = 512) -> int:
    each = sum(account.bytes_max for account in of_connection())
    return sum(account.bytes_max for account in shared(publish_buffer_mb)) + connections * each


SCALED = (
    "published messages and large commands in flight",
    "frames that are not whole",
    "names and properties of producers and consumers",
    "producers, consumers and watches",
    "requests in progress",
    "bytes that peers do not read",
    "blocks of backlogs",
    "delayed and unacknowledged entries of all subscriptions",
    "acknowledgements of all subscriptions",
)


def total_on(machine_bytes: int) -> int:
    """The sum of the shared accounts on a machine with so much memory."""
    return sum(_on(account, machine_bytes) for account in shared())


def _on(account: Account, machine_bytes: int) -> int:
    if account.name == LOADED_TOPICS:
        return loaded_topics_max(machine_bytes) * limits.LOADED_TOPIC_BYTES
    return share_of(account.bytes_max, machine_bytes) if account.name in SCALED else account.bytes_max


def everything_on(machine_bytes: int) -> int:
    """The sum of all accounts with as many connections as the broker takes by default."""
    return total_on(machine_bytes) + connections_max(machine_bytes) * (total(1) - total(0))


def sizes_table() -> str:
    """The second table of docs/OPERATING.md: the sums by the memory of the machine."""
    lines = [
        "| memory | shared accounts | loaded topics among them | connections | all together |",
        "|---|---|---|---|---|",
    ]
    for gib in (4, 8, 12, 16, 32, 64):
        size = gib * 1024 * MIB
        lines.append(
            f"| {gib} GiB | {_mib(total_on(size))} | {loaded_topics_max(size):,} | {connections_max(size):,} "
            f"| {_mib(everything_on(size))} |"
        )
    return "\n".join(lines) + "\n"


def bound(name: str) -> int:
    """The bound of one account."""
    [found] = [
        account.bytes_max for account in (*shared(), *of_connection(), *of_subscription()) if account.name == name
    ]
    return found


def table() -> str:
    """The table of docs/OPERATING.md."""
    lines = ["| account | bound |", "|---|---|"]
    lines += [f"| {account.name} | {_mib(account.bytes_max)} |" for account in shared()]
    lines.append(f"| **together** | **{_mib(total(0))}** |")
    lines += [f"| each connection: {account.name} | {_mib(account.bytes_max)} |" for account in of_connection()]
    lines.append(f"| **each connection** | **{_mib(total(1) - total(0))}** |")
    lines += [f"| one subscription: {account.name} | {_mib(account.bytes_max)} |" for account in of_subscription()]
    return "\n".join(lines) + "\n"


def _mib(size: int) -> str:
    return f"{size / MIB:,.2f} MiB" if size < MIB else f"{-(-size // MIB):,} MiB"
