"""The real Java client of scalable topics (5.0.0-M1) on our broker: produce, stream, split, merge, join and leave."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

import pytest

from tests.compat.java.conftest import Connect
from tests.compat.java.driver import V5
from tests.servers.standalone import Standalone

pytestmark = [pytest.mark.slow]

PATH = "scalable/public/default"
PATIENCE_MS = 60_000  # for what must come, on a machine that has other things to do
QUIET_MS = 1500  # then nothing more is expected


def full(name: str) -> str:
    return f"topic://public/default/{name}"


def create(broker: Standalone, name: str, segments: int = 1) -> None:
    broker.admin("PUT", f"{PATH}/{name}", numInitialSegments=segments)


def active(broker: Standalone, name: str) -> list[int]:
    segments = broker.admin("GET", f"{PATH}/{name}")["segments"].values()
    return sorted(one["segmentId"] for one in segments if one["state"] == "ACTIVE")


def split(broker: Standalone, name: str, segment: int) -> None:
    broker.admin("POST", f"{PATH}/{name}/split/{segment}")


def merge(broker: Standalone, name: str, *segments: int) -> None:
    broker.admin("POST", f"{PATH}/{name}/merge", segments=",".join(map(str, segments)))


def check(values: list[str], keys: int, count: int) -> None:
    """Every message once, each key's in order."""
    found: dict[str, list[int]] = defaultdict(list)
    for value in values:
        key, number = value.split(":")
        found[key].append(int(number))
    assert {key: found[key] for key in sorted(found)} == {
        key: list(range(len(range(index, count, keys)))) for key, index in sorted((f"k{i}", i) for i in range(keys))
    }


def read(client: V5, name: str, count: int, idle_ms: int = PATIENCE_MS) -> list[str]:
    return client.ask("read", name, count, idle_ms).split()


def read_all(client: V5, name: str, count: int) -> list[str]:
    """What must come, and what comes on top of it."""
    return read(client, name, count) + read(client, name, count, QUIET_MS)


def read_both(one: tuple[V5, str], other: tuple[V5, str], count: int) -> tuple[list[str], list[str]]:
    """So many together: each its share, whichever that is."""
    found: tuple[list[str], list[str]] = ([], [])
    end = time.monotonic() + PATIENCE_MS / 1000
    while sum(map(len, found)) < count and time.monotonic() < end:
        for values, (client, name) in zip(found, (one, other), strict=True):
            values += read(client, name, count, QUIET_MS)
    return found


def test_what_is_produced_is_streamed_in_order_by_key(scalable: Standalone, v5: Connect, name: str) -> None:
    create(scalable, name, 2)
    client = v5()
    client.ask("producer", "p", full(name))
    client.ask("load", "p", 10, 200, 0)
    assert client.ask("wait", "p") == "200"
    client.ask("stream", "s", full(name), "sub", "earliest")
    check(read(client, "s", 200), 10, 200)


def test_use_of_missing_topic_creates_it(v5: Connect, name: str) -> None:
    client = v5()
    client.ask("producer", "p", full(name))
    client.ask("send", "p", "k0", "k0:0")
    client.ask("stream", "s", full(name), "sub", "earliest")
    assert read(client, "s", 1) == ["k0:0"]


def test_split_under_waiting_producer_loses_repeats_and_reorders_nothing(
    scalable: Standalone, v5: Connect, name: str
) -> None:
    create(scalable, name)
    client = v5()
    client.ask("stream", "s", full(name), "sub", "earliest")
    client.ask("producer", "p", full(name), "unbatched")
    client.ask("load", "p", 20, 2000, 0)
    values = read(client, "s", 300)
    split(scalable, name, 0)
    assert active(scalable, name) == [1, 2]
    values += read(client, "s", 700)
    merge(scalable, name, 1, 2)
    assert active(scalable, name) == [3]
    values += read(client, "s", 1000)
    assert client.ask("wait", "p") == "2000"
    check(values, 20, 2000)


def reshape_often(broker: Standalone, name: str, times: int) -> None:
    """Split and merge by turns, as fast as it goes."""
    for turn in range(times):
        ids = [one["segmentId"] for one in by_range(broker, name)]
        if turn % 2:
            merge(broker, name, ids[0], ids[1])
        else:
            split(broker, name, ids[0])


def by_range(broker: Standalone, name: str) -> list[dict[str, Any]]:
    segments = broker.admin("GET", f"{PATH}/{name}")["segments"].values()
    return sorted((one for one in segments if one["state"] == "ACTIVE"), key=lambda one: one["hashRange"]["start"])


@pytest.mark.parametrize("batching", ["unbatched", "batched"])
def test_ten_reshapes_under_waiting_producer_keep_messages_and_order(
    scalable: Standalone, v5: Connect, name: str, batching: str
) -> None:
    create(scalable, name)
    client = v5()
    client.ask("stream", "s", full(name), "sub", "earliest")
    client.ask("producer", "p", full(name), batching)
    client.ask("load", "p", 16, 1600, 0)
    values = read(client, "s", 200)
    reshape_often(scalable, name, 10)
    values += read(client, "s", 1400)
    assert client.ask("wait", "p") == "1600"
    check(values, 16, 1600)


