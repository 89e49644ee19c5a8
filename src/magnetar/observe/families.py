"""Every metric family that a broker shows: its name, type, labels and help.

`/metrics` takes HELP and TYPE from this table, and docs/METRICS.md is generated from it. A family that is not in the
table cannot be shown. Every sample has the label `cluster` beside those named here.
"""

from __future__ import annotations

from dataclasses import dataclass

COUNTER, GAUGE, HISTOGRAM, SUMMARY = "counter", "gauge", "histogram", "summary"

_TOPIC = ("namespace", "topic")
_SUBSCRIPTION = (*_TOPIC, "subscription")
_WHOLE = ("namespace", "topic")
_HOLD = ("topic", "hold", "owner")
_LATENCY_BUCKETS = ("le_0_5", "le_1", "le_5", "le_10", "le_20", "le_50", "le_100", "le_200", "le_1000", "overflow")
_SIZE_BUCKETS = (
    "le_128",
    "le_512",
    "le_1_kb",
    "le_2_kb",
    "le_4_kb",
    "le_16_kb",
    "le_100_kb",
    "le_1_mb",
    "le_overflow",
)


@dataclass(frozen=True, slots=True)
class Family:
    """`name` is the displayed name, for a counter with its `_total`. `group`: the section of the page."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()
    group: str = ""


def _rows(group: str, labels: tuple[str, ...], *rows: tuple[str, str, str]) -> list[Family]:
    return [Family(name, kind, help, labels, group) for name, kind, help in rows]


def _buckets(name: str, labels: tuple[str, ...], endings: tuple[str, ...], what: str, unit: str) -> list[Family]:
    """Histograms in Pulsar's form: a gauge for each bucket of the last interval."""
    return [
        *_rows(
            "Topics",
            labels,
            *(
                (
                    f"{name}_{one}",
                    GAUGE,
                    f"{what} in the last interval, bucket {one.replace('_', ' ')} ({unit}).",
                )
                for one in endings
            ),
            (f"{name}_count", GAUGE, f"{what} in the last interval, all buckets."),
            (f"{name}_sum", GAUGE, f"{what} in the last interval, sum of their values ({unit})."),
        )
    ]


