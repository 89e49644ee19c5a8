"""Names are asked for once a minute, and a broker that is silent is left alone for a while: on a real disk, with a
broker that is a table and a clock that stands still."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from magnetar.base.limits import COMPLETION_FILES_MAX, COMPLETION_FRESH_S, COMPLETION_SILENT_S
from magnetar.cli.completion.cache import CompletionCache, ask
from magnetar.cli.completion.candidates import RestQuery
from magnetar.client.admin.quick_get import QuickGet

TENANTS = RestQuery("/admin/v2/tenants", "tenants")


class Broker(QuickGet):
    """Answers from a table; None is silence. Its clock is that of the newest file, and stands still."""

    def __init__(self, folder: Path, answers: dict[str, object] | None) -> None:
        super().__init__("", token="", seconds=0)
        self.folder = folder
        self.answers = answers
        self.asked: list[str] = []
        self.ahead_s = 0.0

    @property
    def now_s(self) -> float:
        return max(one.stat().st_mtime for one in self.folder.iterdir()) + self.ahead_s

    def get(self, paths: Sequence[str]) -> list[bytes | None]:
        self.asked += paths
        self.was_answered = self.answers is not None
        found = self.answers or {}
        return [json.dumps(found[path]).encode() if path in found else None for path in paths]


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path / "cache", {TENANTS.path: ["public"]})


def memory(path: Path, broker: Broker, who: str = "me") -> CompletionCache:
    return CompletionCache(str(path / "cache"), broker, who=who)


def test_answer_is_cached_until_it_expires(tmp_path: Path, broker: Broker) -> None:
    for _ in range(3):
        assert memory(tmp_path, broker).answers([TENANTS]) == [["public"]]
    assert len(broker.asked) == 1
    broker.ahead_s = COMPLETION_FRESH_S
    assert memory(tmp_path, broker).answers([TENANTS]) == [["public"]]
    assert len(broker.asked) == 2


def test_other_token_does_not_see_cached_answer(tmp_path: Path, broker: Broker) -> None:
    memory(tmp_path, broker, "http://a\nsecret").answers([TENANTS])
    broker.answers = {}
    assert memory(tmp_path, broker, "http://a\nother").answers([TENANTS]) == [None]
    assert memory(tmp_path, broker, "http://a\nsecret").answers([TENANTS]) == [["public"]]
    assert not any("secret" in one.name for one in (tmp_path / "cache").iterdir())


def test_silent_broker_is_left_alone_for_while(tmp_path: Path, broker: Broker) -> None:
    broker.answers = None
    for _ in range(3):
        assert memory(tmp_path, broker).answers([TENANTS]) == [None]
    assert len(broker.asked) == 1
    broker.answers, broker.ahead_s = {TENANTS.path: ["public"]}, COMPLETION_SILENT_S
    assert memory(tmp_path, broker).answers([TENANTS]) == [["public"]]


def test_broker_that_says_no_is_asked_again(tmp_path: Path, broker: Broker) -> None:
    missing = RestQuery("/admin/v2/persistent/a/b/c/subscriptions", "names")
    assert memory(tmp_path, broker).answers([missing]) == [None]
    assert memory(tmp_path, broker).answers([missing, TENANTS]) == [None, ["public"]]
    assert len(broker.asked) == 3


def test_unreadable_cache_file_is_ignored(tmp_path: Path, broker: Broker) -> None:
    memory(tmp_path, broker).answers([TENANTS])
    (file,) = (tmp_path / "cache").iterdir()
    file.write_bytes(b"\xff{")
    assert memory(tmp_path, broker).answers([TENANTS]) == [None]
    file.unlink()
    file.mkdir()
    assert memory(tmp_path, broker).answers([TENANTS]) == [["public"]]


def test_files_are_their_owners_alone_and_not_too_many(tmp_path: Path, broker: Broker) -> None:
    for number in range(COMPLETION_FILES_MAX + 10):
        broker.answers = {f"/{number}": []}
        memory(tmp_path, broker).answers([RestQuery(f"/{number}", "names")])
    files = list((tmp_path / "cache").iterdir())
    assert len(files) <= COMPLETION_FILES_MAX
    assert {stat.S_IMODE(one.stat().st_mode) for one in files} == {0o600}
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700


def test_place_where_nothing_can_be_written_is_no_error(tmp_path: Path, broker: Broker) -> None:
    (tmp_path / "cache").write_text("a file")
    assert memory(tmp_path, broker).answers([TENANTS]) == [["public"]]


def test_nobody_there_offers_nothing(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path), "MAGNETAR_COMPLETION_S": "60"}
    assert ask("http://127.0.0.1:1", "", kind="tenant", word="", topic="", environment=environment) == []
    assert os.listdir(tmp_path / "magnetar" / "completion")