@pytest.mark.parametrize(("every", "seconds"), [(70, 0), (0, 0.3), (0, 0)], ids=["every 70", "by time", "at close"])
def test_late_acknowledgements_get_past_ten_reshapes(
    scalable: Standalone, v5: Connect, name: str, every: int, seconds: float
) -> None:
    """A consumer gets the children of a segment that it has received and not acknowledged (H-F20)."""
    create(scalable, name)
    client = v5()
    client.ask("stream", "s", full(name), "sub", "earliest")
    client.ask("producer", "p", full(name), "unbatched")
    client.ask("load", "p", 16, 800, 0)
    values = client.ask("readlate", "s", 100, PATIENCE_MS, every, seconds).split()
    reshape_often(scalable, name, 10)
    values += client.ask("readlate", "s", 700, PATIENCE_MS, every, seconds).split()
    assert client.ask("wait", "p") == "800"
    check(values, 16, 800)
    client.ask("ack", "s")
    client.ask("close", "s")
    again = v5()
    again.ask("stream", "s2", full(name), "sub", "earliest")
    assert read(again, "s2", 1, QUIET_MS) == []


def test_unload_under_late_acknowledgements_keeps_order(scalable: Standalone, v5: Connect, name: str) -> None:
    """Every message comes, and no message of a key before all older ones came once (H-F20)."""
    create(scalable, name)
    client = v5()
    client.ask("producer", "p", full(name), "unbatched")
    client.ask("load", "p", 8, 200, 0)
    assert client.ask("wait", "p") == "200"
    client.ask("stream", "s", full(name), "sub", "earliest")
    values = client.ask("readlate", "s", 20, PATIENCE_MS, 0, 0).split()
    split(scalable, name, 0)
    client.ask("load", "p", 8, 200, 200)
    assert client.ask("wait", "p") == "200"
    scalable.admin("PUT", "namespaces/public/default/unload")
    while len(set(values)) < 400:
        more = client.ask("readlate", "s", 400, QUIET_MS, 0, 0).split()
        assert more, f"{len(set(values))} of 400 came"
        values += more
    newest: dict[str, int] = defaultdict(lambda: -1)
    for value in values:
        key, number = value.split(":")
        assert int(number) <= newest[key] + 1, f"{value} came behind {newest[key]}"
        newest[key] = max(newest[key], int(number))


def test_of_pipelining_producer_nothing_acknowledged_is_lost_or_comes_twice(
    scalable: Standalone, v5: Connect, name: str
) -> None:
    """Its order is the client's own to keep: what a seal refused is sent again behind what was sent after it."""
    create(scalable, name)
    client = v5()
    client.ask("stream", "s", full(name), "sub", "earliest")
    client.ask("producer", "p", full(name), "unbatched")
    client.ask("pipeline", "p", 16, 8000, 0)
    reshape_often(scalable, name, 4)
    sent = client.ask("wait", "p")
    assert sent == "8000" or "not found in active segments" in sent  # an error that the client makes by itself
    values = read_all(client, "s", 8000) if sent == "8000" else read(client, "s", 16_000, QUIET_MS)
    assert len(values) == len(set(values))
    if sent == "8000":
        assert len(values) == 8000


def test_new_subscription_at_end_gets_later_messages_over_split(scalable: Standalone, v5: Connect, name: str) -> None:
    create(scalable, name)
    client = v5()
    client.ask("producer", "p", full(name))
    client.ask("send", "p", "old", "old:0")
    client.ask("stream", "s", full(name), "sub", "latest")
    client.ask("load", "p", 8, 80, 0)
    assert client.ask("wait", "p") == "80"
    split(scalable, name, 0)
    client.ask("load", "p", 8, 80, 80)
    assert client.ask("wait", "p") == "80"
    check(read_all(client, "s", 160), 8, 160)


def test_two_stream_consumers_of_one_client_share_segments(scalable: Standalone, v5: Connect, name: str) -> None:
    create(scalable, name, 2)
    client = v5()
    client.ask("stream", "a", full(name), "sub", "earliest")
    client.ask("stream", "b", full(name), "sub", "earliest")
    client.ask("producer", "p", full(name))
    client.ask("load", "p", 8, 80, 0)
    assert client.ask("wait", "p") == "80"
    first, second = read_both((client, "a"), (client, "b"), 80)
    assert first
    assert second
    check(first + second, 8, 80)


