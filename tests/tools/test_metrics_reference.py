"""docs/METRICS.md says what the table of families says."""

from __future__ import annotations

from pathlib import Path

from magnetar.observe.families import FAMILIES
from tools.metrics_reference import page

PAGE = Path(__file__).parents[2] / "docs" / "METRICS.md"


def test_page_of_metrics_is_fresh() -> None:
    assert PAGE.read_text() == page(), "run make sync"


def test_every_family_has_sentence_and_group() -> None:
    for one in FAMILIES.values():
        assert one.help.endswith("."), one
        assert one.group, one
        assert (one.kind == "counter") == one.name.endswith("_total"), one


# What the dashboards of Pulsar ask for, besides replication, which is not built; of histograms one bucket each.
OF_PULSAR = [
    "pulsar_rate_in",
    "pulsar_rate_out",
    "pulsar_throughput_in",
    "pulsar_throughput_out",
    "pulsar_msg_backlog",
    "pulsar_storage_size",
    "pulsar_storage_backlog_size",
    "pulsar_storage_backlog_quota_limit",
    "pulsar_storage_offloaded_size",
    "pulsar_version_info",
    "pulsar_storage_write_rate",
    "pulsar_storage_read_rate",
    "pulsar_storage_write_latency_le_1",
    "pulsar_entry_size_le_128",
    "pulsar_add_entry_latency_le_1",
    "pulsar_broker_publish_latency",
    "pulsar_topics_count",
    "pulsar_producers_count",
    "pulsar_consumers_count",
    "pulsar_subscriptions_count",
    "pulsar_subscription_back_log",
    "pulsar_subscription_delayed",
    "pulsar_subscription_msg_rate_out",
    "pulsar_subscription_msg_throughput_out",
    "pulsar_subscription_unacked_messages",
    "pulsar_in_messages_total",
    "pulsar_in_bytes_total",
    "pulsar_out_messages_total",
    "process_resident_memory_bytes",
]


def test_metrics_of_pulsar_dashboards_are_there():
    assert [name for name in OF_PULSAR if name not in FAMILIES] == []
