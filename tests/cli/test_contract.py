"""What every command promises: exit codes, data on one side and words on the other, and errors that help."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from tests.cli.conftest import Run
from tests.servers.standalone import Standalone

NOWHERE = "http://localhost:1"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["topic", "show", "no-such-topic"], 3, "E301"),
        (["subscription", "show", "EXISTS", "nobody"], 3, "E302"),
        (["namespace", "show", "public/nowhere"], 3, "E300"),
        (["tenant", "show", "nobody"], 3, "E300"),
        (["topic", "create", "EXISTS"], 4, "E401"),
        (["topic", "create", "persistent://only/two"], 2, "E201"),
        (["topic", "create", "EXISTS", "--partitions", "0"], 2, "E200"),
        (["topic", "create", "EXISTS", "--partitions", "many"], 2, "many"),
        (["topic", "create"], 2, "TOPIC"),
        (["topic", "list", "-o", "xml"], 2, "xml"),
        (["topic", "list", "--timeout", "0"], 2, "timeout"),
        (["subscription", "seek", "EXISTS", "s", "--to", "whenever"], 2, "earliest, latest"),
        (["subscription", "create", "EXISTS", "s", "--start", "whenever"], 2, "earliest, latest"),
        (["topic", "create", "x", "--property", "novalue"], 2, "name=value"),
        (["api", "GET", "admin/v2/tenants"], 2, "must begin with a slash"),
        (["api", "GET", "/admin/v2/nonsense"], 3, "E300"),
        (["api", "PATCH", "/admin/v2/tenants"], 2, "PATCH"),
        (["api", "POST", "/admin/v2/tenants/x", "--data", "{"], 2, "must be JSON"),
        (["api", "GET", "/admin/v2/persistent/public/default/EXISTS/compaction"], 1, "E102"),
        (["message", "peek", "EXISTS", "-s", "nobody"], 3, "E302"),
    ],
)
def test_every_failure_has_its_exit_code_and_empty_standard_output(
    magnetar: Run, topic: str, arguments: list[str], code: int, said: str
) -> None:
    ran = magnetar(*[one.replace("EXISTS", topic) for one in arguments])
    assert (ran.code, ran.out) == (code, ""), ran.err
    assert said in ran.err
    assert "Traceback" not in ran.err
    parts = [line.split(":")[0].strip() for line in ran.err.splitlines()[-5:]]
    assert parts[-2:] == ["run", "code"], ran.err
    assert {"why", "detail", "usage"} & set(parts), ran.err


def test_missing_broker_is_reported_with_remedy(magnetar: Run) -> None:
    for arguments in (["topic", "list"], ["tenant", "create", "x"], ["api", "GET", "/x"]):
        ran = magnetar("--admin-url", NOWHERE, *arguments)
        assert (ran.code, ran.out) == (1, "")
        assert NOWHERE in ran.err
        assert "run: magnetar standalone" in ran.err
    ran = magnetar("message", "produce", "x", "y", "--url", "pulsar://localhost:1")
    assert ran.code == 1
    assert "pulsar://localhost:1" in ran.err


def test_rest_port_used_as_binary_port_is_reported(magnetar: Run, broker: Standalone) -> None:
    """At once, and as a mistake of the command: with the patience of clients it would take half a minute."""
    url = broker.http.replace("http://", "pulsar://")
    ran = magnetar("message", "produce", "x", "y", "--url", url, "--timeout", "600")
    assert (ran.code, ran.out) == (2, "")
    assert "heard=HTTP" in ran.err
    assert "run: the same command with --url" in ran.err


def test_binary_port_used_as_rest_port_is_reported(magnetar: Run, broker: Standalone) -> None:
    url = broker.url.replace("pulsar://", "http://")
    for arguments in (["tenant", "list"], ["topic", "create", "x"]):
        ran = magnetar(*arguments, "--admin-url", url, "--timeout", "600")
        assert (ran.code, ran.out) == (2, "")
        assert "--admin-url must not name the port of the binary protocol" in ran.err
        assert "run: the same command with --admin-url" in ran.err


def test_url_of_wrong_kind_is_mistake_of_usage(magnetar: Run) -> None:
    assert magnetar("topic", "list", "--admin-url", "pulsar://localhost:6650").code == 2
    assert magnetar("message", "read", "x", "--url", "http://localhost:8080").code == 2
    assert magnetar("message", "read", "x", "--url", "localhost").code == 2


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["topic", "show", "{topic}x"], "{topic}"),
        (["topic", "stats", "persistent://public/default/x{topic}"], "{topic}"),
        (["topic", "delete", "{topic}x", "--yes"], "{topic}"),
        (["subscription", "show", "{topic}", "bilingg"], "billing"),
        (["namespace", "show", "public/defualt"], "public/default"),
        (["namespace", "topics", "pubic/default"], "public/default"),
        (["topic", "list", "public/defalt"], "public/default"),
        (["tenant", "show", "pubilc"], "public"),
        (["topic", "show", "scaled-{topic}"], "topic://public/default/scaled-{topic}"),
        (["topic", "show", "topic://public/default/scaled{topic}"], "topic://public/default/scaled-{topic}"),
        (["topic", "lst"], "topic list"),
        (["topc", "lst"], "topic list"),
        (["topic", "list", "--limt", "3"], "--limit"),
    ],
)
def test_name_that_is_nearly_right_is_told_with_right_one(
    magnetar: Run, topic: str, arguments: list[str], near: str
) -> None:
    magnetar("subscription", "create", topic, "billing")
    magnetar("topic", "create", f"topic://public/default/scaled-{topic}")
    ran = magnetar(*[one.format(topic=topic) for one in arguments])
    assert ran.code in (2, 3)
    assert near.format(topic=topic) in ran.err.replace(f"{topic}x", "").replace(f"x{topic}", "")


def test_global_options_may_stand_before_noun_and_nouns_in_plural(magnetar: Run, topic: str) -> None:
    ran = magnetar("-o", "json", "--timeout=5", "topics", "list")
    assert ran.code == 0
    assert f"persistent://public/default/{topic}" in ran.json


def test_option_wins_over_environment(magnetar: Run, monkeypatch: pytest.MonkeyPatch, broker: Standalone) -> None:
    monkeypatch.setenv("MAGNETAR_ADMIN_URL", NOWHERE)
    monkeypatch.setenv("MAGNETAR_OUTPUT", "json")
    assert magnetar("tenant", "list").code == 1
    ran = magnetar("tenant", "list", "--admin-url", broker.http)
    assert "public" in ran.json
    assert magnetar("tenant", "list", "--admin-url", broker.http, "-o", "jsonl").out.splitlines()[0].startswith('"')


# Pipes and terminals


def test_pipe_gets_plain_aligned_words(shell: Run, topic: str) -> None:
    ran = shell(f"magnetar subscription create {topic} billing; magnetar subscription list {topic} | cat")
    head, row = ran.out.splitlines()
    assert head.split()[:5] == ["SUBSCRIPTION", "TYPE", "CONSUMERS", "LAG", "UNACKED"]
    assert head.index("LAG") + 3 == row.index(" 0", head.index("LAG") - 1) + 2, "numbers end under their heading"
    assert "\x1b" not in ran.out
    assert "─" not in ran.out
    assert not any(line.endswith(" ") for line in ran.out.splitlines())


def test_terminal_gets_table_with_colours(terminal: Callable[..., tuple[int, str]], topic: str) -> None:
    code, seen = terminal("topic", "list")
    assert code == 0
    assert "─" in seen
    assert "\x1b[1m" in seen


@pytest.mark.parametrize("how", ["flag", "environment"])
def test_no_color_is_obeyed_on_terminal(terminal: Callable[..., tuple[int, str]], topic: str, how: str) -> None:
    arguments = ["--no-color"] if how == "flag" else []
    code, seen = terminal("topic", "show", topic, *arguments, env={"NO_COLOR": "1"} if how == "environment" else {})
    assert code == 0
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", seen)


def test_reader_that_leaves_early_is_no_error(shell: Run, broker: Standalone, name: str) -> None:
    broker.admin("PUT", f"persistent/public/default/{name}/partitions", 200)
    ran = shell("set -o pipefail; magnetar topic list --partitions | head -1")
    assert (ran.code, ran.err) == (0, "")
    assert len(ran.out.splitlines()) == 1


def test_help_is_data_and_every_verb_has_example(magnetar: Run) -> None:
    for arguments in ([], ["topic"], ["topic", "create"], ["message", "consume"], ["perf", "roundtrip"], ["api"]):
        ran = magnetar(*arguments, "--help")
        assert ran.code == 0
        assert "Usage: magnetar" in ran.out
        assert ran.err == ""


# Changes


def test_change_prints_steps_on_standard_error_and_json_on_request(magnetar: Run, name: str) -> None:
    ran = magnetar("topic", "create", name)
    assert (ran.code, ran.out) == (0, "")
    assert re.search(rf"create persistent://public/default/{name} ✓ \d+ ms", ran.err)
    ran = magnetar("topic", "unload", name, "-o", "json", "--quiet")
    assert ran.err == ""
    (step,) = ran.json
    assert step["step"] == f"unload persistent://public/default/{name}"
    assert step["done"] is True
    assert step["ms"] >= 0


DRY = [
    ["topic", "create", "new-one"],
    ["topic", "create", "new-one", "--partitions", "3", "-p", "a=b"],
    ["topic", "delete", "EXISTS"],
    ["topic", "terminate", "EXISTS"],
    ["topic", "unload", "EXISTS"],
    ["subscription", "create", "EXISTS", "other"],
    ["subscription", "delete", "EXISTS", "billing"],
    ["subscription", "seek", "EXISTS", "billing", "--to", "latest"],
    ["subscription", "seek", "EXISTS", "billing", "--to", "10m"],
    ["subscription", "skip", "EXISTS", "billing", "1"],
    ["subscription", "clear", "EXISTS", "billing"],
    ["namespace", "create", "public/new-one", "--bundles", "8"],
    ["namespace", "delete", "public/default", "--force"],
    ["tenant", "create", "new-one"],
    ["tenant", "delete", "public", "--force"],
    ["api", "DELETE", "/admin/v2/persistent/public/default/EXISTS"],
    ["api", "POST", "/admin/v2/namespaces/public/default/messageTTL", "--data", "5"],
]


@pytest.mark.parametrize("arguments", DRY, ids=lambda one: " ".join(one))
def test_dry_run_shows_its_plan_and_changes_nothing(
    magnetar: Run, broker: Standalone, topic: str, arguments: list[str]
) -> None:
    magnetar("subscription", "create", topic, "billing", "--start", "earliest")
    before = state(broker, topic)
    ran = magnetar(*[one.replace("EXISTS", topic) for one in arguments], "--dry-run", "-o", "json")
    assert ran.code == 0, ran.err
    assert ran.err == ""
    for planned in ran.json:
        assert planned["method"] in ("PUT", "POST", "DELETE")
        assert planned["path"].startswith("/admin/v2/")
    assert state(broker, topic) == before


def state(broker: Standalone, topic: str) -> object:
    stats = broker.admin("GET", f"persistent/public/default/{topic}/stats")
    return (
        broker.admin("GET", "tenants"),
        broker.admin("GET", "namespaces/public"),
        broker.admin("GET", "namespaces/public/default"),
        broker.admin("GET", "namespaces/public/default/topics"),
        {name: one["msgBacklog"] for name, one in stats["subscriptions"].items()},
        broker.admin("GET", f"persistent/public/default/{topic}/internalStats")["state"],
    )


def test_dry_run_still_says_what_is_not_there(magnetar: Run) -> None:
    for arguments in (
        ["topic", "delete", "nothing"],
        ["namespace", "delete", "public/nothing"],
        ["subscription", "seek", "nothing", "s", "--to", "latest"],
    ):
        assert magnetar(*arguments, "--dry-run").code == 3


@pytest.mark.parametrize(
    "arguments",
    [
        ["topic", "delete", "EXISTS"],
        ["topic", "terminate", "EXISTS"],
        ["subscription", "delete", "EXISTS", "billing"],
        ["subscription", "skip", "EXISTS", "billing", "1"],
        ["subscription", "clear", "EXISTS", "billing"],
        ["namespace", "delete", "public/default"],
        ["tenant", "delete", "public"],
    ],
    ids=lambda one: " ".join(one[:2]),
)
def test_irreversible_change_without_terminal_needs_yes(
    magnetar: Run, broker: Standalone, topic: str, arguments: list[str]
) -> None:
    broker.admin("PUT", f"persistent/public/default/{topic}/subscription/billing")
    before = state(broker, topic)
    ran = magnetar(*[one.replace("EXISTS", topic) for one in arguments])
    assert (ran.code, ran.out) == (2, "")
    assert "--yes" in ran.err
    assert state(broker, topic) == before


def test_terminal_is_asked_for_name(terminal: Callable[..., tuple[int, str]], broker: Standalone, topic: str) -> None:
    full = f"persistent://public/default/{topic}"
    code, seen = terminal("topic", "delete", topic, typed="no")
    assert code == 2
    assert "nothing was changed" in seen
    assert full in broker.admin("GET", "persistent/public/default")
    code, seen = terminal("topic", "delete", topic, typed=full)
    assert code == 0, seen
    assert full not in broker.admin("GET", "persistent/public/default")


def test_no_input_never_asks(terminal: Callable[..., tuple[int, str]], topic: str) -> None:
    code, seen = terminal("topic", "delete", topic, "--no-input")
    assert code == 2
    assert "to continue:" not in seen


# Documents


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (["tenant", "list"], "tenants"),
        (["tenant", "show", "public"], "tenants/public"),
        (["namespace", "list"], "namespaces/public"),
        (["namespace", "show", "public/default"], "namespaces/public/default"),
        (["namespace", "topics", "public/default", "--mode", "persistent"], "namespaces/public/default/topics"),
        (["topic", "list", "--domain", "persistent"], "persistent/public/default"),
        (["topic", "list", "--domain", "scalable"], "scalable/public/default"),
        (["topic", "stats", "EXISTS"], "persistent/public/default/EXISTS/stats"),
        (["topic", "stats", "EXISTS", "--internal"], "persistent/public/default/EXISTS/internalStats"),
        (["api", "GET", "/admin/v2/clusters"], "clusters"),
        (["api", "GET", "/admin/v2/brokers/configuration"], "brokers/configuration"),
    ],
)
def test_json_is_document_that_rest_returns(
    magnetar: Run, broker: Standalone, topic: str, arguments: list[str], path: str
) -> None:
    magnetar("subscription", "create", topic, "billing")
    ran = magnetar(*[one.replace("EXISTS", topic) for one in arguments], "-o", "json")
    wanted = broker.admin("GET", path.replace("EXISTS", topic))
    assert ran.json == wanted
    if isinstance(wanted, list):
        assert magnetar(*[one.replace("EXISTS", topic) for one in arguments], "-o", "jsonl").lines == wanted


def test_parts_of_documents_are_those_of_rest(magnetar: Run, broker: Standalone, topic: str) -> None:
    magnetar("subscription", "create", topic, "billing")
    stats = broker.admin("GET", f"persistent/public/default/{topic}/stats")
    assert magnetar("subscription", "list", topic, "-o", "json").json == stats["subscriptions"]
    assert magnetar("subscription", "show", topic, "billing", "-o", "json").json == stats["subscriptions"]["billing"]
    lines = magnetar("subscription", "list", topic, "-o", "jsonl").lines
    assert lines == [{"subscription": "billing", **stats["subscriptions"]["billing"]}]
    shown = magnetar("topic", "show", topic, "-o", "json").json
    assert (shown["topic"], shown["stats"]) == (f"persistent://public/default/{topic}", stats)
    found = json.loads(broker.ask("GET", f"/lookup/v2/topic/persistent/public/default/{topic}").text)
    assert magnetar("topic", "lookup", topic, "-o", "json").json == shown["broker"] == found