_ALL = [
    *_rows(
        "Broker",
        (),
        ("pulsar_version_info", GAUGE, "Always 1; the label version is the version of the broker."),
        ("pulsar_health", GAUGE, "1 while the broker serves clients, else 0."),
        ("pulsar_active_connections", GAUGE, "Open connections of clients."),
        ("pulsar_connection_created_total_count", GAUGE, "Connections that were opened; a gauge, as in Pulsar."),
        ("pulsar_connection_closed_total_count", GAUGE, "Connections that were closed; a gauge, as in Pulsar."),
        ("pulsar_broker_topics_count", GAUGE, "Topics in memory."),
        ("pulsar_broker_producers_count", GAUGE, "Connected producers."),
        ("pulsar_broker_consumers_count", GAUGE, "Connected consumers."),
        ("pulsar_broker_subscriptions_count", GAUGE, "Subscriptions of topics in memory."),
        ("pulsar_broker_rate_in", GAUGE, "Messages per second from producers."),
        ("pulsar_broker_rate_out", GAUGE, "Messages per second to consumers."),
        ("pulsar_broker_throughput_in", GAUGE, "Bytes per second from producers."),
        ("pulsar_broker_throughput_out", GAUGE, "Bytes per second to consumers."),
        ("pulsar_broker_storage_size", GAUGE, "Stored bytes of topics in memory or with a backlog."),
        ("pulsar_broker_msg_backlog", GAUGE, "Entries that subscriptions have not acknowledged."),
        ("pulsar_broker_publish_latency", SUMMARY, "Milliseconds from a send to its receipt, over the last interval."),
        ("magnetar_storage_write_latency_seconds", HISTOGRAM, "Seconds from a send to durable storage, by entry."),
        ("magnetar_connections_aborted_total", COUNTER, "Connections that the broker cut."),
        ("magnetar_unknown_commands_total", COUNTER, "Commands that the broker does not know."),
        ("magnetar_request_failures_total", COUNTER, "Requests that ended with an error."),
        ("magnetar_task_failures_total", COUNTER, "Background tasks that ended with an unexpected error."),
        ("magnetar_publish_pending_bytes", GAUGE, "Bytes of messages that wait for storage."),
        ("magnetar_requests_in_progress", GAUGE, "Requests of all connections without an answer so far."),
        ("magnetar_client_properties_bytes", GAUGE, "Names and properties of producers and consumers."),
        ("magnetar_client_objects_bytes", GAUGE, "Estimated memory of producers, consumers and watches."),
        ("magnetar_partial_frames_bytes", GAUGE, "Large frames that have not arrived completely."),
        ("magnetar_unread_bytes", GAUGE, "Bytes for clients that have too many unread ones."),
        ("magnetar_topics_unloaded_with_backlog", GAUGE, "Topics out of memory with a known backlog."),
        ("magnetar_topics_unloaded_dropped_total", COUNTER, "Samples of unloaded topics dropped because of the bound."),
    ),
    *_rows(
        "Cluster",
        (),
        ("magnetar_metadata_session", GAUGE, "1 while the broker has a session with the metadata store."),
        ("magnetar_metadata_connections_lost_total", COUNTER, "Times that the store stopped to answer."),
        ("magnetar_metadata_sessions_lost_total", COUNTER, "Sessions with the metadata store that ended too soon."),
        ("magnetar_metadata_session_attempts_total", COUNTER, "Attempts to get another session."),
        ("magnetar_metadata_away_seconds_total", COUNTER, "Seconds without an answer of the store or a session."),
        ("magnetar_bundles_owned", GAUGE, "Bundles that the broker owns."),
        ("magnetar_bundles_acquired_total", COUNTER, "Bundles that the broker acquired."),
        ("magnetar_bundles_lost_total", COUNTER, "Bundles that another broker took."),
        ("magnetar_bundles_validation_seconds", GAUGE, "Duration of the last validation of all bundles."),
        ("magnetar_bundles_taken_over_total", COUNTER, "Bundles that the broker acquired after another broker."),
        ("magnetar_redirects_total", COUNTER, "Lookups and REST requests redirected to another broker."),
        ("magnetar_peer_calls_total", COUNTER, "Calls to other brokers, by outcome."),
    ),
    *_rows(
        "Namespaces",
        ("namespace",),
        ("pulsar_topics_count", GAUGE, "Topics in memory or with a backlog, by namespace."),
    ),
    *_rows(
        "Topics",
        _TOPIC,
        ("pulsar_subscriptions_count", GAUGE, "Subscriptions of the topic."),
        ("pulsar_producers_count", GAUGE, "Connected producers."),
        ("pulsar_consumers_count", GAUGE, "Connected consumers."),
        ("pulsar_rate_in", GAUGE, "Messages per second from producers."),
        ("pulsar_rate_out", GAUGE, "Messages per second to consumers."),
        ("pulsar_throughput_in", GAUGE, "Bytes per second from producers."),
        ("pulsar_throughput_out", GAUGE, "Bytes per second to consumers."),
        ("pulsar_in_messages_total", COUNTER, "Messages from producers."),
        ("pulsar_in_bytes_total", COUNTER, "Bytes from producers."),
        ("pulsar_average_msg_size", GAUGE, "Mean bytes of a message."),
        ("pulsar_storage_size", GAUGE, "Stored bytes."),
        ("pulsar_storage_logical_size", GAUGE, "Stored bytes without replicas."),
        (
            "pulsar_storage_backlog_size",
            GAUGE,
            "Bytes from the oldest unacknowledged entry on.",
        ),
        ("pulsar_storage_backlog_age_seconds", GAUGE, "Age of the oldest unacknowledged message; 0 without one."),
        ("pulsar_storage_offloaded_size", GAUGE, "Always 0: nothing is offloaded."),
        ("pulsar_storage_backlog_quota_limit", GAUGE, "Always -1: backlog quotas are not supported."),
        ("pulsar_storage_write_rate", GAUGE, "Entries per second that were written."),
        ("pulsar_storage_read_rate", GAUGE, "Entries per second that were delivered."),
        ("pulsar_msg_backlog", GAUGE, "Entries that subscriptions have not acknowledged, as Pulsar counts."),
    ),
    *_buckets("pulsar_storage_write_latency", _TOPIC, _LATENCY_BUCKETS, "Entries written", "milliseconds"),
    *_buckets("pulsar_storage_ledger_write_latency", _TOPIC, _LATENCY_BUCKETS, "Ledger writes", "milliseconds"),
    *_buckets("pulsar_add_entry_latency", _TOPIC, _LATENCY_BUCKETS, "Entries added", "milliseconds"),
    *_buckets("pulsar_entry_size", _TOPIC, _SIZE_BUCKETS, "Entries written", "bytes, the mean of each write"),
    *_rows(
        "Subscriptions",
        _SUBSCRIPTION,
        ("pulsar_subscription_back_log", GAUGE, "Entries that are not acknowledged, as Pulsar counts."),
        ("pulsar_subscription_back_log_no_delayed", GAUGE, "The same without delayed ones."),
        ("pulsar_subscription_delayed", GAUGE, "Entries with a delayed delivery."),
        ("pulsar_subscription_unacked_messages", GAUGE, "Messages that consumers have and did not acknowledge."),
        ("pulsar_subscription_blocked_on_unacked_messages", GAUGE, "1 while a consumer has too many of them."),
        ("pulsar_subscription_consumers_count", GAUGE, "Connected consumers."),
        ("pulsar_subscription_msg_rate_out", GAUGE, "Messages per second to consumers."),
        ("pulsar_subscription_msg_throughput_out", GAUGE, "Bytes per second to consumers."),
        ("pulsar_out_messages_total", COUNTER, "Messages to consumers."),
        ("pulsar_out_bytes_total", COUNTER, "Bytes to consumers."),
        ("magnetar_subscription_lag_messages", GAUGE, "Messages that are not acknowledged."),
        ("magnetar_subscription_lag_seconds", GAUGE, "Age of the oldest unacknowledged message; 0 without one."),
    ),
    *_rows(
        "Scalable topics",
        _WHOLE,
        ("pulsar_scalable_topic_active_segments", GAUGE, "Active segments."),
        ("pulsar_scalable_topic_sealed_segments", GAUGE, "Sealed segments that are not pruned yet."),
        ("pulsar_scalable_topic_layout_epoch", GAUGE, "Grows with every change of the layout."),
        ("pulsar_scalable_topic_controller_leader", GAUGE, "1 on the broker that leads the topic, 0 elsewhere."),
        ("pulsar_scalable_topic_splits_total", COUNTER, "Splits that this broker finished as leader."),
        ("pulsar_scalable_topic_merges_total", COUNTER, "Merges that this broker finished as leader."),
        ("pulsar_scalable_topic_auto_splits_total", COUNTER, "Automatic splits that this broker decided as leader."),
        ("pulsar_scalable_topic_auto_merges_total", COUNTER, "Automatic merges that this broker decided as leader."),
        (
            "pulsar_scalable_topic_split_suppressed_max_segments_total",
            COUNTER,
            "Evaluations in which the maximum number of segments prevented a split.",
        ),
        (
            "pulsar_scalable_topic_merge_suppressed_max_depth_total",
            COUNTER,
            "Evaluations in which the maximum depth of the layout prevented a merge.",
        ),
        ("pulsar_scalable_topic_dag_depth", GAUGE, "The most merges on one path of the layout."),
        ("pulsar_scalable_topic_rate_in", GAUGE, "Messages per second from producers, all segments of this broker."),
        ("pulsar_scalable_topic_rate_out", GAUGE, "Messages per second to consumers, all segments of this broker."),
        ("pulsar_scalable_topic_throughput_in", GAUGE, "Bytes per second from producers, all segments of this broker."),
        ("pulsar_scalable_topic_throughput_out", GAUGE, "Bytes per second to consumers, all segments of this broker."),
        ("pulsar_scalable_topic_in_messages_total", COUNTER, "Messages from producers, all segments of this broker."),
        ("pulsar_scalable_topic_in_bytes_total", COUNTER, "Bytes from producers, all segments of this broker."),
        ("pulsar_scalable_topic_storage_size", GAUGE, "Stored bytes of segments that this broker shows."),
    ),
    *_rows(
        "Scalable topics",
        (*_WHOLE, "subscription"),
        ("magnetar_scalable_subscription_lag_messages", GAUGE, "Unacknowledged messages, all segments of this broker."),
        ("magnetar_scalable_subscription_lag_seconds", GAUGE, "Age of the oldest of them; 0 without one."),
        ("pulsar_subscription_wanted_consumers", GAUGE, "Consumers that would have work, as the leader last saw it."),
        (
            "magnetar_scalable_subscription_waiting_segments",
            GAUGE,
            "Segments that wait for their parents.",
        ),
    ),
    *_rows(
        "Scalable topics",
        (*_WHOLE, "segment"),
        ("pulsar_segment_rate_in", GAUGE, "Messages per second from producers, as the leader last measured it."),
        ("pulsar_segment_rate_out", GAUGE, "Messages per second to consumers, as the leader last measured it."),
        ("pulsar_segment_throughput_in", GAUGE, "Bytes per second from producers, as the leader last measured it."),
        ("pulsar_segment_throughput_out", GAUGE, "Bytes per second to consumers, as the leader last measured it."),
        ("pulsar_segment_key_share_ratio", GAUGE, "Share of messages in the heaviest 64th of the hash range."),
        ("pulsar_segment_hot_key_share_ratio", GAUGE, "Share of messages of the heaviest hash; 0 if none is heavy."),
    ),
    *_rows(
        "Scalable topics",
        (*_WHOLE, "kind", "taken", "reason"),
        ("magnetar_scalable_topic_decisions_total", COUNTER, "Automatic decisions of this broker as leader."),
    ),
    *_rows(
        "Holds",
        _HOLD,
        ("magnetar_hold_lag_messages", GAUGE, "Messages that the reader of the hold has not read."),
        ("magnetar_hold_lag_bytes", GAUGE, "Their stored bytes."),
        ("magnetar_hold_lag_seconds", GAUGE, "Age of the oldest of them; 0 without one."),
        ("magnetar_hold_expires_seconds", GAUGE, "Seconds until the hold expires."),
        ("magnetar_hold_warned", GAUGE, "1 when the end of the hold was announced."),
        ("magnetar_hold_expired", GAUGE, "1 when the hold has expired."),
    ),
    *_rows(
        "Holds",
        (),
        ("magnetar_hold_warnings_total", COUNTER, "Ends of holds that this broker announced."),
        ("magnetar_hold_expirations_total", COUNTER, "Holds that this broker let expire."),
    ),
    *_rows(
        "Staged publishing",
        (),
        ("magnetar_stages_begun_total", COUNTER, "Stages that were begun."),
        ("magnetar_stage_batches_committed_total", COUNTER, "Batches that were committed."),
        ("magnetar_stage_messages_published_total", COUNTER, "Messages that were published from stages."),
        ("magnetar_sinks_waiting", GAUGE, "Sinks that failed to publish and try again."),
    ),
    *_rows(
        "Storage",
        (),
        ("magnetar_journal_batches_total", COUNTER, "Group commits of the journal."),
        ("magnetar_journal_syncs_total", COUNTER, "Calls of fdatasync."),
        ("magnetar_journal_sync_seconds_total", COUNTER, "Seconds spent in fdatasync."),
        ("magnetar_journal_entries_total", COUNTER, "Entries that were written."),
        ("magnetar_journal_bytes_total", COUNTER, "Bytes that were written."),
        ("magnetar_journal_pending_bytes", GAUGE, "Bytes that wait for the journal."),
        ("magnetar_journal_segments", GAUGE, "Files of the journal."),
        ("magnetar_data_free_bytes", GAUGE, "Free bytes of the file system that holds the data directory."),
        ("magnetar_data_floor_bytes", GAUGE, "Free bytes below which no message is stored."),
        ("magnetar_data_writable", GAUGE, "0 when messages are refused because the disk is almost full."),
    ),
    *_rows(
        "Process",
        (),
        ("magnetar_event_loop_lag_seconds", GAUGE, "How late the last timer of the event loop was."),
        ("magnetar_event_loop_lag_seconds_max", GAUGE, "The longest such delay of the last minute."),
        ("process_virtual_memory_bytes", GAUGE, "Virtual memory of the broker."),
        ("process_resident_memory_bytes", GAUGE, "Resident memory of the broker."),
        ("process_start_time_seconds", GAUGE, "Start of the process, in seconds since 1970."),
        ("process_cpu_seconds_total", COUNTER, "Processor time, user and system."),
        ("process_open_fds", GAUGE, "Open file descriptors."),
        ("process_max_fds", GAUGE, "Allowed file descriptors."),
    ),
]

FAMILIES = {one.name: one for one in _ALL}
EXTRA_LABELS = {"pulsar_version_info": ("version",), "pulsar_broker_publish_latency": ("quantile",)}
