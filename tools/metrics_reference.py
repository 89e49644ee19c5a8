"""The reference page of the metrics, docs/METRICS.md, rendered from the table of metric families.

`make sync` writes the page and a test compares it. Edit the table, not the page.
"""

from __future__ import annotations

from magnetar.observe.families import EXTRA_LABELS, FAMILIES, Family

HEAD = """# Metrics

`GET /metrics` on the web port answers in Prometheus' text format. This page is generated from the table that HELP and
TYPE come from (`src/magnetar/observe/families.py`). Every sample has the label `cluster` beside those of the tables.
`deploy/grafana/magnetar.json` is a dashboard for Grafana; a test compares it with a live broker.

- **Names.** Families that begin with `pulsar_` have Pulsar's names and labels, so that its dashboards work. `back_log`
  and `msg_backlog` count entries, as Pulsar does: a batch is one. `magnetar_subscription_lag_messages` counts messages.
- **Topics without clients.** A topic leaves memory a minute after its last client. If a subscription has a backlog
  then, its series of backlog, lag, size and clients stay, and the age of the oldest message goes on. At most 50,000
  such topics are shown;
  `magnetar_topics_unloaded_dropped_total` counts those beyond. After a start the broker reads the records of all topics
  that it owns in the background, at most 1,000 records and 50 loads in five seconds, and shows the backlogs it finds.
  A scrape never loads a topic.
- **Counters** go on when a topic is loaded again (the last 10,000 topics without a backlog, and all with one). They
  begin at 0 when the broker starts; `magnetar topic stats` says since when.
- **Scalable topics.** Each segment is a topic (`segment://...`). Families that begin with `pulsar_scalable_topic_` and
  `magnetar_scalable_subscription_` are of the whole topic (`topic="topic://..."`). Sums are over the segments that this
  broker has: use `sum by (topic)` in a cluster. Segment counts, epochs and waiting segments are at most 30 seconds old.
- **Histograms.** Pulsar's (`..._le_5`) are gauges of the last interval of at least ten seconds, and each bucket counts
  only what the one below does not, as in Pulsar. `magnetar_storage_write_latency_seconds` is a Prometheus histogram.
- **Lag** is measured when `/metrics` is read, for two seconds at most; subscriptions beyond that show their last value.
"""


def page() -> str:
    groups: dict[str, list[Family]] = {}
    for one in FAMILIES.values():
        groups.setdefault(one.group, []).append(one)
    parts = [HEAD]
    for group, families in groups.items():
        parts.append(f"\n## {group}\n\n| family | type | labels | what it is |\n|---|---|---|---|\n")
        parts += [_row(one) for one in families]
    return "".join(parts)


def _row(one: Family) -> str:
    labels = ", ".join((*one.labels, *EXTRA_LABELS.get(one.name, ())))
    return f"| `{one.name}` | {one.kind} | {labels or '-'} | {one.help} |\n"
