"""What Pulsar's own tests assert of its Java client of scalable topics, on our broker: each test names its rows.

The rows are in docs/COMPATIBILITY.md, with those that other tests show and those that this client or one broker cannot.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.compat.java.conftest import Connect
from tests.compat.java.driver import V5, Refusal
from tests.compat.java.test_v5 import active, check, create, full, merge, read, split
from tests.servers.standalone import Standalone

pytestmark = [pytest.mark.slow]

TYPES = ("bytes", "string", "bool", "int8", "int16", "int32", "int64", "float32", "float64", "json", "avro")


@pytest.fixture(scope="module")
def client(scalable: Standalone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[V5]:
    """One for all of them: a JVM takes its time to start. What they make has other topics."""
    with V5(scalable.url, tmp_path_factory.mktemp("rows")) as made:
        yield made


def test_p02_p03_flush_completes_every_send_with_its_id(scalable: Standalone, client: V5, name: str) -> None:
    create(scalable, name, 4)
    client.ask("producer", "p", full(name))
    assert client.ask("flushed", "p", 200) == "200 200"
    client.ask("stream", "s", full(name), "sub", "earliest")
    check(read(client, "s", 200), 5, 200)


def test_p07_p08_event_time_and_properties_arrive_unchanged(client: V5, name: str) -> None:
    assert client.ask("annotated", full(name)) == "1234 {one=1, three=3, two=2} false 0"


def test_p11_p12_p13_access_modes_hold_for_all_segments(scalable: Standalone, v5: Connect, name: str) -> None:
    create(scalable, name, 4)
    one, other = v5(), v5()
    one.ask("access", "a", full(name), "SHARED")
    other.ask("access", "b", full(name), "SHARED")
    for client, producer in ((one, "a"), (other, "b")):
        for key in range(8):
            client.ask("send", producer, f"{producer}{key}", "x")
        client.ask("close", producer)
    one.ask("access", "first", full(name), "EXCLUSIVE")
    with pytest.raises(Refusal):
        other.ask("access", "second", full(name), "EXCLUSIVE")
    other.ask("pend", "third", full(name), "WAIT_FOR_EXCLUSIVE")
    for key in range(8):
        one.ask("send", "first", f"k{key}", "x")
    assert other.ask("settled", "third") == "no"
    one.ask("close", "first")
    while other.ask("settled", "third") == "no":
        pass
    for key in range(8):
        other.ask("send", "third", f"k{key}", "x")


def test_exclusive_producer_without_name_has_all_segments_and_their_children(
    scalable: Standalone, v5: Connect, name: str
) -> None:
    create(scalable, name, 4)
    one, other = v5(), v5()
    one.ask("access", "unnamed", full(name), "EXCLUSIVE")
    with pytest.raises(Refusal):
        other.ask("access", "unnamed", full(name), "EXCLUSIVE")
    for key in range(8):
        one.ask("send", "unnamed", f"k{key}", "x")
    split(scalable, name, 0)
    for key in range(8):
        one.ask("send", "unnamed", f"k{key}", "x")


@pytest.mark.parametrize(("delay_ms", "messages"), [(1, 1000), (50, 3), (1, 1)])
def test_p14_p16_p17_whatever_batching_all_arrive_in_order(
    scalable: Standalone, client: V5, name: str, delay_ms: int, messages: int
) -> None:
    create(scalable, name, 2)
    client.ask("batching", "p", full(name), delay_ms, messages)
    client.ask("pipeline", "p", 10, 300, 0)
    assert client.ask("wait", "p") == "300"
    client.ask("stream", "s", full(name), "sub", "earliest")
    check(read(client, "s", 300), 10, 300)


@pytest.mark.parametrize("codec", ["NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY"])
def test_p18_every_codec_comes_through(client: V5, name: str, codec: str) -> None:
    assert client.ask("compressed", codec, full(name)) == "true"


def test_p21_p22_p23_sequence_ids_are_counted_shifted_and_kept(client: V5, name: str) -> None:
    client.ask("producer", "p", full(name), "unbatched")
    assert client.ask("number", "p") == "-1"
    for number in range(5):
        client.ask("send", "p", "k", str(number))
    assert client.ask("number", "p") == "4"
    client.ask("producer", "q", full(name), "unbatched", "sequence=99")
    client.ask("send", "q", "k", "shifted")
    assert client.ask("number", "q") == "100"
    client.ask("numbered", "q", 500, "k", "said")
    client.ask("stream", "s", full(name), "sub", "earliest")
    told = [client.ask("detail", "s").split() for _ in range(7)]
    assert [(value, int(number)) for value, number, _ in told] == [
        *[(str(number), number) for number in range(5)],
        ("shifted", 100),
        ("said", 500),
    ]


def test_p35_p36_every_schema_works_with_one_history_for_all_segments(
    scalable: Standalone, client: V5, name: str
) -> None:
    for kind in TYPES:
        create(scalable, f"{name}-{kind}", 2)
        assert client.ask("typed", kind, full(f"{name}-{kind}")) == "true", kind
    create(scalable, f"{name}-more", 4)
    client.ask("producer", "p", full(f"{name}-more"))
    client.ask("load", "p", 20, 40, 0)
    assert client.ask("wait", "p") == "40"
    split(scalable, f"{name}-more", 0)
    client.ask("load", "p", 20, 40, 40)
    assert client.ask("wait", "p") == "40"
    schema = scalable.admin("GET", f"schemas/public/default/{name}-more/schema")
    assert (schema["type"], schema["version"]) == ("STRING", 0)


def test_s02_s03_batch_has_no_null_and_carries_names(scalable: Standalone, client: V5, name: str) -> None:
    create(scalable, name)
    client.ask("stream", "s", full(name), "sub", "earliest")
    assert client.ask("about", "s") == f"{full(name)} sub s"
    assert client.ask("receive", "s", 200) == ""
    client.ask("producer", "p", full(name), "unbatched")
    for number in range(5):
        client.ask("send", "p", "k", str(number))
    found: list[str] = []
    while len(found) < 5:
        batch = client.ask("multi", "s", 3).split()
        assert len(batch) <= 3
        found += batch
    assert found == [str(number) for number in range(5)]


def test_s01_s04_s05_acknowledged_messages_of_segments_are_not_redelivered(
    scalable: Standalone, client: V5, name: str
) -> None:
    create(scalable, name, 4)
    client.ask("producer", "p", full(name))
    client.ask("load", "p", 20, 100, 0)
    assert client.ask("wait", "p") == "100"
    client.ask("stream", "s", full(name), "sub", "earliest")
    check(client.ask("asyncread", "s", 100).split(), 20, 100)
    client.ask("close", "s")
    client.ask("stream", "t", full(name), "sub", "earliest")
    assert client.ask("receive", "t", 1500) == ""


def test_s06_only_what_follows_acknowledged_one_comes_again(scalable: Standalone, client: V5, name: str) -> None:
    create(scalable, name)
    client.ask("producer", "p", full(name), "unbatched")
    for number in range(10):
        client.ask("send", "p", "k", str(number))
    client.ask("stream", "s", full(name), "sub", "earliest")
    taken = [client.ask("receive", "s", 10_000).split()[1] for _ in range(4)]
    client.ask("ack", "s")
    taken += [client.ask("receive", "s", 10_000).split()[1] for _ in range(3)]
    assert taken == [str(number) for number in range(7)]
    client.ask("close", "s")
    client.ask("stream", "t", full(name), "sub", "earliest")
    assert read(client, "t", 6) == [str(number) for number in range(4, 10)]


def test_s08_s09_s10_s26_generations_are_read_once_in_order(scalable: Standalone, client: V5, name: str) -> None:
    create(scalable, name)
    client.ask("producer", "p", full(name))
    client.ask("load", "p", 10, 100, 0)
    assert client.ask("wait", "p") == "100"
    split(scalable, name, 0)
    merge(scalable, name, 1, 2)  # 1 and 2 stay empty
    client.ask("load", "p", 10, 100, 100)
    assert client.ask("wait", "p") == "100"
    client.ask("stream", "s", full(name), "sub", "earliest")
    check(read(client, "s", 200), 10, 200)
    client.ask("close", "s")
    client.ask("stream", "t", full(name), "sub", "earliest")
    assert client.ask("receive", "t", 1500) == ""
    assert active(scalable, name) == [3]


def test_l02_nothing_is_made_where_namespace_does_not_allow_it(scalable: Standalone, client: V5, name: str) -> None:
    scalable.admin("PUT", f"namespaces/public/{name}")
    scalable.admin("POST", f"namespaces/public/{name}/autoTopicCreation", {"allowAutoTopicCreation": False})
    topic = f"topic://public/{name}/missing"
    with pytest.raises(Refusal, match="not found"):
        client.ask("producer", "p", topic)
    assert scalable.admin("GET", f"scalable/public/{name}") == []


def test_l04_subscription_made_before_anything_was_produced_keeps_it_all(
    scalable: Standalone, client: V5, name: str
) -> None:
    create(scalable, name, 2)
    scalable.admin("PUT", f"scalable/public/default/{name}/subscriptions/sub", type="STREAM")
    client.ask("producer", "p", full(name))
    client.ask("load", "p", 10, 50, 0)
    assert client.ask("wait", "p") == "50"
    client.ask("stream", "s", full(name), "sub", "latest")  # it is there: where it starts is said already
    check(read(client, "s", 50), 10, 50)


def test_l16_topic_that_is_not_kept_is_refused(client: V5, name: str) -> None:
    with pytest.raises(Refusal):
        client.ask("producer", "p", f"non-persistent://public/default/{name}")


def test_s14_s15_p28_p29_clients_survive_broker_restart_and_see_next_split(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    with Standalone(tmp_path_factory.mktemp("killed")) as broker:
        create(broker, name, 2)
        with V5(broker.url, tmp_path_factory.mktemp("client")) as client:
            client.ask("stream", "s", full(name), "sub", "earliest")
            client.ask("producer", "p", full(name), "unbatched")
            client.ask("load", "p", 10, 40, 0)
            assert client.ask("wait", "p") == "40"
            found = read(client, "s", 40, 30_000)
            broker.restart(kill=True)
            client.ask("load", "p", 10, 40, 40)
            assert client.ask("wait", "p") == "40"
            split(broker, name, 0)
            client.ask("load", "p", 10, 40, 80)
            assert client.ask("wait", "p") == "40"
            while len(set(found)) < 120:
                more = read(client, "s", 120 - len(set(found)), 30_000)
                assert more, sorted(set(found))
                found += more
        check(list(dict.fromkeys(found)), 10, 120)
