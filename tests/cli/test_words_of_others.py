"""Words that people bring from other tools: aliases, a dash, keys in lines, a subscription as the second word."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.servers.standalone import Standalone


def test_aliases_mean_verbs_and_nouns_of_ours(magnetar: Run, topic: str) -> None:
    assert topic in magnetar("topic", "ls").out
    assert f"persistent://public/default/{topic}" in magnetar("topic", "describe", topic).out
    assert magnetar("sub", "create", topic, "billing").code == 0
    assert "billing" in magnetar("sub", "ls", topic).out
    assert magnetar("ns", "ls").out == magnetar("namespace", "list").out


def test_lines_have_keys_and_headers_of_their_own(shell: Run, magnetar: Run, topic: str, tmp_path: Path) -> None:
    piped = "printf 'a=1|ada:x:y\\n|bob:z\\n'"
    ran = shell(f"{piped} | magnetar message produce {topic} - --key-separator : --header-separator '|' -p all=yes")
    assert ran.code == 0, ran.err
    (tmp_path / "lines").write_text("eve\t1\nada\t2")
    assert magnetar("message", "produce", topic, "--lines", str(tmp_path / "lines"), "--key-separator", "\\t").code == 0
    found = magnetar("message", "read", topic, "-o", "jsonl").lines
    assert [(one["key"], one["data"]) for one in found] == [("ada", "x:y"), ("bob", "z"), ("eve", "1"), ("ada", "2")]
    assert [one["properties"] for one in found] == [{"all": "yes", "a": "1"}, {"all": "yes"}, {}, {}]


def test_line_without_its_separator_ends_with_its_number(shell: Run, topic: str) -> None:
    ran = shell(f"printf 'a:1\\nb\\n' | magnetar message produce {topic} --key-separator :")
    assert ran.code == 2
    assert "line 2 has no ':'" in ran.err


def test_subscription_may_be_second_word(magnetar: Run, topic: str) -> None:
    magnetar("message", "produce", topic, "one")
    assert magnetar("message", "consume", topic, "billing").out == "one\n"
    assert magnetar("message", "consume", topic, "billing", "-s", "other").code == 2
    assert "a subscription is required" in magnetar("message", "consume", topic).err
    magnetar("message", "produce", topic, "two")
    assert magnetar("message", "peek", topic, "billing").out == "two\n"
    assert magnetar("message", "peek", topic, "-s", "billing").out == "two\n"
    assert "magnetar message peek TOPIC SUBSCRIPTION" in magnetar("message", "peek", topic).err


def test_peek_leaves_out_acknowledged_messages_of_batch(shell: Run, magnetar: Run, topic: str) -> None:
    magnetar("sub", "create", topic, "billing")
    assert shell(f"printf 'one\\ntwo\\nthree\\n' | magnetar message produce {topic} -").code == 0
    magnetar("message", "consume", topic, "billing", "-n", "2")
    assert magnetar("message", "peek", topic, "billing", "-n", "9").out == "three\n"


def test_delayed_message_comes_after_its_delay(magnetar: Run, topic: str) -> None:
    magnetar("sub", "create", topic, "billing")
    assert magnetar("message", "produce", topic, "later", "--delay", "1.5").code == 0
    assert magnetar("message", "consume", topic, "billing", "--wait", "0.2").code == 6
    assert magnetar("message", "consume", topic, "billing", "--wait", "10").out == "later\n"


def test_subscription_of_scalable_topic_has_type_that_is_named(magnetar: Run, name: str, topic: str) -> None:
    full = f"topic://public/default/{name}"
    magnetar("topic", "create", full)
    assert magnetar("sub", "create", full, "workers", "--type", "queue").code == 0
    assert magnetar("sub", "create", full, "billing").code == 0
    found = {one["subscription"]: one["type"] for one in magnetar("sub", "list", full, "-o", "jsonl").lines}
    assert found == {"billing": "STREAM", "workers": "QUEUE"}
    assert "the first consumer decides" in magnetar("sub", "create", topic, "x", "--type", "queue").err


def test_option_that_confirms_is_never_guessed(magnetar: Run, topic: str) -> None:
    ran = magnetar("topic", "delete", topic, "--typo", "x")
    assert ran.code == 2
    assert "--yes" not in ran.err
    assert "--force" not in ran.err
    ran = magnetar("topic", "set", topic, "--retention-time", "60")
    assert "--retention-minutes 60" in ran.err


def test_retention_that_holds_is_shown(magnetar: Run, name: str, topic: str) -> None:
    full = f"topic://public/default/{name}"
    magnetar("topic", "create", full)
    assert "retention      1,440 min, 1,024 MB" in magnetar("topic", "show", full).out
    assert "nothing is retained" in magnetar("topic", "show", topic).out
    magnetar("topic", "set", topic, "--retention-minutes", "60", "--retention-mb", "5")
    assert "60 min, 5 MB" in magnetar("topic", "show", topic).out


@pytest.mark.parametrize(("wrong", "right"), [("--limit", "--count"), ("--num", "--count"), ("--from", "--start")])
def test_options_of_other_tools_are_answered_with_ours(magnetar: Run, topic: str, wrong: str, right: str) -> None:
    ran = magnetar("message", "read", topic, wrong, "3")
    assert ran.code == 2
    assert f"run: magnetar message read {topic} {right} 3" in ran.err


def test_dry_run_of_reshape_shows_segments(magnetar: Run, broker: Standalone, name: str) -> None:
    full = f"topic://public/default/{name}"
    magnetar("topic", "create", full, "--segments", "2")
    split = magnetar("topic", "split", full, "0", "--dry-run").out
    assert "#0" in split
    assert "sealed, replaced by #2, #3" in split
    assert "0000-3fff  created from #0" in split
    assert "POST" not in split
    merged = magnetar("topic", "merge", full, "0", "1", "--dry-run").out
    assert "0000-ffff  created from #0, #1" in merged
    scaled = magnetar("topic", "scale", full, "4", "--dry-run").out
    assert scaled.count("created from") == 4
    assert magnetar("topic", "split", full, "9", "--dry-run").code != 0
    assert "steps" in scaled


def test_dry_run_of_deletion_and_seek_shows_what_is_lost(magnetar: Run, topic: str) -> None:
    magnetar("sub", "create", topic, "billing", "--start", "earliest")
    magnetar("message", "produce", topic, "one", "two")
    deleted = magnetar("topic", "delete", topic, "--dry-run").out
    assert "SUBSCRIPTION DELETED" in deleted
    assert "billing" in deleted
    assert "DELETE /admin" not in deleted
    moved = magnetar("subscription", "seek", topic, "billing", "--to", "10m", "--dry-run").out
    assert "which is" in moved
    assert "billing" in moved
    planned = magnetar("topic", "delete", topic, "--dry-run", "-o", "json").json
    assert [one["step"] for one in planned] == [f"delete persistent://public/default/{topic}"]


def test_dry_run_of_deletions_counts_messages_and_topics(shell: Run, magnetar: Run, name: str, topic: str) -> None:
    full = f"topic://public/{name}/t"
    magnetar("namespace", "create", f"public/{name}")
    magnetar("topic", "create", full)
    magnetar("sub", "create", full, "billing")
    assert shell(f"printf '1\\n2\\n3\\n' | magnetar message produce {full} -").code == 0
    for command in (("subscription", "delete"), ("subscription", "clear")):
        assert "not consumed" in (out := magnetar(*command, full, "billing", "--dry-run").out)
        assert " 3\n" in out
    moved = " ".join(magnetar("sub", "seek", full, "billing", "--to", "10m", "--dry-run").out.split())
    assert "to 10m, on every segment which is 2" in moved
    assert "not consumed now 3 consumers 0" in moved
    rebucket = magnetar("topic", "rebucket", full, "0", "4", "--dry-run").out
    assert "entry buckets now 1" in " ".join(rebucket.split())
    assert magnetar("topic", "rebucket", full, "9", "4", "--dry-run").code != 0
    gone = magnetar("namespace", "delete", f"public/{name}", "--dry-run").out
    assert "--force deletes them too" in gone
    assert full in magnetar("namespace", "delete", f"public/{name}", "--force", "--dry-run").out
    magnetar("sub", "create", topic, "billing")
    assert shell(f"printf '1\\n2\\n3\\n' | magnetar message produce {topic} -").code == 0
    for command in (("topic", "delete"), ("sub", "delete"), ("sub", "skip"), ("sub", "clear")):
        words = [topic] if command[0] == "topic" else [topic, "billing", *(["1"] if command[1] == "skip" else [])]
        out = magnetar(*command, *words, "--dry-run").out
        assert " 3\n" in out, out
