"""The text a scrape gets: Pulsar's names and types, families together, labels escaped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from magnetar.base.errors import AlreadyExists, Misuse
from magnetar.base.limits import METRIC_SAMPLES_PER_TURN
from magnetar.observe.metrics import ENTRY_BYTES, Histogram, Metrics, Sample


def parsed(metrics: Metrics) -> dict[str, tuple[str, list[tuple[dict[str, str], float]]]]:
    families = text_string_to_metric_families(metrics.text())
    return {
        family.name: (family.type, [(dict(one.labels), one.value) for one in family.samples]) for family in families
    }


def topics() -> Iterator[Sample]:
    for name in ("a", 'quo"te\\d\nline'):
        labels = (("namespace", "public/default"), ("topic", name))
        yield "pulsar_rate_in", labels, 1.5
        yield "pulsar_msg_backlog", labels, 3


def test_samples_are_read_back_by_prometheus_parser() -> None:
    metrics = Metrics("standalone")
    metrics.counter("pulsar_broker_lookup_answers").value += 2
    assert metrics.counter("pulsar_broker_lookup_answers").value == 2
    metrics.gauge("pulsar_active_connections").value = 7
    metrics.provide(topics)
    seen = parsed(metrics)
    assert seen["pulsar_broker_lookup_answers"] == ("counter", [({"cluster": "standalone"}, 2)])
    assert seen["pulsar_active_connections"] == ("gauge", [({"cluster": "standalone"}, 7)])
    kind, samples = seen["pulsar_msg_backlog"]
    assert kind == "gauge"
    assert [labels["topic"] for labels, _ in samples] == ["a", 'quo"te\\d\nline']
    assert seen["pulsar_rate_in"][1][0] == (
        {"cluster": "standalone", "namespace": "public/default", "topic": "a"},
        1.5,
    )


def test_family_is_declared_once_and_its_samples_stand_together() -> None:
    metrics = Metrics("c")
    metrics.provide(topics)
    lines = metrics.text().splitlines()
    assert [line for line in lines if line.startswith("# TYPE")] == [
        "# TYPE pulsar_rate_in gauge",
        "# TYPE pulsar_msg_backlog gauge",
    ]
    assert [line.split("{")[0] for line in lines if not line.startswith("#")] == [
        "pulsar_rate_in",
        "pulsar_rate_in",
        "pulsar_msg_backlog",
        "pulsar_msg_backlog",
    ]


def test_histogram_is_written_as_pulsar_writes_it() -> None:
    histogram = Histogram(ENTRY_BYTES)
    for size in (128, 129, 5_000_000):
        histogram.observe(size)
    samples = {name: value for name, _, value in histogram.samples("pulsar_entry_size")}
    assert samples["pulsar_entry_size_le_128"] == 1
    assert samples["pulsar_entry_size_le_512"] == 1
    assert samples["pulsar_entry_size_le_overflow"] == 1
    assert samples["pulsar_entry_size_count"] == 3
    assert samples["pulsar_entry_size_sum"] == 5_000_257
    metrics = Metrics("c")
    metrics.histogram("pulsar_storage_write_latency").observe(0.4)
    assert 'pulsar_storage_write_latency_le_0_5{cluster="c"} 1\n' in metrics.text()


def test_quantile_lies_inside_of_bucket_that_holds_it() -> None:
    histogram = Histogram()
    assert histogram.quantile(0.5) != histogram.quantile(0.5)  # NaN: nothing was counted
    for milliseconds in (0.4, 3.0, 3.0, 30.0, 2000.0):
        histogram.observe(milliseconds)
    assert 1 <= histogram.quantile(0.5) <= 5
    assert 20 <= histogram.quantile(0.75) <= 50
    assert histogram.quantile(0.999) == 1000
    later = histogram.copy()
    later.observe(7.0, 3)
    assert (later.since(histogram).count, later.since(histogram).sum) == (3, 21.0)


def test_labelled_children_are_kept_apart() -> None:
    metrics = Metrics("c")
    metrics.counter("magnetar_refused", code="22").value += 1
    metrics.counter("magnetar_refused", code="11").value += 5
    assert parsed(metrics)["magnetar_refused"][1] == [
        ({"cluster": "c", "code": "22"}, 1),
        ({"cluster": "c", "code": "11"}, 5),
    ]


def test_large_scrape_lets_others_run_meanwhile() -> None:
    metrics = Metrics("c")
    metrics.provide(lambda: (("f", (("n", str(n)),), n) for n in range(3 * METRIC_SAMPLES_PER_TURN)))
    assert [piece for piece in metrics.render() if piece == ""] == [""] * 3


def test_family_of_two_types_or_misnamed_counter_is_refused() -> None:
    metrics = Metrics("c")
    metrics.counter("x")
    with pytest.raises(AlreadyExists):
        metrics.gauge("x")
    with pytest.raises(Misuse):
        metrics.counter("x_total")
    with pytest.raises(Misuse):
        metrics.provide(topics, y="summary")