def test_late_stream_reads_three_generations_in_order(scalable: Standalone, v5: Connect, name: str) -> None:
    create(scalable, name)
    client = v5()
    client.ask("producer", "p", full(name))
    for turn, reshape in enumerate((lambda: split(scalable, name, 0), lambda: merge(scalable, name, 1, 2), None)):
        client.ask("load", "p", 16, 320, turn * 320)
        assert client.ask("wait", "p") == "320"
        if reshape is not None:
            reshape()
    client.ask("stream", "s", full(name), "late", "earliest")
    check(read(client, "s", 960), 16, 960)


def test_subscription_without_consumers_is_inherited_by_children(scalable: Standalone, v5: Connect, name: str) -> None:
    """What the reference loses: pulsar's stream subscriptions are forgotten with their last session."""
    create(scalable, name)
    client = v5()
    client.ask("stream", "s", full(name), "sub", "latest")
    client.ask("close", "s")
    client.ask("producer", "p", full(name))
    client.ask("load", "p", 8, 80, 0)
    client.ask("wait", "p")
    split(scalable, name, 0)
    client.ask("load", "p", 8, 80, 80)
    assert client.ask("wait", "p") == "80"
    again = v5()
    again.ask("stream", "s2", full(name), "sub", "latest")
    check(read(again, "s2", 160), 8, 160)


def test_second_stream_consumer_shares_and_returns_segments_when_closed(
    scalable: Standalone, v5: Connect, name: str
) -> None:
    """What the reference keeps for ever: segments of a consumer that closed while its client lives."""
    create(scalable, name, 2)
    one, other = v5(), v5()
    one.ask("stream", "a", full(name), "sub", "earliest")
    other.ask("stream", "b", full(name), "sub", "earliest")
    one.ask("producer", "p", full(name))
    one.ask("load", "p", 8, 80, 0)
    assert one.ask("wait", "p") == "80"
    first, second = read_both((one, "a"), (other, "b"), 80)
    assert first
    assert second
    check(first + second, 8, 80)
    other.ask("close", "b")
    one.ask("load", "p", 8, 80, 80)
    assert one.ask("wait", "p") == "80"
    both = read(one, "a", 80)
    assert len(both) == 80


def test_segments_of_killed_client_go_to_others_after_grace(scalable: Standalone, v5: Connect, name: str) -> None:
    create(scalable, name, 2)
    one, other = v5(), v5()
    one.ask("stream", "a", full(name), "sub", "earliest")
    other.ask("stream", "b", full(name), "sub", "earliest")
    other.__exit__(None, None, None)
    one.ask("producer", "p", full(name))
    one.ask("load", "p", 8, 80, 0)
    one.ask("wait", "p")
    check(read(one, "a", 80), 8, 80)


def test_deduplication_crosses_split(scalable: Standalone, v5: Connect, name: str) -> None:
    """What the reference stores again: sequence ids that a parent knows, sent to its children."""
    create(scalable, name)
    client = v5()
    client.ask("producer", "p", full(name), "unbatched", "sequence=-1")
    client.ask("load", "p", 8, 80, 0)
    assert client.ask("wait", "p") == "80"
    client.ask("close", "p")
    split(scalable, name, 0)
    client.ask("producer", "p", full(name), "unbatched", "sequence=-1")  # numbers from 0 again, as after a crash
    client.ask("load", "p", 8, 80, 0)
    assert client.ask("wait", "p") == "80"
    client.ask("close", "p")
    client.ask("producer", "p", full(name), "unbatched")  # numbers from what the broker tells
    client.ask("load", "p", 8, 80, 80)
    assert client.ask("wait", "p") == "80"
    client.ask("stream", "s", full(name), "sub", "earliest")
    check(read_all(client, "s", 160), 8, 160)


def test_deleted_topic_is_gone_and_its_name_starts_anew(scalable: Standalone, v5: Connect, name: str) -> None:
    create(scalable, name)
    client = v5()
    client.ask("producer", "p", full(name))
    client.ask("send", "p", "k0", "k0:0")
    split(scalable, name, 0)
    client.ask("close", "p")
    scalable.admin("DELETE", f"{PATH}/{name}", force=True)
    assert full(name) not in scalable.admin("GET", PATH)
    create(scalable, name)
    again = v5()
    again.ask("producer", "p", full(name))
    again.ask("send", "p", "k1", "k1:0")
    again.ask("stream", "s", full(name), "sub", "earliest")
    assert read_all(again, "s", 1) == ["k1:0"]


def test_watch_continues_after_broker_restart(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    with Standalone(tmp_path_factory.mktemp("killed")) as broker:
        create(broker, name)
        folder = tmp_path_factory.mktemp("client")
        with V5(broker.url, folder) as client:
            client.ask("producer", "p", full(name))
            client.ask("send", "p", "k0", "k0:0")
            broker.restart(kill=True)
            split(broker, name, 0)
            client.ask("send", "p", "k0", "k0:1")
            client.ask("stream", "s", full(name), "sub", "earliest")
            assert read(client, "s", 2) == ["k0:0", "k0:1"]
